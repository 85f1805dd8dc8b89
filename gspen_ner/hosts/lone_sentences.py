"""Batches that a document term can learn nothing from: hosts say so, each in its own words."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor


def stand_alone(documents: Int[Tensor, " B"] | None) -> bool:
    """Whether a batch has several sentences and no two of one document.

    Some such batches are chance; if documents are kept together, they are rare.

    Example:
        >>> import torch
        >>> stand_alone(torch.tensor([0, 1, 2])), stand_alone(torch.tensor([0, 1, 1]))
        (True, False)
    """
    return documents is not None and 1 < len(documents) == len(documents.unique())
