"""The graph of multilabel classification: the most frequent label, and all others around it."""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor


def most_frequent_label(labels: Shaped[Tensor, "examples labels"]) -> int:
    """Return the label that most examples have, the first of equally frequent ones.

    Example:
        >>> import torch
        >>> most_frequent_label(torch.tensor([[0, 1, 1], [0, 0, 1]]))
        2
    """
    if labels.ndim != 2 or not labels.numel():
        raise ValueError(f"expected labels as [examples, labels], got {tuple(labels.shape)}")
    return int(labels.sum(0).cpu().numpy().argmax())


def star_edges(centre: int, count: int) -> list[tuple[int, int]]:
    """Return the pairs of one of `count` nodes, the centre, with each of the others.

    Example:
        >>> star_edges(1, 4)
        [(1, 0), (1, 2), (1, 3)]
    """
    if not 0 <= centre < count:
        raise ValueError(f"expected a centre from 0 to {count - 1}, got {centre}")
    return [(centre, other) for other in range(count) if other != centre]
