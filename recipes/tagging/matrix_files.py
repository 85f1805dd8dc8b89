"""Files that hold one matrix.

file.mat          MATLAB 5, dense or sparse; version 7.3 (HDF5) is not read
file.npy, .npz    NumPy, one array; nothing pickled
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from recipes.tagging.matlab import check_matlab

_MOST_CELLS = 1 << 30  # of a sparse matrix, written out


def read_matrix(path: Path) -> np.ndarray:
    """The one matrix of a file, of real numbers.

    Raises:
        ValueError: the file is missing, damaged or not what was expected; the message says which.
    """
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {".mat": _mat, ".npz": _npz, ".npy": _npy}
    if path.suffix not in readers:
        raise ValueError(f"{path}: expected a file that ends in .mat, .npz or .npy")
    if not path.is_file():
        raise ValueError(f"{path}: {'a folder, expected a file' if path.is_dir() else 'no such file'}")
    found = readers[path.suffix](path)
    if len(found) != 1:
        raise ValueError(f"{path}: expected one matrix, got {len(found)}: {', '.join(found) or 'none'}")
    (matrix,) = found.values()
    if hasattr(matrix, "toarray"):
        matrix = _dense(path, matrix)
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "buif":
        kind = getattr(matrix, "dtype", type(matrix).__name__)
        raise ValueError(f"{path}: expected a matrix of real numbers, got {kind}")
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{path}: expected a matrix with rows and columns, got shape {matrix.shape}")
    return matrix


def _dense(path: Path, matrix: Any) -> np.ndarray:
    """A sparse matrix, written out; what a damaged file says of rows and columns is not trusted."""
    if matrix.shape[0] * matrix.shape[1] > _MOST_CELLS:
        raise ValueError(f"{path}: expected at most {_MOST_CELLS:,} cells, got shape {matrix.shape}")
    try:
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():  # scipy does not ask this of a matrix without numbers
            raise ValueError("where its columns begin is not in order")
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
    except Exception as error:  # for damaged files, these are of many kinds
        raise ValueError(f"{path}: cannot be read as a MATLAB 5 file: {error!r}") from None
    return {name: matrix for name, matrix in content.items() if not name.startswith("__")}


def _npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an .npz file, got something else or a part of one")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if len(arrays.files) != 1:  # the others are not read
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
