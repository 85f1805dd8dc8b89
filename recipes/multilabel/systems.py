"""The five systems on one multilabel data set, each standing on the ones before it.

    Unary -> Struct -> NLStruct
          -> SPEN -> GSPEN: pairs learned under the SPEN, which stays as it is; or its term learned on, over
                            Struct's pairs

The graph is a star: the most frequent label in the middle, all others around it. Predictions are the labels
whose belief is above a threshold, chosen on dev.

Unary hardly errs on the rows that it has learned from, so that there is little to mend there. With `draws`
its dropout and bit flips stay on while other systems learn on top of it: every batch has errors of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from gspen_ner.head import GSPENHead
from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import LocalPolytope, Polytope, Tree
from gspen_ner.recipe import Inference
from gspen_ner.systems import GraphSystem, UnarySystem
from recipes.multilabel.settings import MultilabelRecipe, PairNetSettings
from recipes.multilabel.task import (
    MultilabelData,
    best_threshold,
    example_f1,
    most_frequent_label,
    star_edges,
)
from recipes.studies.feature_net import FeatureNet, PairNet
from recipes.studies.settings import SystemTraining
from recipes.studies.system_folder import System, SystemFolder
from recipes.studies.task_graph import TaskGraph, frozen

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
    refitted_f1: float | None = None
    """On test, of the system trained again on training and dev rows together."""


class MultilabelSystems:
    """The systems of one seed.

    Args:
        recipe: how each is made and trained.
        data: rows.
        seed: of weights, dropout and order.
        folder: where results go.
        chosen: if dev rows are among the training rows, what training without them came to, by system:
            thresholds and numbers of epochs are taken from there.
    """

    def __init__(
        self,
        recipe: MultilabelRecipe,
        data: MultilabelData,
        seed: int,
        folder: Path,
        chosen: Mapping[str, MultilabelResult] = MappingProxyType({}),
    ) -> None:
        self.recipe, self.seed, self.systems = recipe, seed, SystemFolder(folder, seed)
        self.chosen = chosen
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
        options = self.recipe.unary.model_dump(include={"hidden", "input_dropout", "hidden_dropout", "flips"})

        def make() -> UnarySystem:
            net = FeatureNet(self.features, self.graph.nodes, **options)
            return UnarySystem(net, scale=self.graph.nodes)

        return self._system("unary", make, self.recipe.unary)

    @cached_property
    def struct(self) -> GraphSystem:
        """Pairs with the most frequent label."""
        settings = self.recipe.struct

        def make() -> GraphSystem:
            pairs, tau = self._pairs(settings), settings.temperature
            return self._over_unary(self.over_star, pairs, temperature=tau, cost=settings.cost)

        return self._system("struct", make, settings)

    @cached_property
    def spen(self) -> GraphSystem:
        """A global term over labels by themselves."""

        def make() -> GraphSystem:
            return self._over_unary(self.graph.over_nodes, head=self._term(self.recipe.spen.inference))

        return self._system("spen", make, self.recipe.spen)

    @cached_property
    def gspen(self) -> GraphSystem:
        """Pairs and the SPEN's term, one of which learns."""
        settings = self.recipe.gspen

        def make() -> GraphSystem:
            spen = self.spen.head
            assert spen is not None
            head = self._term(settings.inference)
            head.term.load_state_dict(spen.term.state_dict())
            if settings.learns == "term":
                return self._over_unary(self.over_star, frozen(self.struct.pairs), head)
            return self._over_unary(self.over_star, self._pairs(settings), head.requires_grad_(False))

        return self._system("gspen", make, settings)

    @cached_property
    def nlstruct(self) -> GraphSystem:
        """A nonlinear function of the scores, over Struct."""
        settings = self.recipe.nlstruct

        def make() -> GraphSystem:
            head = self.graph.head("nlstruct", settings.inference, settings.hidden, with_edges=True)
            return self._over_unary(self.over_star, frozen(self.struct.pairs), head)

        return self._system("nlstruct", make, settings)

    def over_star(self, batch: int) -> Polytope:
        """The star, by the recipe's kind of inference."""
        return self._star

    @cached_property
    def _star(self) -> Polytope:
        graph = self.graph.factor_graph()
        if self.recipe.graph.inference == "exact":
            return Tree(graph)
        return LocalPolytope(graph, "unit", max_sweeps=self.recipe.graph.sweeps, tolerance=0.0)

    def _over_unary(
        self,
        polytope: Callable[[int], Polytope],
        pairs: nn.Module | None = None,
        head: GSPENHead | None = None,
        **options: float,
    ) -> GraphSystem:
        """A system that stands on Unary, which stays as it is."""
        unary = frozen(self.unary.scorer)
        return GraphSystem(polytope, pairs, head, unary, draws=self.recipe.draws, **options)

    def _pairs(self, settings: PairNetSettings) -> PairNet:
        options = settings.model_dump(include={"hidden", "input_dropout", "flips"})
        return PairNet(self.features, len(self.graph.edges), **options)

    def _term(self, inference: Inference) -> GSPENHead:
        """The term of SPEN and GSPEN: it reads the probability of each label, and nothing else."""
        reads = {"read_potentials": False, "last_label_only": True}
        return self.graph.head("region_mlp", inference, self.recipe.spen.hidden, with_edges=False, **reads)

    def _system(self, name: str, make: Callable[[], System], training: SystemTraining) -> System:
        """A trained system: read, if it is there, else trained and written."""

        def train(system: System) -> dict[str, Any]:
            train, dev, test = (self.rows[split] for split in ("train", "dev", "test"))
            before = self.chosen.get(name)
            how = training if before is None else self._as_long(training, before.updates)
            found = train_system(system, train, dev, tuned_f1, how, self.seed, "marginals")
            if before is None:
                chances = _yes(predictions(system, dev.inputs, "marginals"))
                threshold, dev_f1 = best_threshold(chances, dev.labels)
            else:
                threshold, dev_f1 = before.threshold, before.dev_f1 / 100
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

    def _as_long(self, training: SystemTraining, updates: int) -> SystemTraining:
        """As many epochs as so many updates were before the dev rows came in, without a look at dev."""
        rows, added = len(self.rows["train"]), len(self.rows["dev"])
        updates = updates * rows // (rows - added)
        return training.model_copy(update={"max_updates": updates, "evaluate_every": updates})


def tuned_f1(marginals: Tensor, labels: Tensor) -> float:
    """F1 at the best threshold: what a system is judged by on dev."""
    return best_threshold(_yes(marginals), labels)[1]


def _yes(marginals: Tensor) -> Tensor:
    return marginals[..., 1]
