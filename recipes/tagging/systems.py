"""The five systems on the tags of images. The graph joins all pairs of tags.

Inference without entropy is exact, by minimum cuts, or by message passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from torch import Tensor

from gspen_ner.training import Examples, System, Trained, predictions
from gspen_ner.training.tensors import Judge
from recipes.studies.data import StudyData, check_shapes
from recipes.studies.systems import Graph, StudySystems, SystemResult
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

    def judge(self, name: str) -> Judge:
        return lambda predicted, labels: -hamming(predicted, labels)

    def measure(
        self, name: str, system: System, settings: Any, splits: Mapping[str, Examples], trained: Trained
    ) -> dict[str, Any]:
        losses = {
            f"{split}_loss": hamming(predictions(system, examples.inputs), examples.labels)
            for split, examples in splits.items()
        }
        steps = predictions(system, splits["test"].inputs, "steps").double().mean().item()
        curve = [{key: abs(value) for key, value in point.items()} for point in trained.curve]
        return {"test_steps": steps, **losses, "curve": curve}


def hamming(predicted: Shaped[Tensor, "images tags"], labels: Shaped[Tensor, "images tags"]) -> float:
    """Return the mean number of wrong tags of an image, missing or too many.

    Example:
        >>> import torch
        >>> hamming(torch.tensor([[1, 0, 1], [0, 0, 0]]), torch.tensor([[1, 1, 0], [0, 0, 1]]))
        1.5
    """
    check_shapes("predictions and labels as [images, tags]", predicted, labels)
    for name, values in (("predictions", predicted), ("labels", labels)):
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"expected {name} that are 0 or 1, got others")
    return (predicted.bool() != labels.bool()).sum(1).double().mean().item()
