"""Multilabel classification: the door to its data and scores, and the graph that joins its labels.

multilabel_data        what an example is
multilabel_files       Bibtex and Bookmarks
multilabel_generated   data like them
multilabel_metrics     F1, and thresholds
"""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor

from recipes.multilabel.data import MultilabelData, MultilabelSplit
from recipes.multilabel.files import BOOKMARKS_ROWS, read_bibtex, read_bookmarks
from recipes.multilabel.generated import generate_multilabel
from recipes.multilabel.metrics import best_threshold, example_f1

__all__ = [
    "BOOKMARKS_ROWS",
    "MultilabelData",
    "MultilabelSplit",
    "best_threshold",
    "example_f1",
    "generate_multilabel",
    "most_frequent_label",
    "read_bibtex",
    "read_bookmarks",
    "star_edges",
]


def most_frequent_label(labels: Shaped[Tensor, "examples labels"]) -> int:
    """The label that most examples have, the first of equally frequent ones.

    Example:
        >>> import torch
        >>> most_frequent_label(torch.tensor([[0, 1, 1], [0, 0, 1]]))
        2
    """
    if labels.ndim != 2 or not labels.numel():
        raise ValueError(f"expected labels as [examples, labels], got {tuple(labels.shape)}")
    return int(labels.sum(0).cpu().numpy().argmax())


def star_edges(centre: int, count: int) -> list[tuple[int, int]]:
    """The pairs of one of `count` variables, the centre, with each of the others.

    Example:
        >>> star_edges(1, 4)
        [(1, 0), (1, 2), (1, 3)]
    """
    if not 0 <= centre < count:
        raise ValueError(f"expected a centre from 0 to {count - 1}, got {centre}")
    return [(centre, other) for other in range(count) if other != centre]
