"""Systems of the studies whose training epochs can be timed.

They come from the run of a study if one is given, so that inference takes as many steps as at the end of
training. Otherwise each system is trained for a few updates, on the real data if `GSPEN_DATA` names it, or on
generated data of the published size.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from gspen_ner.recipe import load_settings
from gspen_ner.training import Examples, System, TensorTraining, Trained, fit
from recipes.multilabel.settings import MultilabelRecipe
from recipes.multilabel.study import read_rows
from recipes.multilabel.systems import MultilabelSystems
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.study import OCRStudy
from recipes.studies.data import StudyData
from recipes.studies.settings import StudyRecipe
from recipes.studies.systems import StudySystems
from recipes.tagging.settings import TaggingRecipe
from recipes.tagging.study import read_images
from recipes.tagging.systems import TaggingSystems

Recipe = TypeVar("Recipe", bound=StudyRecipe)
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
    """A task of the table.

    Attributes:
        name: name of the task.
        data: where its examples come from, for people to read.
        rows: number of training examples of a whole epoch.
        contestants: makes the systems, given a folder and the number of training examples to use.
    """

    name: str
    data: str
    rows: int
    contestants: Callable[[Path, int], Iterator[Contestant]]


def timed_tasks(runs: Path | None = None) -> Iterator[TimedTask]:
    """Yield OCR, tagging, Bibtex and Bookmarks, with the data at hand.

    Args:
        runs: folder with run folders named ocr, tagging, bibtex and bookmarks, or some of them, whose systems
            are timed.
    """
    letters = _real_data("chars74k", "chars74k_fnt_28x28.npz")
    yield _task("OCR", "letters of Chars74k" if letters else "letters drawn from fonts", 1000, _ocr, runs)
    source, rows = (
        ("MIRFLICKR25k, tag features", 8006) if _real_data("mirflickr25k") else ("generated", 10_000)
    )
    yield _task("tagging", source, rows, _tagging, runs)
    for name, rows in (("Bibtex", 3660), ("Bookmarks", 48_000)):
        source = name if _real_data(name.lower()) else "generated"
        yield _task(name, source, rows, partial(_multilabel, name.lower()), runs)


def _task(
    name: str,
    source: str,
    rows: int,
    systems: Callable[[Path | None, Path, int], StudySystems],
    runs: Path | None,
) -> TimedTask:
    run = None if runs is None else runs / name.lower()
    if run is not None and not (run / "results.json").exists():
        run = None
    others = ("SPEN", "GSPEN") if name in ("Bibtex", "Bookmarks") else ("SPEN", "NLStruct", "GSPEN")

    def contestants(folder: Path, used: int) -> Iterator[Contestant]:
        return _contestants(systems(run, folder, used), used, others)

    return TimedTask(name, source if run is None else f"{source}, trained", rows, contestants)


def _contestants(systems: StudySystems, rows: int, others: Sequence[str]) -> Iterator[Contestant]:
    """Yield the systems, among them Struct with the paper's inference over pairs."""
    recipe, paper = systems.recipe, copy.copy(systems)
    messages = recipe.graph.model_copy(update={"inference": "messages"})
    paper.recipe = recipe.model_copy(update={"graph": messages})
    examples = systems.versions[0].first(rows)
    yield Contestant("Struct", systems.struct, examples, recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, examples, recipe.struct)
    for name in others:
        if (key := name.lower()) in recipe.systems:
            yield Contestant(name, getattr(systems, key), examples, getattr(recipe, key))


def _ocr(run: Path | None, folder: Path, rows: int) -> StudySystems:
    letters = _real_data("chars74k", "chars74k_fnt_28x28.npz")
    changes = [f"data.dev={_DEV_ROWS}", f"data.test={_DEV_ROWS}", "alphas=[0.5]", f"size={rows}"]
    changes += [f"sizes=[{rows}]", *([] if letters is None else [f"data.letters={letters}"])]
    recipe = _recipe(OCRRecipe, "ocr/ocr.yaml", run, changes)
    study = OCRStudy(recipe, run or folder)
    return study.systems(study.data(recipe.alpha), recipe.alpha, recipe.size, recipe.seeds[0])


def _tagging(run: Path | None, folder: Path, rows: int) -> StudySystems:
    generated = ["data.name=generated", "data.features=1386", f"data.rows=[{rows},{_DEV_ROWS},{_DEV_ROWS}]"]
    changes = ["scores.name=plain", *([] if _real_data("mirflickr25k") else generated)]
    recipe = _recipe(TaggingRecipe, "tagging/tagging.yaml", run, changes)
    return TaggingSystems(recipe, *_data_and_folder(read_images(recipe.data), recipe, run, folder, rows))


def _multilabel(name: str, run: Path | None, folder: Path, rows: int) -> StudySystems:
    features, labels = {"bibtex": (1836, 159), "bookmarks": (2150, 208)}[name]
    generated = [
        "data.format=generated", "data.folder=null", f"data.features={features}",
        f"data.labels={labels}", f"data.rows=[{rows},{_DEV_ROWS},{_DEV_ROWS}]",
    ]  # fmt: skip
    changes = [] if _real_data(name) else generated
    recipe = _recipe(MultilabelRecipe, f"multilabel/{name}.yaml", run, changes)
    return MultilabelSystems(recipe, *_data_and_folder(read_rows(recipe.data), recipe, run, folder, rows))


def _recipe(settings: type[Recipe], file: str, run: Path | None, changes: Sequence[str]) -> Recipe:
    """Return the recipe of a run, or a study's recipe with few updates of each system."""
    if run is not None:
        return load_settings(run / "recipe.yaml", settings)
    recipe = load_settings(_RECIPES / file, settings, changes)
    brief = {}
    for system, updates in UPDATES.items():
        training = getattr(recipe, system)
        few = {"max_updates": min(updates, training.max_updates), "evaluate_every": _NEVER}
        brief[system] = training.model_copy(update=few)
    return recipe.model_copy(update=brief)


def _data_and_folder(
    data: StudyData, recipe: StudyRecipe, run: Path | None, folder: Path, rows: int
) -> tuple[StudyData, int, Path]:
    """Return data, seed and folder of a run's systems, or of systems to be trained with few examples."""
    if run is not None:
        return data, recipe.seeds[0], run / f"seed-{recipe.seeds[0]}"
    dev, test = data.dev.first(_DEV_ROWS), data.test.first(_DEV_ROWS)
    return replace(data, train=data.train.first(rows), dev=dev, test=test), 1, folder


def _real_data(*parts: str) -> Path | None:
    """Return a file or folder of the real data, if it exists."""
    path = Path(os.environ.get("GSPEN_DATA", ""), *parts)
    return path if "GSPEN_DATA" in os.environ and path.exists() else None
