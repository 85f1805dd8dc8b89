"""Systems of the studies whose training epochs can be timed.

They come from the run of a study if one is given, so that inference takes as many steps as at the end of
training. Otherwise each system is trained for a few updates, on the real data if `GSPEN_DATA` names it, or on
generated data of the published size.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gspen_ner.recipe import load_settings
from gspen_ner.training import Examples, System, TensorTraining, Trained, fit
from recipes.multilabel.study import MultilabelStudy
from recipes.ocr.study import OCRStudy
from recipes.studies.command import Study
from recipes.studies.systems import StudySystems
from recipes.tagging.study import TaggingStudy

UPDATES = {"unary": 300, "struct": 100, "spen": 20, "nlstruct": 4, "gspen": 20}
"""Largest number of updates of each system before it is timed."""
BY_MESSAGES = "Struct, message passing"
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
    """Yield OCR, tagging, Bibtex and Bookmarks, with the data at hand.

    Args:
        runs: folder with run folders named ocr, tagging, bibtex and bookmarks, or some of them, whose systems
            are timed.
    """
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
    train, dev, test = systems.data.splits.values()
    few_rows = {"train": train.first(rows), "dev": dev.first(_DEV_ROWS), "test": test.first(_DEV_ROWS)}
    systems.data = replace(systems.data, **few_rows)
    return _contestants(systems, rows)


def _contestants(systems: StudySystems, rows: int) -> Iterator[Contestant]:
    """Yield the systems that the paper timed, among them Struct with the paper's inference over pairs."""
    recipe, paper = systems.recipe, copy.copy(systems)
    messages = recipe.graph.model_copy(update={"inference": "messages"})
    paper.recipe = recipe.model_copy(update={"graph": messages})
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
