"""The five systems on the tags of images. The graph joins all pairs of tags.

Inference without entropy is exact, by minimum cuts, or by message passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gspen_ner.polytopes import LocalPolytope, Polytope
from gspen_ner.training import Examples, System, Trained, predictions
from gspen_ner.training.tensors import Judge
from recipes.studies.data import StudyData
from recipes.studies.feature_net import FeatureNet
from recipes.studies.settings import options_for
from recipes.studies.systems import Graph, StudySystems, SystemResult
from recipes.tagging.metrics import hamming
from recipes.tagging.settings import TaggingRecipe


@dataclass(frozen=True, kw_only=True)
class TaggingResult(SystemResult):
    """How the training of a system went; losses are mean numbers of wrong tags of an image."""

    train_loss: float
    dev_loss: float
    test_loss: float
    test_steps: float
    """Mean number of inference steps of a test image; in training, inference has the cost of wrong tags."""
    curve: list[dict[str, float]]
    """Losses of train, dev and test by epoch."""


class TaggingSystems(StudySystems):
    """The systems of one seed."""

    result_class = TaggingResult
    watched = ("train", "test")

    def __init__(self, recipe: TaggingRecipe, data: StudyData, seed: int, folder: Path) -> None:
        tags = len(data.names)
        super().__init__(recipe, data, Graph(tags, 2, tuple(combinations(range(tags), 2))), seed, folder)

    def make_net(self) -> nn.Module:
        features = self.data.train.inputs.shape[1]
        return FeatureNet(features, self.graph.num_nodes, **options_for(FeatureNet, self.recipe.unary))

    def over_graph(self, batch: int) -> Polytope:
        return self._all_pairs

    @cached_property
    def _all_pairs(self) -> LocalPolytope:
        graph, sweeps = self.graph.factors(), self.recipe.graph.sweeps
        if self.recipe.graph.inference == "exact":
            return LocalPolytope(graph, "unit", max_sweeps=sweeps, oracle="cut")
        return LocalPolytope(graph, "unit", max_sweeps=sweeps, tolerance=0.0, oracle_sweeps=sweeps)

    def judge(self, name: str) -> Judge:
        return negative_hamming

    def measure(
        self, name: str, system: System, settings: Any, splits: Mapping[str, Examples], trained: Trained
    ) -> dict[str, Any]:
        steps = predictions(system, splits["test"].inputs, "steps").double().mean().item()
        metrics: dict[str, Any] = {"test_steps": steps}
        for split, examples in splits.items():
            metrics[f"{split}_loss"] = hamming(predictions(system, examples.inputs), examples.labels)
        metrics["curve"] = [{key: abs(value) for key, value in point.items()} for point in trained.curve]
        return metrics


def negative_hamming(predicted: Tensor, labels: Tensor) -> float:
    """Return the negative number of wrong tags of an image, by which weights are chosen on dev."""
    return -hamming(predicted, labels)
