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
from torch import Tensor

from gspen_ner.experiments.cross_fitting import unary_scores
from gspen_ner.experiments.system_folder import System, SystemFolder
from gspen_ner.experiments.task_graph import TaskGraph, frozen
from gspen_ner.head import GSPENHead
from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import LocalPolytope, Polytope, Tree
from gspen_ner.recipe import Inference
from gspen_ner.recipe.multilabel import MultilabelRecipe
from gspen_ner.recipe.systems import SystemTraining
from gspen_ner.scorers.feature_net import FeatureNet, KnownScores, PairNet
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
        splits = {"train": data.train, "dev": data.dev, "test": data.test}
        self.rows = {name: Examples(split.features, split.labels) for name, split in splits.items()}
        self.features, labels = data.train.features.shape[1], data.train.labels.shape[1]
        self.graph = TaskGraph(labels, 2, star_edges(most_frequent_label(data.train.labels), labels))

    def train(self, names: Sequence[str]) -> list[MultilabelResult]:
        """Train Unary and the systems named, and those that they stand on."""
        found = {"unary": self.unary}
        for name in names:
            found[name] = getattr(self, name)
        return [MultilabelResult(**self.systems.result(name)) for name in found]

    @cached_property
    def unary(self) -> UnarySystem:
        """Labels by themselves."""
        return self._system("unary", self._new_unary, self.recipe.unary, self.rows)

    def _new_unary(self) -> UnarySystem:
        options = self.recipe.unary.model_dump(include={"hidden", "input_dropout", "hidden_dropout", "flips"})
        return UnarySystem(FeatureNet(self.features, self.graph.nodes, **options), scale=self.graph.nodes)

    @cached_property
    def scored(self) -> dict[str, Examples]:
        """Features with Unary's scores behind them, which all other systems read.

        Those of training rows are perhaps of a Unary that has not seen the row (`folds`).
        """
        scores = {
            name: predictions(self.unary, rows.inputs, "scores")
            for name, rows in self.rows.items()
            if name != "train"
        }
        scores["train"] = unary_scores(self.unary, self.rows["train"], self.recipe.folds, self._fold_unary)
        return {
            name: Examples(torch.cat([rows.inputs.float(), _yes(scores[name])], 1), rows.labels)
            for name, rows in self.rows.items()
        }

    def _fold_unary(self, number: int, seen: Examples) -> UnarySystem:
        """A Unary that has not seen some of the training rows."""

        def train(system: UnarySystem) -> dict[str, float]:
            logger.info("unary, seed %d: fold %d of %d", self.seed, number + 1, self.recipe.folds)
            settings, dev = self.recipe.unary, self.rows["dev"]
            found = train_system(system, seen, dev, tuned_f1, settings, self.seed, "marginals")
            return {"dev_f1": 100 * found.score, "updates": found.updates}

        return self.systems.system(f"unary-fold-{number}", self._new_unary, train)

    @cached_property
    def struct(self) -> GraphSystem:
        """Pairs with the most frequent label."""
        settings = self.recipe.struct

        def make() -> GraphSystem:
            return GraphSystem(
                self.over_star,
                self._pairs(settings.hidden),
                scorer=KnownScores(self.features),
                temperature=settings.temperature,
                cost=settings.cost,
            )

        return self._system("struct", make, settings, self.scored)

    @cached_property
    def spen(self) -> GraphSystem:
        """A global term over labels by themselves."""

        def make() -> GraphSystem:
            head = self._term(self.recipe.spen.inference)
            return GraphSystem(self.graph.over_nodes, head=head, scorer=KnownScores(self.features))

        return self._system("spen", make, self.recipe.spen, self.scored)

    @cached_property
    def gspen(self) -> GraphSystem:
        """Pairs under the SPEN's term."""
        settings = self.recipe.gspen

        def make() -> GraphSystem:
            spen = self.spen.head
            assert spen is not None
            head = self._term(settings.inference)
            head.term.load_state_dict(spen.term.state_dict())
            head.requires_grad_(False)
            return GraphSystem(self.over_star, self._pairs(settings.hidden), head, KnownScores(self.features))

        return self._system("gspen", make, settings, self.scored)

    @cached_property
    def nlstruct(self) -> GraphSystem:
        """A nonlinear function of the scores, over Struct."""
        settings = self.recipe.nlstruct

        def make() -> GraphSystem:
            head = self.graph.head("nlstruct", settings.inference, settings.hidden, with_edges=True)
            return GraphSystem(self.over_star, frozen(self.struct.pairs), head, KnownScores(self.features))

        return self._system("nlstruct", make, settings, self.scored)

    def over_star(self, batch: int) -> Polytope:
        """The star, by the recipe's kind of inference."""
        return self._star

    @cached_property
    def _star(self) -> Polytope:
        graph = self.graph.factor_graph()
        if self.recipe.graph.inference == "exact":
            return Tree(graph)
        return LocalPolytope(graph, "unit", max_sweeps=self.recipe.graph.sweeps, tolerance=0.0)

    def _pairs(self, hidden: int) -> PairNet:
        return PairNet(self.features, len(self.graph.edges), hidden=hidden)

    def _term(self, inference: Inference) -> GSPENHead:
        """The term of SPEN and GSPEN: it reads the probability of each label, and nothing else."""
        reads = {"read_potentials": False, "last_label_only": True}
        return self.graph.head("region_mlp", inference, self.recipe.spen.hidden, with_edges=False, **reads)

    def _system(
        self,
        name: str,
        make: Callable[[], System],
        training: SystemTraining,
        rows: dict[str, Examples],
    ) -> System:
        """A trained system: read, if it is there, else trained and written."""

        def train(system: System) -> dict[str, Any]:
            train, dev, test = (rows[split] for split in ("train", "dev", "test"))
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


def tuned_f1(marginals: Tensor, labels: Tensor) -> float:
    """F1 at the best threshold: what a system is judged by on dev."""
    return best_threshold(_yes(marginals), labels)[1]


def _yes(marginals: Tensor) -> Tensor:
    return marginals[..., 1]
