"""The five systems on one multilabel data set, each standing on the ones before it.

    Unary -> Struct -> NLStruct
          -> SPEN -> GSPEN: pairs learned under the SPEN, which stays as it is

The graph is a star: the most frequent label in the middle, all others around it. Predictions are the labels
whose belief is above a threshold, chosen on dev.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gspen_ner.experiments.system_folder import System, SystemFolder
from gspen_ner.graphs import FactorGraph
from gspen_ner.head import GSPENHead, make_head
from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import LocalPolytope, Polytope, Simplex, Tree
from gspen_ner.recipe import Inference
from gspen_ner.recipe.multilabel import MultilabelRecipe
from gspen_ner.recipe.systems import SystemTraining
from gspen_ner.scorers.feature_net import FeatureNet, PairNet
from gspen_ner.systems import GraphSystem, UnarySystem
from gspen_ner.tasks.multilabel import (
    MultilabelData,
    best_threshold,
    example_f1,
    most_frequent_label,
    star_edges,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MultilabelResult:
    """What came out of one training; F1 in per cent, averaged over examples."""

    system: str
    seed: int
    threshold: float
    dev_f1: float
    test_f1: float
    updates: int
    seconds_an_epoch: float
    inference_steps: float
    negative_losses: float


class MultilabelSystems:
    """The systems of one seed.

    Args:
        recipe: how each is made and trained.
        data: rows.
        seed: of weights, dropout and order.
        folder: where results go.
    """

    def __init__(self, recipe: MultilabelRecipe, data: MultilabelData, seed: int, folder: Path) -> None:
        self.recipe, self.seed, self.systems = recipe, seed, SystemFolder(folder, seed)
        self.examples = {
            name: Examples(split.features, split.labels)
            for name, split in (("train", data.train), ("dev", data.dev), ("test", data.test))
        }
        self.features, self.labels = data.train.features.shape[1], data.train.labels.shape[1]
        self.edges = star_edges(most_frequent_label(data.train.labels), self.labels)

    def train(self, names: Sequence[str]) -> list[MultilabelResult]:
        """Train Unary and the systems named, and those that they stand on."""
        found = {"unary": self.unary}
        for name in names:
            found[name] = getattr(self, name)
        return [MultilabelResult(**self.systems.result(name)) for name in found]

    @cached_property
    def unary(self) -> UnarySystem:
        """Labels by themselves."""
        settings = self.recipe.unary

        def make() -> UnarySystem:
            options = settings.model_dump(include={"hidden", "input_dropout", "hidden_dropout", "flips"})
            return UnarySystem(FeatureNet(self.features, self.labels, **options), scale=self.labels)

        return self._system("unary", make, settings)

    @cached_property
    def struct(self) -> GraphSystem:
        """Pairs with the most frequent label."""
        settings = self.recipe.struct

        def make() -> GraphSystem:
            return GraphSystem(
                self.over_graph,
                self._pairs(settings.hidden),
                scorer=self._frozen_scorer,
                temperature=settings.temperature,
                cost=settings.cost,
            )

        return self._system("struct", make, settings)

    @cached_property
    def spen(self) -> GraphSystem:
        """A global term over labels by themselves."""
        settings = self.recipe.spen

        def make() -> GraphSystem:
            head = self._head("region_mlp", settings.inference, 0, settings.hidden, **TERM_READS)
            return GraphSystem(self.over_nodes, head=head, scorer=self._frozen_scorer)

        return self._system("spen", make, settings)

    @cached_property
    def gspen(self) -> GraphSystem:
        """Pairs under the SPEN's term."""
        settings = self.recipe.gspen

        def make() -> GraphSystem:
            spen = self.spen.head
            assert spen is not None
            head = self._head("region_mlp", settings.inference, 0, self.recipe.spen.hidden, **TERM_READS)
            head.term.load_state_dict(spen.term.state_dict())
            head.requires_grad_(False)
            pairs = self._pairs(settings.hidden)
            return GraphSystem(self.over_graph, pairs, head, self._frozen_scorer)

        return self._system("gspen", make, settings)

    @cached_property
    def nlstruct(self) -> GraphSystem:
        """A nonlinear function of the scores, over Struct."""
        settings = self.recipe.nlstruct

        def make() -> GraphSystem:
            head = self._head("nlstruct", settings.inference, len(self.edges), settings.hidden)
            assert self.struct.pairs is not None
            pairs = self.struct.pairs.requires_grad_(False)
            return GraphSystem(self.over_graph, pairs, head, self._frozen_scorer)

        return self._system("nlstruct", make, settings)

    def over_graph(self, batch: int) -> Polytope:
        """The star, by the recipe's kind of inference."""
        return self._star

    def over_nodes(self, batch: int) -> Polytope:
        """Labels by themselves."""
        return Simplex(torch.ones(batch, self.labels, dtype=torch.bool))

    @cached_property
    def _star(self) -> Polytope:
        graph = FactorGraph.of_edges([2] * self.labels, self.edges)
        if self.recipe.graph.inference == "exact":
            return Tree(graph)
        return LocalPolytope(graph, "unit", max_sweeps=self.recipe.graph.sweeps, tolerance=0.0)

    @property
    def _frozen_scorer(self) -> nn.Module:
        return self.unary.scorer.requires_grad_(False)

    def _pairs(self, hidden: int) -> PairNet:
        return PairNet(self.features, len(self.edges), hidden=hidden)

    def _head(
        self, term: str, inference: Inference, num_edges: int, hidden: int, **options: Any
    ) -> GSPENHead:
        sizes = {"num_nodes": self.labels, "num_edges": num_edges, "hidden": hidden}
        return make_head(2, [{"name": term, **sizes, **options}], inference.model_dump())

    def _system(self, name: str, make: Callable[[], System], training: SystemTraining) -> System:
        """A trained system: read, if it is there, else trained and written."""

        def train(system: System) -> dict[str, Any]:
            train, dev, test = (self.examples[split] for split in ("train", "dev", "test"))
            found = train_system(system, train, dev, tuned_f1, training, self.seed, "marginals")
            threshold, dev_f1 = best_threshold(_yes(predictions(system, dev.inputs, "marginals")), dev.labels)
            chances = _yes(predictions(system, test.inputs, "marginals"))
            test_f1 = example_f1(chances, test.labels, threshold)
            result = MultilabelResult(
                name, self.seed, threshold, 100 * dev_f1, 100 * test_f1,
                found.updates, found.seconds_an_epoch, found.inference_steps, found.negative_losses,
            )  # fmt: skip
            logger.info(
                "%s, seed %d: dev F1 %.2f, test F1 %.2f, threshold %.2g, %d updates, %.2f s/epoch",
                name, self.seed, result.dev_f1, result.test_f1, threshold, result.updates,
                result.seconds_an_epoch,
            )  # fmt: skip
            return asdict(result)

        return self.systems.system(name, make, train)


TERM_READS = {"read_potentials": False, "last_label_only": True}
"""The term reads the probability of each label, and nothing else."""


def tuned_f1(marginals: Tensor, labels: Tensor) -> float:
    """F1 at the best threshold: what a system is judged by on dev."""
    return best_threshold(_yes(marginals), labels)[1]


def _yes(marginals: Tensor) -> Tensor:
    return marginals[..., 1]
