"""Random splits of images for training, validation and testing."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gspen_ner.training import Examples
from recipes.studies.data import StudyData

SIZES = (10_000, 5_000)
"""Numbers of training and validation images, of 25,000."""


def split_sizes(rows: int, sizes: tuple[int, int] = SIZES) -> tuple[int, int, int]:
    """Return the numbers of images for training, validation and testing.

    The default sizes are meant for 25,000 images or more; of fewer, two fifths are for training and one fifth
    is for validation. Other sizes are never changed. All other images are for testing.

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
) -> StudyData:
    """Return features and labels in random splits of the given sizes; see `split_sizes`."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = order.split(split_sizes(len(labels), sizes))
    train, dev, test = (Examples(features[rows], labels[rows]) for rows in parts)
    return StudyData(train, dev, test, names, source)
