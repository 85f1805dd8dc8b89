"""The metric of image tagging."""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor


def hamming(predictions: Shaped[Tensor, "images tags"], labels: Shaped[Tensor, "images tags"]) -> float:
    """Return the mean number of wrong tags of an image, missing or too many.

    Example:
        >>> import torch
        >>> hamming(torch.tensor([[1, 0, 1], [0, 0, 0]]), torch.tensor([[1, 1, 0], [0, 0, 1]]))
        1.5
    """
    if predictions.shape != labels.shape or labels.ndim != 2 or not labels.numel():
        raise ValueError(
            f"expected predictions and labels as [images, tags], "
            f"got {tuple(predictions.shape)} and {tuple(labels.shape)}"
        )
    for name, values in (("predictions", predictions), ("labels", labels)):
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"expected {name} that are 0 or 1, got others")
    return (predictions.bool() != labels.bool()).sum(1).double().mean().item()
