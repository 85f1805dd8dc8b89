"""Systems of the graph tasks whose training epochs can be timed, without training them first.

Each system has been trained for a few updates, on what has been trained for a few updates itself: inference
takes steps by then, if not yet as many as at the end. Data are the real ones where `GSPEN_DATA` names them,
else generated ones of the published size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from gspen_ner.experiments.multilabel_run import read_source
from gspen_ner.experiments.multilabel_systems import MultilabelSystems
from gspen_ner.experiments.ocr_run import OCRRun
from gspen_ner.experiments.tagging_run import read_images
from gspen_ner.experiments.tagging_systems import TaggingSystems
from gspen_ner.hosts.huggingface.system_trainer import Examples, Trained, train_system
from gspen_ner.recipe import MultilabelRecipe, OCRRecipe, TaggingRecipe, load_recipe
from gspen_ner.recipe.systems import SystemTraining

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


def timed_tasks() -> Iterator[TimedTask]:
    """OCR, tagging, Bibtex and Bookmarks, with the data that there are."""
    letters = _real("chars74k", "chars74k_fnt_28x28.npz")
    yield TimedTask("OCR", "letters of Chars74k" if letters else "letters drawn from fonts", 1000, _ocr)
    flickr = _real("mirflickr25k")
    rows = 8006 if flickr else 10_000
    yield TimedTask("tagging", "MIRFLICKR25k, tag features" if flickr else "generated", rows, _tagging)
    for name, rows in (("bibtex", 3660), ("bookmarks", 48_000)):
        source = name.title() if _real(name) else "generated"
        yield TimedTask(name.title(), source, rows, _multilabel(name, rows))


def _real(*parts: str) -> Path | None:
    """A file or folder of the real data, if it is there."""
    place = Path(os.environ.get("GSPEN_DATA", ""), *parts)
    return place if "GSPEN_DATA" in os.environ and place.exists() else None


def _recipe(kind: type[Kind], name: str, *changes: str) -> Kind:
    """A recipe whose systems are trained for a few updates."""
    recipe = load_recipe(name, changes)
    assert isinstance(recipe, kind)
    brief = {}
    for system, updates in UPDATES.items():
        settings = getattr(recipe, system)
        few = {"max_updates": min(updates, settings.max_updates), "evaluate_every": _NEVER}
        brief[system] = settings.model_copy(update=few)
    return recipe.model_copy(update=brief)


def _by_messages(recipe: Kind) -> Kind:
    """The same with the paper's inference over pairs."""
    return recipe.model_copy(update={"graph": recipe.graph.model_copy(update={"inference": "messages"})})


def _ocr(folder: Path, rows: int) -> Iterator[Contestant]:
    letters = _real("chars74k", "chars74k_fnt_28x28.npz")
    few = [f"data.dev={_JUDGED_BY}", f"data.test={_JUDGED_BY}", "alphas=[0.5]", f"size={rows}"]
    found = [] if letters is None else [f"data.letters={letters}"]
    recipe = _recipe(OCRRecipe, "ocr", *few, f"sizes=[{rows}]", *found)
    run = OCRRun(recipe, folder)
    data = run.data(0.5)
    cell = run.cell(data, 0.5, rows, 1)
    paper = OCRRun(_by_messages(recipe), folder).cell(data, 0.5, rows, 1)
    train = cell.scores["train"]
    yield Contestant("Struct", cell.struct, train, recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, train, recipe.struct)
    yield Contestant("SPEN", cell.spen(), train, recipe.spen)
    yield Contestant("NLStruct", cell.nlstruct(), train, recipe.nlstruct)
    yield Contestant("GSPEN", cell.gspen(), train, recipe.gspen)


def _tagging(folder: Path, rows: int) -> Iterator[Contestant]:
    generated = ["data.name=generated", "data.features=1386", f"data.rows=[{rows},{_JUDGED_BY},{_JUDGED_BY}]"]
    recipe = _recipe(TaggingRecipe, "tagging", "folds=0", *([] if _real("mirflickr25k") else generated))
    data = _cut(read_images(recipe.data), rows)
    systems = TaggingSystems(recipe, data, 1, folder)
    paper = TaggingSystems(_by_messages(recipe), data, 1, folder)
    train = systems.learned_from
    yield Contestant("Struct", systems.struct, train, recipe.struct)
    yield Contestant(BY_MESSAGES, paper.struct, train, recipe.struct)
    for name in ("SPEN", "NLStruct", "GSPEN"):
        yield Contestant(name, getattr(systems, name.lower()), train, getattr(recipe, name.lower()))


def _multilabel(name: str, whole: int) -> Callable[[Path, int], Iterator[Contestant]]:
    def contestants(folder: Path, rows: int) -> Iterator[Contestant]:
        features, labels = {"bibtex": (1836, 159), "bookmarks": (2150, 208)}[name]
        generated = [
            "data.format=generated", "data.folder=null", f"data.features={features}",
            f"data.labels={labels}", f"data.rows=[{rows},{_JUDGED_BY},{_JUDGED_BY}]",
        ]  # fmt: skip
        recipe = _recipe(MultilabelRecipe, name, *([] if _real(name) else generated))
        data = _cut(read_source(recipe.data), rows)
        systems = MultilabelSystems(recipe, data, 1, folder)
        paper = MultilabelSystems(_by_messages(recipe), data, 1, folder)
        train = systems.rows["train"]
        yield Contestant("Struct", systems.struct, train, recipe.struct)
        yield Contestant(BY_MESSAGES, paper.struct, train, recipe.struct)
        for system in ("SPEN", "GSPEN"):
            yield Contestant(system, getattr(systems, system.lower()), train, getattr(recipe, system.lower()))

    return contestants


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
