"""Random splits of images for training, validation and testing."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gspen_ner.training import Examples
from recipes.studies.data import StudyData


def split_sizes(rows: int, sizes: tuple[int, int] | None = None) -> tuple[int, int, int]:
    """Return the numbers of images for training, validation and testing.

    By default 10,000 images are for training and 5,000 for validation; of fewer than 25,000, two fifths and
    one fifth. All other images are for testing.

    Example:
        >>> split_sizes(25_000), split_sizes(20_015), split_sizes(100, (50, 20))
        ((10000, 5000, 10000), (8006, 4003, 8006), (50, 20, 30))
    """
    train, dev = sizes or (min(10_000, rows * 2 // 5), min(5_000, rows // 5))
    if min(train, dev) < 1 or train + dev >= rows:
        wanted = f"more than {train} + {dev} rows" if sizes else "5 rows or more"
        raise ValueError(f"expected {wanted} for train, dev and test, got {rows}")
    return train, dev, rows - train - dev


def shuffled(
    features: Tensor,
    labels: Tensor,
    names: tuple[str, ...],
    source: str,
    seed: int,
    sizes: tuple[int, int] | None,
) -> StudyData:
    """Return features and labels in random splits of the given sizes; see `split_sizes`."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = order.split(split_sizes(len(labels), sizes))
    train, dev, test = (Examples(features[rows], labels[rows]) for rows in parts)
    return StudyData(train, dev, test, names, source)
