"""How tags of images are scored."""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor


def hamming(predictions: Shaped[Tensor, "images tags"], labels: Shaped[Tensor, "images tags"]) -> float:
    """The mean number of wrong tags of an image, missing or too many: from 0 to the number of tags.

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
    for what, values in (("predictions", predictions), ("labels", labels)):
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"expected {what} that are 0 or 1, got others")
    return (predictions.bool() != labels.bool()).sum(1).double().mean().item()
