"""Systems of the graph tasks whose training epochs can be timed.

They are those of a run of `gspen-ner train` if one is given, so that inference takes as many steps as at the
end of their training. Else each has been trained for a few updates, on what was trained for a few itself,
with the real data where `GSPEN_DATA` names them, or generated ones of the published size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from gspen_ner.hosts.huggingface.system_trainer import Examples, Trained, train_system
from gspen_ner.recipe import MultilabelRecipe, OCRRecipe, TaggingRecipe, load_recipe
from recipes.multilabel.run import read_source
from recipes.multilabel.systems import MultilabelSystems
from recipes.ocr.run import OCRRun
from recipes.studies.settings import SystemTraining
from recipes.tagging.run import read_images
from recipes.tagging.systems import TaggingSystems

Kind = TypeVar("Kind", OCRRecipe, MultilabelRecipe, TaggingRecipe)
UPDATES = {"unary": 300, "struct": 100, "spen": 20, "nlstruct": 4, "gspen": 20}
"""Of each system before it is timed, at most."""
BY_MESSAGES = "Struct, message passing"
_JUDGED_BY = 16  # examples of dev and test: what is timed is training
_NEVER = 1 << 30


class Contestant:
    """A system whose epochs are timed.

    Args:
        name: of the system.
        system: as it is trained; what others freeze later on, to stand on it, is trained here nevertheless.
        examples: what it learns from.
        training: how.
    """

    def __init__(self, name: str, system: nn.Module, examples: Examples, training: SystemTraining) -> None:
        self.name, self.system, self.examples, self.training = name, system, examples, training
        self._learned = {key for key, weight in system.named_parameters() if weight.requires_grad}

    def train(self, updates: int) -> Trained:
        """So many more updates."""
        for key, weight in self.system.named_parameters():
            weight.requires_grad_(key in self._learned)
        brief = self.training.model_copy(update={"max_updates": updates, "evaluate_every": _NEVER})
        return train_system(self.system, self.examples, self.examples.first(1), lambda *_: 0.0, brief, seed=1)


@dataclass(frozen=True)
class TimedTask:
    """A task of the table.

    Attributes:
        name: of the task.
        data: where its examples come from, for people to read.
        rows: training examples of a whole epoch.
        contestants: makes the systems, given a folder and the number of training examples that are used.
    """

    name: str
    data: str
    rows: int
    contestants: Callable[[Path, int], Iterator[Contestant]]


def timed_tasks(runs: Path | None = None) -> Iterator[TimedTask]:
    """OCR, tagging, Bibtex and Bookmarks, with the data that there are.

    Args:
        runs: holds run folders named ocr, tagging, bibtex and bookmarks, or some of them, from which the
            systems of these tasks are taken.
    """
    letters = _real("chars74k", "chars74k_fnt_28x28.npz")
    yield _task("OCR", "letters of Chars74k" if letters else "letters drawn from fonts", 1000, _ocr, runs)
    flickr = _real("mirflickr25k")
    source, rows = ("MIRFLICKR25k, tag features", 8006) if flickr else ("generated", 10_000)
    yield _task("tagging", source, rows, _tagging, runs)
    for name, rows in (("Bibtex", 3660), ("Bookmarks", 48_000)):
        source = name if _real(name.lower()) else "generated"
        yield _task(name, source, rows, partial(_multilabel, name.lower()), runs)


def _task(
    name: str,
    source: str,
    rows: int,
    contestants: Callable[[Path | None, Path, int], Iterator[Contestant]],
    runs: Path | None,
) -> TimedTask:
    run = None if runs is None else runs / name.lower()
    if run is None or not (run / "results.json").exists():
        return TimedTask(name, source, rows, partial(contestants, None))
    return TimedTask(name, f"{source}, trained", rows, partial(contestants, run))


def _real(*parts: str) -> Path | None:
    """A file or folder of the real data, if it is there."""
    place = Path(os.environ.get("GSPEN_DATA", ""), *parts)
    return place if "GSPEN_DATA" in os.environ and place.exists() else None


def _recipe(kind: type[Kind], name: str, run: Path | None, *changes: str) -> Kind:
    """The recipe of a run, or else that of a name, whose systems are trained for a few updates."""
    recipe = load_recipe(name, changes) if run is None else load_recipe(run / "recipe.yaml")
    assert isinstance(recipe, kind)
    if run is not None:
        return recipe
    brief = {}
    for system, updates in UPDATES.items():
        settings = getattr(recipe, system)
        few = {"max_updates": min(updates, settings.max_updates), "evaluate_every": _NEVER}
        brief[system] = settings.model_copy(update=few)
    return recipe.model_copy(update=brief)


def _by_messages(recipe: Kind) -> Kind:
    """The same with the paper's inference over pairs."""
    return recipe.model_copy(update={"graph": recipe.graph.model_copy(update={"inference": "messages"})})


def _ocr(run: Path | None, folder: Path, rows: int) -> Iterator[Contestant]:
    letters = _real("chars74k", "chars74k_fnt_28x28.npz")
    few = [f"data.dev={_JUDGED_BY}", f"data.test={_JUDGED_BY}", "alphas=[0.5]", f"size={rows}"]
    found = [] if letters is None else [f"data.letters={letters}"]
    recipe = _recipe(OCRRecipe, "ocr", run, *few, f"sizes=[{rows}]", *found)
    cells = OCRRun(recipe, run or folder)
    data, which = cells.data(recipe.alpha), (recipe.alpha, recipe.size, recipe.seeds[0])
    cell = cells.cell(data, *which)
    paper = OCRRun(_by_messages(recipe), run or folder).cell(data, *which)
    train = cell.scores["train"].first(rows)
    yield Contestant("Struct", cell.struct, train, recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, train, recipe.struct)
    for name in ("SPEN", "NLStruct", "GSPEN"):
        if (key := name.lower()) in recipe.systems:
            yield Contestant(name, getattr(cell, key)(), train, getattr(recipe, key))


def _tagging(run: Path | None, folder: Path, rows: int) -> Iterator[Contestant]:
    generated = ["data.name=generated", "data.features=1386", f"data.rows=[{rows},{_JUDGED_BY},{_JUDGED_BY}]"]
    recipe = _recipe(TaggingRecipe, "tagging", run, "folds=0", *([] if _real("mirflickr25k") else generated))
    data = read_images(recipe.data)
    systems, paper = (
        TaggingSystems(each, *_place(run, folder, recipe.seeds[0], data, rows))
        for each in (recipe, _by_messages(recipe))
    )
    yield from _contestants(systems, paper, systems.learned_from.first(rows), ("SPEN", "NLStruct", "GSPEN"))


def _multilabel(name: str, run: Path | None, folder: Path, rows: int) -> Iterator[Contestant]:
    features, labels = {"bibtex": (1836, 159), "bookmarks": (2150, 208)}[name]
    generated = [
        "data.format=generated", "data.folder=null", f"data.features={features}",
        f"data.labels={labels}", f"data.rows=[{rows},{_JUDGED_BY},{_JUDGED_BY}]",
    ]  # fmt: skip
    recipe = _recipe(MultilabelRecipe, name, run, *([] if _real(name) else generated))
    data = read_source(recipe.data)
    systems, paper = (
        MultilabelSystems(each, *_place(run, folder, recipe.seeds[0], data, rows))
        for each in (recipe, _by_messages(recipe))
    )
    yield from _contestants(systems, paper, systems.rows["train"].first(rows), ("SPEN", "GSPEN"))


def _place(run: Path | None, folder: Path, seed: int, data: Any, rows: int) -> tuple[Any, int, Path]:
    """Data, seed and folder of a run's systems, or those of systems to be trained a little."""
    return (_cut(data, rows), 1, folder) if run is None else (data, seed, run / f"seed-{seed}")


def _contestants(systems: Any, paper: Any, train: Examples, others: Sequence[str]) -> Iterator[Contestant]:
    yield Contestant("Struct", systems.struct, train, systems.recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, train, systems.recipe.struct)
    for name in others:
        if (key := name.lower()) in systems.recipe.systems:
            yield Contestant(name, getattr(systems, key), train, getattr(systems.recipe, key))


def _cut(data: Any, rows: int) -> Any:
    """The first training examples, and few others."""
    few = {
        name: replace(split, features=split.features[:count], labels=split.labels[:count])
        for name, split, count in (
            ("train", data.train, rows),
            ("dev", data.dev, _JUDGED_BY),
            ("test", data.test, _JUDGED_BY),
        )
    }
    return replace(data, **few)
