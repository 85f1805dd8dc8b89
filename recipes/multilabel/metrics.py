"""The metric of multilabel predictions: F1 averaged over examples; and thresholds."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from recipes.studies.data import check_shapes


def example_f1(
    probabilities: Shaped[Tensor, "examples labels"],
    labels: Shaped[Tensor, "examples labels"],
    threshold: float = 0.5,
) -> float:
    """Return the F1 of labels, averaged over examples; 1 for an example without labels and predictions.

    Args:
        probabilities: probabilities of labels, or predictions, zero or one.
        labels: gold labels, zero or one.
        threshold: labels with probabilities above it are predicted.

    Example:
        >>> gold = torch.tensor([[1, 1, 0], [0, 0, 0]])
        >>> example_f1(torch.tensor([[0.9, 0.2, 0.7], [0.1, 0.1, 0.3]]), gold, 0.5)
        0.75
    """
    _check(probabilities, labels)
    predicted, gold = probabilities.double() > threshold, labels.bool()
    return _f1((predicted & gold).sum(1), predicted.sum(1), gold.sum(1)).mean().item()


def best_threshold(
    probabilities: Shaped[Tensor, "examples labels"], labels: Shaped[Tensor, "examples labels"]
) -> tuple[float, float]:
    """Return the threshold of the highest `example_f1`, and that F1; of equally good ones the lowest.

    The thresholds 0.005, 0.010, ..., 0.995 are compared, and 90 smaller ones down to 1e-9, as marginals at a
    low temperature are close to 0 or 1.

    Example:
        >>> best_threshold(torch.tensor([[0.9, 0.203, 0.31]]), torch.tensor([[1, 0, 1]]))
        (0.205, 1.0)
    """
    _check(probabilities, labels)
    small = 0.005 * 10 ** (-torch.arange(90, 0, -1, dtype=torch.float64) * 6.7 / 90)
    grid = torch.cat([small, torch.arange(1, 200, dtype=torch.float64) / 200])
    gold = labels.bool().cpu()
    values = probabilities.detach().double().cpu().contiguous()
    passed = torch.bucketize(values, grid)  # number of thresholds below
    counts = torch.zeros((2, len(gold), len(grid) + 1), dtype=torch.int64)
    counts[0].scatter_add_(1, passed, torch.ones_like(passed))
    counts[1].scatter_add_(1, passed, gold.long())
    predicted, right = counts.flip(2).cumsum(2).flip(2)[:, :, 1:]  # at each threshold
    scores = _f1(right, predicted, gold.sum(1, keepdim=True)).mean(0).numpy()
    best = int(scores.argmax())
    return grid[best].item(), float(scores[best])


def _f1(right: Tensor, predicted: Tensor, gold: Tensor) -> Tensor:
    total = predicted + gold
    return torch.where(total == 0, 1.0, 2 * right.double() / total.clamp(min=1))


def _check(probabilities: Tensor, labels: Tensor) -> None:
    check_shapes("probabilities and labels as [examples, labels]", probabilities, labels)
    if probabilities.isnan().any():
        raise ValueError("expected probabilities, got NaN")
    if not ((labels == 0) | (labels == 1)).all():
        raise ValueError("expected labels that are 0 or 1, got others")
