"""The five systems of the paper on one set of words, each standing on the ones before it.

    Unary -> Struct -> GSPEN
          -> Struct without entropy -> NLStruct
          -> SPEN

Their folders are those of `SystemFolder`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from gspen_ner.scorers.pair_tables import PairTables
from torch import Tensor

from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import Chain, LocalPolytope, Polytope
from gspen_ner.recipe import Inference
from gspen_ner.systems import GraphSystem, UnarySystem
from recipes.ocr.letter_net import LetterNet
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.words import SPLITS, WORD_LENGTH, OCRData, letter_accuracy, word_accuracy
from recipes.studies.settings import SystemTraining
from recipes.studies.system_folder import System, SystemFolder
from recipes.studies.task_graph import TaskGraph, frozen

logger = logging.getLogger(__name__)
NUM_LABELS = 26
WORD = TaskGraph(WORD_LENGTH, NUM_LABELS, tuple(pairwise(range(WORD_LENGTH))))


@dataclass(frozen=True)
class SystemResult:
    """What came out of one training."""

    system: str
    alpha: float
    size: int
    seed: int
    hidden: int
    dev_words: float
    dev_letters: float
    test_words: float
    test_letters: float
    updates: int
    seconds_an_epoch: float
    inference_steps: float
    negative_losses: float


class Cell:
    """The systems of one alpha, training size and seed.

    Args:
        recipe: how each is made and trained.
        data: the words, all with the same alpha.
        alpha: for the records.
        size: training words that are used.
        seed: of weights, dropout and order.
        folder: where results go.
    """

    def __init__(
        self, recipe: OCRRecipe, data: OCRData, alpha: float, size: int, seed: int, folder: Path
    ) -> None:
        self.recipe, self.alpha, self.size, self.seed = recipe, alpha, size, seed
        self.systems = SystemFolder(folder, seed)
        self.images = {name: Examples(data[name].images, data[name].labels) for name in SPLITS}
        self.images["train"] = self.images["train"].first(size)

    @cached_property
    def unary(self) -> UnarySystem:
        """Letters by themselves."""
        settings = self.recipe.unary
        return self._system(
            "unary",
            lambda: UnarySystem(LetterNet(NUM_LABELS, hidden=settings.hidden, dropout=settings.dropout)),
            settings,
            self.images,
            settings.hidden,
            letter_accuracy,  # words are all wrong for long
        )

    @cached_property
    def scores(self) -> dict[str, Examples]:
        """Unary's scores, which all other systems stand on."""
        self.unary.eval()
        with torch.no_grad():
            return {
                name: Examples(self.unary.scores(examples.inputs), examples.labels)
                for name, examples in self.images.items()
            }

    @cached_property
    def struct(self) -> GraphSystem:
        """Neighbouring letters, trained with entropy."""
        return self._struct("struct", 1.0)

    @cached_property
    def struct_without_entropy(self) -> GraphSystem:
        """The same without."""
        return self._struct("struct_without_entropy", 0.0)

    def _struct(self, name: str, temperature: float) -> GraphSystem:
        settings = self.recipe.struct

        def make() -> GraphSystem:
            pairs = PairTables(len(WORD.edges), NUM_LABELS)
            return GraphSystem(self.over_graph, pairs, temperature=temperature, cost=settings.cost)

        return self._system(name, make, settings, self.scores)

    def spen(self) -> GraphSystem:
        """A global term over single letters."""
        settings = self.recipe.spen

        def make(hidden: int) -> GraphSystem:
            reads = {"read_potentials": settings.read_potentials}
            head = WORD.head("region_mlp", settings.inference, hidden, with_edges=False, **reads)
            return GraphSystem(WORD.over_nodes, head=head)

        return self._best_hidden("spen", make, settings, settings.hidden)

    def gspen(
        self,
        name: str = "gspen",
        base: GraphSystem | None = None,
        inference: Inference | None = None,
        max_updates: int | None = None,
    ) -> GraphSystem:
        """A global term over letters and their neighbours; by default the recipe's, over Struct."""
        settings = self.recipe.gspen
        pairs = frozen((base or self.struct).pairs)

        def make(hidden: int) -> GraphSystem:
            reads = {"read_potentials": settings.read_potentials}
            head = WORD.head("region_mlp", inference or settings.inference, hidden, with_edges=True, **reads)
            return GraphSystem(self.over_graph, pairs, head)

        training = settings.model_copy(update={"max_updates": max_updates or settings.max_updates})
        return self._best_hidden(name, make, training, settings.hidden)

    def nlstruct(self) -> GraphSystem:
        """A nonlinear function of the scores, over Struct without entropy."""
        settings = self.recipe.nlstruct
        pairs = frozen(self.struct_without_entropy.pairs)

        def make() -> GraphSystem:
            head = WORD.head("nlstruct", settings.inference, settings.hidden, with_edges=True)
            return GraphSystem(self.over_graph, pairs, head)

        scores = self.scores | {"dev": self.scores["dev"].first(settings.dev_examples)}
        return self._system("nlstruct", make, settings, scores, settings.hidden or 0)

    def result(self, name: str) -> SystemResult:
        """The record of a system that has been trained."""
        return SystemResult(**self.systems.result(name))

    def over_graph(self, batch: int) -> Polytope:
        """The chain of a word's letters, by the recipe's kind of inference."""
        if self.recipe.graph.inference == "exact":
            return Chain(torch.full((batch,), WORD_LENGTH))
        return self._local

    @cached_property
    def _local(self) -> LocalPolytope:
        return LocalPolytope(WORD.factor_graph(), "unit", max_sweeps=self.recipe.graph.sweeps, tolerance=0.0)

    def _best_hidden(
        self,
        name: str,
        make: Callable[[int], GraphSystem],
        training: SystemTraining,
        sizes: tuple[int, ...],
    ) -> GraphSystem:
        """The system with as many hidden units as are best on dev."""
        if len(sizes) == 1:
            return self._system(name, lambda: make(sizes[0]), training, self.scores, sizes[0])
        tried = {f"{name}-{size}": size for size in sizes}
        for other, size in tried.items():
            self._system(other, lambda size=size: make(size), training, self.scores, size)  # type: ignore[misc]
        best = max(tried, key=lambda other: self.result(other).dev_words)
        if not self.systems.has(name):
            result = replace(self.result(best), system=name)
            self.systems.write(name, self.systems.weights(best), asdict(result))
        return self._system(name, lambda: make(tried[best]), training, self.scores, tried[best])

    def _system(
        self,
        name: str,
        make: Callable[[], System],
        training: SystemTraining,
        data: dict[str, Examples],
        hidden: int = 0,
        score: Callable[[Tensor, Tensor], float] = word_accuracy,
    ) -> System:
        """A trained system: read, if it is there, else trained and written."""

        def train(system: System) -> dict[str, Any]:
            found = train_system(system, data["train"], data["dev"], score, training, self.seed)
            labels = {split: predictions(system, data[split].inputs) for split in ("dev", "test")}
            gold = {split: data[split].labels for split in labels}
            words, letters = (
                {split: 100 * measure(labels[split], gold[split]) for split in labels}
                for measure in (word_accuracy, letter_accuracy)
            )
            result = SystemResult(
                name, self.alpha, self.size, self.seed, hidden,
                words["dev"], letters["dev"], words["test"], letters["test"],
                found.updates, found.seconds_an_epoch, found.inference_steps, found.negative_losses,
            )  # fmt: skip
            logger.info(
                "%s, alpha %g, size %d, seed %d: "
                "test words %.1f %%, letters %.1f %%, %d updates, %.2f s/epoch",
                name, self.alpha, self.size, self.seed, result.test_words, result.test_letters,
                result.updates, result.seconds_an_epoch,
            )  # fmt: skip
            return asdict(result)

        return self.systems.system(name, make, train)
