"""The five systems on the tags of images, each standing on the ones before it.

    Unary -> Struct -> NLStruct
                    -> GSPEN
          -> SPEN

The graph joins all pairs of tags. Inference without entropy is exact, by minimum cuts, or by message passing.
Systems on top may learn from scores of Unaries that have not seen the image (`folds`): Unary's own scores of
what it has learned from are better than they will ever be again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from gspen_ner.scorers.pair_tables import PairTables
from torch import Tensor

from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import LocalPolytope, Polytope
from gspen_ner.systems import GraphSystem, UnarySystem
from recipes.studies.feature_net import FeatureNet
from recipes.studies.settings import SystemTraining
from recipes.studies.system_folder import System, SystemFolder
from recipes.studies.task_graph import TaskGraph, frozen
from recipes.tagging.cross_fitting import unary_scores
from recipes.tagging.settings import TaggingRecipe, TagTermSettings
from recipes.tagging.task import TaggingData, hamming

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaggingResult:
    """What came out of one training; losses are wrong tags of an image, on average."""

    system: str
    seed: int
    train_loss: float
    dev_loss: float
    test_loss: float
    updates: int
    seconds_an_epoch: float
    inference_steps: float
    """In training, with the cost of wrong tags."""
    test_steps: float
    negative_losses: float
    curve: list[dict[str, float]]
    """Losses of train, dev and test by epoch."""


class TaggingSystems:
    """The systems of one seed.

    Args:
        recipe: how each is made and trained.
        data: images.
        seed: of weights, dropout and order.
        folder: where results go.
    """

    def __init__(self, recipe: TaggingRecipe, data: TaggingData, seed: int, folder: Path) -> None:
        self.recipe, self.seed, self.systems = recipe, seed, SystemFolder(folder, seed)
        splits = {"train": data.train, "dev": data.dev, "test": data.test}
        self.images = {name: Examples(split.features, split.labels) for name, split in splits.items()}
        tags = len(data.names)
        self.graph = TaskGraph(tags, 2, tuple(combinations(range(tags), 2)))

    def train(self, names: Sequence[str]) -> list[TaggingResult]:
        """Train Unary and the systems named, and those that they stand on."""
        found = {"unary": self.unary}
        for name in names:
            found[name] = getattr(self, name)
        return [TaggingResult(**self.systems.result(name)) for name in found]

    @cached_property
    def unary(self) -> UnarySystem:
        """Tags by themselves."""
        return self._system("unary", self._new_unary, self.recipe.unary, self.images["train"], self.images)

    def _new_unary(self) -> UnarySystem:
        options = self.recipe.unary.model_dump(include={"hidden", "input_dropout", "hidden_dropout", "flips"})
        features = self.images["train"].inputs.shape[1]
        return UnarySystem(FeatureNet(features, self.graph.nodes, **options))

    @cached_property
    def scores(self) -> dict[str, Examples]:
        """Unary's scores, which all other systems stand on."""
        return {
            name: Examples(predictions(self.unary, images.inputs, "scores"), images.labels)
            for name, images in self.images.items()
        }

    @cached_property
    def learned_from(self) -> Examples:
        """The scores of training images, each perhaps of a Unary that has not seen it."""
        images = self.images["train"]
        return Examples(unary_scores(self.unary, images, self.recipe.folds, self._fold_unary), images.labels)

    def _fold_unary(self, number: int, seen: Examples) -> UnarySystem:
        """A Unary that has not seen some of the training images."""

        def train(system: UnarySystem) -> dict[str, float]:
            logger.info("unary, seed %d: fold %d of %d", self.seed, number + 1, self.recipe.folds)
            found = train_system(system, seen, self.images["dev"], right_tags, self.recipe.unary, self.seed)
            return {"dev_loss": -found.score, "updates": found.updates}

        return self.systems.system(f"unary-fold-{number}", self._new_unary, train)

    @cached_property
    def struct(self) -> GraphSystem:
        """A table for each pair of tags."""
        settings = self.recipe.struct

        def make() -> GraphSystem:
            pairs = PairTables(len(self.graph.edges), 2)
            temperature, cost = settings.temperature, settings.cost
            return GraphSystem(self.over_pairs, pairs, temperature=temperature, cost=cost)

        return self._on_scores("struct", make, settings)

    @cached_property
    def spen(self) -> GraphSystem:
        """A global term over tags by themselves."""

        def make() -> GraphSystem:
            head = self._term(self.recipe.spen, with_edges=False)
            return GraphSystem(self.graph.over_nodes, head=head)

        return self._on_scores("spen", make, self.recipe.spen)

    @cached_property
    def gspen(self) -> GraphSystem:
        """A global term over tags and their pairs."""
        pairs = frozen(self.struct.pairs)

        def make() -> GraphSystem:
            return GraphSystem(self.over_pairs, pairs, self._term(self.recipe.gspen, with_edges=True))

        return self._on_scores("gspen", make, self.recipe.gspen)

    @cached_property
    def nlstruct(self) -> GraphSystem:
        """A nonlinear function of the scores."""
        settings = self.recipe.nlstruct
        pairs = frozen(self.struct.pairs)

        def make() -> GraphSystem:
            head = self.graph.head("nlstruct", settings.inference, settings.hidden, with_edges=True)
            return GraphSystem(self.over_pairs, pairs, head)

        return self._on_scores("nlstruct", make, settings)

    def over_pairs(self, batch: int) -> Polytope:
        """The graph of all pairs, by the recipe's kind of inference."""
        return self._pairs

    @cached_property
    def _pairs(self) -> LocalPolytope:
        graph, sweeps = self.graph.factor_graph(), self.recipe.graph.sweeps
        if self.recipe.graph.inference == "exact":
            return LocalPolytope(graph, "unit", max_sweeps=sweeps, oracle="cut")
        return LocalPolytope(graph, "unit", max_sweeps=sweeps, tolerance=0.0, oracle_sweeps=sweeps)

    def _term(self, settings: TagTermSettings, with_edges: bool) -> Any:
        reads = {"read_potentials": settings.read_potentials}
        return self.graph.head("region_mlp", settings.inference, settings.hidden, with_edges, **reads)

    def _on_scores(self, name: str, make: Callable[[], System], training: SystemTraining) -> System:
        return self._system(name, make, training, self.learned_from, self.scores)

    def _system(
        self,
        name: str,
        make: Callable[[], System],
        training: SystemTraining,
        learned_from: Examples,
        splits: dict[str, Examples],
    ) -> System:
        """A trained system: read, if it is there, else trained and written."""

        def train(system: System) -> dict[str, Any]:
            watch = {split: splits[split] for split in ("train", "test")}
            found = train_system(
                system, learned_from, splits["dev"], right_tags, training, self.seed, watch=watch
            )
            losses = {
                split: hamming(predictions(system, examples.inputs), examples.labels)
                for split, examples in splits.items()
            }
            steps = 0.0
            if isinstance(system, GraphSystem):
                steps = predictions(system, splits["test"].inputs, "steps").double().mean().item()
            result = TaggingResult(
                name, self.seed, losses["train"], losses["dev"], losses["test"],
                found.updates, found.seconds_an_epoch, found.inference_steps, steps, found.negative_losses,
                [{key: abs(value) for key, value in point.items()} for point in found.curve],
            )  # fmt: skip
            logger.info(
                "%s, seed %d: wrong tags of an image: dev %.4f, test %.4f; %d updates, %.2f s/epoch",
                name, self.seed, result.dev_loss, result.test_loss, result.updates, result.seconds_an_epoch,
            )  # fmt: skip
            return asdict(result)

        return self.systems.system(name, make, train)


def right_tags(predicted: Tensor, labels: Tensor) -> float:
    """What a system is judged by on dev: the fewer wrong tags, the larger."""
    return -hamming(predicted, labels)
