"""The walk through a MATLAB file: sound files pass, and what scipy does not survive is refused."""

import io
import struct

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from recipes.tagging.matlab import check_matlab

NUMBERS = np.arange(6.0).reshape(2, 3)


def saved(matrix, **options):
    file = io.BytesIO()
    savemat(file, {"name": matrix}, **options)
    return file.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["f8", "f4", "i1", "u2", "?", "c16"])
def test_matrices_of_numbers_pass(kind, packed):
    check_matlab(saved(NUMBERS.astype(kind), do_compression=packed))
    check_matlab(saved(np.ones((1, 1), kind), do_compression=packed))
    check_matlab(saved(csc_matrix(NUMBERS.astype(kind)), do_compression=packed))


def test_version_4_and_nothing_pass():
    check_matlab(saved(NUMBERS, format="4"))
    check_matlab(saved(NUMBERS)[:128])


@pytest.mark.parametrize("kind", [0, 8, 10, 20, 69, 60_000])
@pytest.mark.parametrize("matrix", [NUMBERS, csc_matrix(NUMBERS)], ids=["dense", "sparse"])
def test_types_that_there_are_not_are_refused(kind, matrix):
    content = bytearray(saved(matrix))
    place = content.index(b"name") + 4  # behind the name come the numbers
    struct.pack_into("<I", content, place, kind)
    with pytest.raises(ValueError, match=f"got a part of type {kind}"):
        check_matlab(bytes(content))


@pytest.mark.parametrize("packed", [False, True])
def test_files_that_were_cut_off_are_refused(packed):
    content = saved(csc_matrix(NUMBERS), do_compression=packed)
    for length in range(136, len(content)):
        with pytest.raises(ValueError, match="cut off"):
            check_matlab(content[:length])
