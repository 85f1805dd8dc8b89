"""The paper's table of run times: an epoch of every system on every task, as a multiple of Struct's.

All systems of a task are trained in alternating rounds in one process; a time is their median. Struct is
timed twice: with exact inference, as in the recipes, and by message passing with the paper's sweeps.

The systems come from the run of a study if one is given, so that inference takes as many steps as at the end
of training. Otherwise each is trained for a few updates, on the real data if `GSPEN_DATA` names it, or on
generated data of the published size.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from gspen_ner.polytopes import LocalPolytope
from gspen_ner.recipe import load_settings
from gspen_ner.training import Examples, System, TensorTraining, Trained, fit
from recipes.bench.timing import take_rounds
from recipes.bench.training import CRF_EPOCH, run_training
from recipes.multilabel.study import MultilabelStudy
from recipes.ocr.study import OCRStudy
from recipes.studies.command import Study
from recipes.studies.results import make_table
from recipes.studies.systems import StudySystems
from recipes.tagging.study import TaggingStudy

PAPER_SECONDS = {
    "OCR": {"Struct": 0.40, "SPEN": 0.60, "NLStruct": 68.56, "GSPEN": 8.41},
    "tagging": {"Struct": 18.85, "SPEN": 30.49, "NLStruct": 208.96, "GSPEN": 171.65},
    "Bibtex": {"Struct": 0.36, "SPEN": 11.75, "GSPEN": 13.87},
    "Bookmarks": {"Struct": 6.05, "SPEN": 94.44, "GSPEN": 234.33},
    "NER": {"Struct": 29.16, "GSPEN": 99.83},
}
"""Table 1 of the paper, on its authors' hardware."""
_SENTENCES_A_DOCUMENT = 15  # of CoNLL-2003
UPDATES = {"unary": 300, "struct": 100, "spen": 20, "nlstruct": 4, "gspen": 20}
"""Largest number of updates of each system before it is timed."""
BY_MESSAGES = "Struct, message passing"
PAPER_SWEEPS = {"tagging": 100, "multilabel": 5}
"""Sweeps of message passing in the paper."""
_DEV_ROWS = 16  # examples of dev and test: only training is timed
_NEVER = 1 << 30
_RECIPES = Path(__file__).parents[1]


class Contestant:
    """A system whose epochs are timed.

    Args:
        name: name of the system.
        system: the system; parameters that later systems freeze are still trained here.
        examples: examples to learn from.
        training: how it is trained.
    """

    def __init__(self, name: str, system: System, examples: Examples, training: TensorTraining) -> None:
        self.name, self.system, self.examples, self.training = name, system, examples, training
        self._learned = {key for key, weight in system.named_parameters() if weight.requires_grad}

    def train(self, updates: int) -> Trained:
        """Train for a number of updates."""
        for key, weight in self.system.named_parameters():
            weight.requires_grad_(key in self._learned)
        brief = self.training.model_copy(update={"max_updates": updates, "evaluate_every": _NEVER})
        return fit(self.system, self.examples, self.examples.first(1), lambda *_: 0.0, brief, seed=1)


@dataclass(frozen=True)
class TimedTask:
    """A task of the table, and the source of its examples."""

    name: str
    data: str
    rows: int
    """Number of training examples of a whole epoch."""
    contestants: Callable[[Path, int], Iterator[Contestant]]
    """Makes the systems, given a folder and the number of training examples to use."""


def timed_tasks(runs: Path | None = None) -> Iterator[TimedTask]:
    """Yield OCR, tagging, Bibtex and Bookmarks, with the data at hand or from the runs of a folder."""
    letters = _real_data("chars74k", "chars74k_fnt_28x28.npz")
    source = "letters of Chars74k" if letters else "letters drawn from fonts"
    changes = ["alphas=[0.5]", "sizes=[ROWS]", "size=ROWS", f"data.dev={_DEV_ROWS}", f"data.test={_DEV_ROWS}"]
    changes += [f"data.letters={letters}"] if letters else []
    yield _task("OCR", source, 1000, OCRStudy, "ocr/ocr.yaml", changes, runs)

    generated = f"data.rows=[ROWS,{_DEV_ROWS},{_DEV_ROWS}]"
    source, rows, changes = "MIRFLICKR25k, tag features", 8006, ["scores.name=plain"]
    if not _real_data("mirflickr25k"):
        source, rows = "generated", 10_000
        changes += ["data.name=generated", "data.features=1386", generated]
    yield _task("tagging", source, rows, TaggingStudy, "tagging/tagging.yaml", changes, runs)

    for name, rows, features, labels in (("Bibtex", 3660, 1836, 159), ("Bookmarks", 48_000, 2150, 208)):
        source, changes = name, []
        if not _real_data(name.lower()):
            source, changes = "generated", ["data.format=generated", "data.folder=null", generated]
            changes += [f"data.features={features}", f"data.labels={labels}"]
        yield _task(name, source, rows, MultilabelStudy, f"multilabel/{name.lower()}.yaml", changes, runs)


def _task(
    name: str, source: str, rows: int, study: type[Study], file: str, changes: list[str], runs: Path | None
) -> TimedTask:
    """Return a task whose systems are those of its run, if there is one, or else of a changed recipe."""
    run = runs and runs / name.lower()
    if run and (run / "results.json").exists():
        return TimedTask(name, f"{source}, trained", rows, partial(_of_run, study, run))
    return TimedTask(name, source, rows, partial(_of_recipe, study, _RECIPES / file, changes))


def _of_run(study: type[Study], run: Path, folder: Path, rows: int) -> Iterator[Contestant]:
    recipe: Any = load_settings(run / "recipe.yaml", study.settings)
    return _contestants(study(recipe, run).systems(recipe.seeds[0]), rows)


def _of_recipe(
    study: type[Study], file: Path, changes: list[str], folder: Path, rows: int
) -> Iterator[Contestant]:
    """Train the systems of a recipe for a few updates, with ROWS in the changes replaced by a number."""
    recipe: Any = load_settings(file, study.settings, [c.replace("ROWS", str(rows)) for c in changes])
    brief = {}
    for system, updates in UPDATES.items():
        training = getattr(recipe, system)
        few = {"max_updates": min(updates, training.max_updates), "evaluate_every": _NEVER}
        brief[system] = training.model_copy(update=few)
    systems = study(recipe.model_copy(update=brief), folder).systems(recipe.seeds[0])
    data = systems.data
    dev, test = data.dev.first(_DEV_ROWS), data.test.first(_DEV_ROWS)
    systems.data = replace(data, train=data.train.first(rows), dev=dev, test=test)
    return _contestants(systems, rows)


def _contestants(systems: StudySystems, rows: int) -> Iterator[Contestant]:
    """Yield the systems that the paper timed, among them Struct with the paper's inference over pairs."""
    recipe, paper = systems.recipe, copy.copy(systems)
    sweeps = PAPER_SWEEPS[recipe.task]
    paper.polytope = LocalPolytope(
        systems.graph.factors(), max_sweeps=sweeps, tolerance=0.0, oracle_sweeps=sweeps
    )
    examples = systems.versions[0].first(rows)
    yield Contestant("Struct", systems.struct, examples, recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, examples, recipe.struct)
    for name in ("SPEN", "GSPEN") if recipe.task == "multilabel" else ("SPEN", "NLStruct", "GSPEN"):
        if (key := name.lower()) in recipe.systems:
            yield Contestant(name, getattr(systems, key), examples, getattr(recipe, key))


def _real_data(*parts: str) -> Path | None:
    """Return a file or folder of the real data, if it exists."""
    path = Path(os.environ.get("GSPEN_DATA", ""), *parts)
    return path if "GSPEN_DATA" in os.environ and path.exists() else None


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a system; ratios are None for Struct itself and where there is nothing to compare with."""

    task: str
    data: str
    system: str
    seconds: float
    """Seconds of a whole epoch, scaled if a part of one was timed."""
    steps: float
    """Mean number of inference steps of a training example."""
    times_struct: float | None
    times_messages: float | None
    """Time relative to Struct by message passing."""
    paper: float | None
    """The paper's ratio."""


def time_task(
    task: TimedTask, rows: int, rounds: int, tick: Callable[[], None] = lambda: None
) -> list[EpochRow]:
    """Time all systems of a task on at most `rows` examples; `tick` is called after each round."""
    used, steps = min(rows, task.rows), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        contestants = list(task.contestants(Path(folder), used))

        def epoch(contestant: Contestant) -> float:
            batch = contestant.training.batch_size
            updates = -(-used // batch)
            trained = contestant.train(updates)
            steps[contestant.name] = trained.inference_steps
            if contestant is contestants[-1]:
                tick()
            return trained.seconds_an_epoch / updates * -(-task.rows // batch)

        milliseconds = take_rounds({one.name: partial(epoch, one) for one in contestants}, rounds)
    seconds = {name: value / 1e3 for name, value in milliseconds.items()}
    return list(_rows(task.name, task.data, seconds, steps))


def time_ner(rows: int, rounds: int) -> list[EpochRow]:
    """Time the CRF of CoNLL-2003 (or of generated news) and the paper's term on top of it."""
    documents = max(2, rows // _SENTENCES_A_DOCUMENT)
    case, measured, steps = run_training(documents, rounds, terms=("padded_mlp",))
    over_crf = [row for row in measured if row.peer == CRF_EPOCH]
    seconds = {"Struct": over_crf[0].peer_ms / 1e3} | {row.what: row.ours_ms / 1e3 for row in over_crf}
    return list(_rows("NER", f"{case}, not scaled", seconds, steps))


def _rows(task: str, data: str, seconds: dict[str, float], steps: dict[str, float]) -> Iterator[EpochRow]:
    paper = PAPER_SECONDS[task]
    for name, value in seconds.items():
        system = name.partition(" ")[0]
        to_struct = None if name == "Struct" else value / seconds["Struct"]
        compared = BY_MESSAGES in seconds and name != BY_MESSAGES
        to_messages = value / seconds[BY_MESSAGES] if compared else None
        ratio = paper[system] / paper["Struct"] if system in paper and system != "Struct" else None
        yield EpochRow(task, data, name, value, steps.get(name, 0.0), to_struct, to_messages, ratio)


def as_table(rows: Sequence[EpochRow]) -> Table:
    """Return the rows as a table that marks each ratio that is not below the paper's."""
    cells = [
        {
            "task": row.task,
            "data": row.data,
            "system": row.system,
            "seconds": f"{row.seconds:.3g}",
            "steps": f"{row.steps:.1f}",
            "times Struct": _ratio(row.times_struct, row.paper),
            "times Struct by messages": _ratio(row.times_messages, row.paper),
            "the paper's": "" if row.paper is None else f"{row.paper:.2f}",
        }
        for row in rows
    ]
    title = "an epoch of training, and as a multiple of Struct's"
    return make_table(title, cells, text=("task", "data", "system"), sections=True)


def _ratio(value: float | None, paper: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" + ("" if paper is None or value < paper else " ABOVE")
