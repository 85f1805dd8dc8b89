"""Image tagging data from two matrices with a row for each image: features, and tags.

The matrices often used in place of MIRFLICKR25k's images, of 20,015 of them, have its 24 tags in the order of
the alphabet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from recipes.tagging.data import SIZES, TaggingData, shuffled
from recipes.tagging.matrix_files import read_matrix

_TAGS = (
    "animals baby bird car clouds dog female flower food indoor lake male night people plant_life portrait "
    "river sea sky structures sunset transport tree water"
)
TAG_NAMES = tuple(_TAGS.split())
"""The 24 tags of MIRFLICKR25k."""


def read_matrices(
    features: str | Path, labels: str | Path, seed: int = 0, sizes: tuple[int, int] = SIZES
) -> TaggingData:
    """Read features and tags from matrices; see `matrix_files` for the formats.

    Args:
        features: the file of the features, finite numbers.
        labels: the file of the tags, zeros and ones. Columns of 24 get the names of MIRFLICKR's tags.
        seed: rows are shuffled by it.
        sizes: of train and dev; see `split_sizes`.

    Raises:
        ValueError: a file is missing, damaged or not what was expected; the message says which.
    """
    features, labels = Path(features), Path(labels)
    inputs, tags = _features(features, read_matrix(features)), _labels(labels, read_matrix(labels))
    if len(inputs) != len(tags):
        raise ValueError(
            f"expected as many rows in both, got {len(inputs)} in {features} and {len(tags)} in {labels}"
        )
    width = tags.shape[1]
    names = TAG_NAMES if width == len(TAG_NAMES) else tuple(f"tag {number}" for number in range(width))
    try:
        return shuffled(inputs, tags, names, f"{features.name}, {labels.name}", seed, sizes)
    except ValueError as error:
        raise ValueError(f"{features}: {error}") from None


def _features(path: Path, matrix: np.ndarray) -> Float32[Tensor, "images features"]:
    with np.errstate(over="ignore"):
        values = matrix.astype(np.float32)
    _refuse(path, matrix, ~np.isfinite(values), "finite numbers")
    return torch.from_numpy(values)


def _labels(path: Path, matrix: np.ndarray) -> Int64[Tensor, "images tags"]:
    _refuse(path, matrix, (matrix != 0) & (matrix != 1), "0 or 1")
    return torch.from_numpy(matrix.astype(np.int64))


def _refuse(path: Path, matrix: np.ndarray, wrong: np.ndarray, expected: str) -> None:
    """An error about the first of the wrong values."""
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"{path}: expected {expected}, got {matrix[row, column]} in row {row}, column {column} (from 0)"
        )
