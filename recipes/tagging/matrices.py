"""Image tagging data from two matrices with a row for each image: features, and tags.

file.mat          MATLAB 5, dense or sparse; version 7.3 (HDF5) is refused
file.npy, .npz    NumPy, one array; nothing pickled

The matrices that are often used in place of MIRFLICKR25k's images have 20,015 rows, and its 24 tags in
alphabetical order.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from recipes.studies.data import StudyData
from recipes.tagging.matlab import check_matlab
from recipes.tagging.splits import shuffled

_TAGS = (
    "animals baby bird car clouds dog female flower food indoor lake male night people plant_life portrait "
    "river sea sky structures sunset transport tree water"
)
TAG_NAMES = tuple(_TAGS.split())
"""The 24 tags of MIRFLICKR25k."""
_MOST_CELLS = 1 << 30  # of a sparse matrix that is made dense


def read_matrices(
    features: str | Path, labels: str | Path, seed: int = 0, sizes: tuple[int, int] | None = None
) -> StudyData:
    """Read features and tags from matrices; see this module's header for the formats.

    Args:
        features: file of the features, finite numbers.
        labels: file of the tags, zeros and ones. 24 columns get the names of MIRFLICKR's tags.
        seed: seed of the random splits.
        sizes: numbers of training and validation images; see `split_sizes`.

    Raises:
        ValueError: if a file is missing, damaged or has other content; the message names it.
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
    """Raise an error about the first of the wrong values, if there are any."""
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"{path}: expected {expected}, got {matrix[row, column]} in row {row}, column {column} (from 0)"
        )


def read_matrix(path: Path) -> np.ndarray:
    """Return the one matrix of a file, of real numbers.

    Raises:
        ValueError: if the file is missing, damaged or has other content; the message names it.
    """
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {".mat": _mat, ".npz": _npz, ".npy": _npy}
    if path.suffix not in readers:
        raise ValueError(f"{path}: expected a file that ends in .mat, .npz or .npy")
    if not path.is_file():
        raise ValueError(f"{path}: {'a folder, expected a file' if path.is_dir() else 'no such file'}")
    arrays = readers[path.suffix](path)
    if len(arrays) != 1:
        raise ValueError(f"{path}: expected one matrix, got {len(arrays)}: {', '.join(arrays) or 'none'}")
    (matrix,) = arrays.values()
    if hasattr(matrix, "toarray"):
        matrix = _dense(path, matrix)
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "buif":
        dtype = getattr(matrix, "dtype", type(matrix).__name__)
        raise ValueError(f"{path}: expected a matrix of real numbers, got {dtype}")
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{path}: expected a matrix with rows and columns, got shape {matrix.shape}")
    return matrix


def _dense(path: Path, matrix: Any) -> np.ndarray:
    """Return a sparse matrix as a dense one; the indices in a damaged file are checked before."""
    if matrix.shape[0] * matrix.shape[1] > _MOST_CELLS:
        raise ValueError(f"{path}: expected at most {_MOST_CELLS:,} cells, got shape {matrix.shape}")
    try:
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():  # scipy does not check this in a matrix without numbers
            raise ValueError("the starts of its columns are not in order")
        return matrix.toarray()
    except Exception as error:
        raise ValueError(f"{path}: the sparse matrix is damaged: {error}") from None


def _mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    with path.open("rb") as file:
        start = file.read(520)
    if start.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n" in (start[:6], start[512:518]):
        raise ValueError(
            f"{path}: expected a MATLAB 5 file, got version 7.3 (HDF5): save it in MATLAB with -v7 instead"
        )
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
            check_matlab(mapped)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    try:
        content = loadmat(str(path), appendmat=False)
    except Exception as error:  # damaged files raise exceptions of many classes
        raise ValueError(f"{path}: cannot be read as a MATLAB 5 file: {error!r}") from None
    return {name: matrix for name, matrix in content.items() if not name.startswith("__")}


def _npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an .npz file, got something else or a part of one")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if len(arrays.files) != 1:  # an error, for which their names are enough
                return dict.fromkeys(arrays.files)
            return dict(arrays)
    except Exception as error:  # as above
        raise ValueError(f"{path}: cannot be read as an .npz file: {error}") from None


def _npy(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return {"array": np.lib.format.read_array(file, allow_pickle=False)}
    except Exception as error:  # as above
        raise ValueError(f"{path}: cannot be read as an .npy file: {error}") from None
