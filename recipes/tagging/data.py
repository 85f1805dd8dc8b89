"""What image tagging data is: features and tags of images, in splits that are dealt out by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

SIZES = (10_000, 5_000)
"""Images for training and validation, of the 25,000; as many as for training remain for testing."""


@dataclass(frozen=True, eq=False)
class TaggingSplit:
    """Images of one split: their features, and one for each tag that they have, else zero."""

    features: Float32[Tensor, "images features"]
    labels: Int64[Tensor, "images tags"]


@dataclass(frozen=True, eq=False)
class TaggingData:
    """The splits of a collection.

    Attributes:
        train: what to learn from.
        dev: what to choose settings on.
        test: what to report on.
        names: of the tags.
        source: where the data comes from, for people to read.
    """

    train: TaggingSplit
    dev: TaggingSplit
    test: TaggingSplit
    names: tuple[str, ...]
    source: str


def split_sizes(rows: int, sizes: tuple[int, int] = SIZES) -> tuple[int, int, int]:
    """How many of the rows are for training, validation and testing.

    The default sizes are meant for 25,000 images or more. Of fewer, two fifths are for training and one
    fifth is for validation. Other sizes are taken as they are. What remains is for testing.

    Example:
        >>> split_sizes(25_000), split_sizes(20_015), split_sizes(100, (50, 20))
        ((10000, 5000, 10000), (8006, 4003, 8006), (50, 20, 30))
    """
    train, dev = sizes
    if tuple(sizes) == SIZES:
        train, dev = min(train, rows * 2 // 5), min(dev, rows // 5)
    if min(train, dev) < 1 or train + dev >= rows:
        wanted = "5 rows or more" if tuple(sizes) == SIZES else f"more than {sizes[0]} + {sizes[1]} rows"
        raise ValueError(f"expected {wanted} for train, dev and test, got {rows}")
    return train, dev, rows - train - dev


def shuffled(
    features: Tensor, labels: Tensor, names: tuple[str, ...], source: str, seed: int, sizes: tuple[int, int]
) -> TaggingData:
    """The splits of features and labels, dealt out by chance; see `split_sizes`."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = order.split(split_sizes(len(labels), sizes))
    train, dev, test = (TaggingSplit(features[part], labels[part]) for part in parts)
    return TaggingData(train, dev, test, names, source)
