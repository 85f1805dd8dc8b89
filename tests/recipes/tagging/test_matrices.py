"""Image tagging from matrices in all formats, and clear errors for everything else."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import savemat

from recipes.tagging.matrices import TAG_NAMES, read_matrices
from recipes.tagging.systems import hamming
from tests.recipes.tagging.tagging_examples import assert_well_formed, splits


def save(path, matrix, name="X"):
    """Write a matrix in the format of the path's suffix."""
    if path.suffix == ".mat":
        savemat(path, {name: matrix}, do_compression=True)
    elif path.suffix == ".npz":
        np.savez(path, **{name: matrix})
    else:
        np.save(path, matrix)
    return path


def features(rows=10, columns=3):
    return np.arange(rows * columns, dtype=np.float64).reshape(rows, columns) / 4


def tags(rows=10, columns=24):
    return (np.arange(rows)[:, None] >> np.arange(columns)) & 1


@st.composite
def matrices(draw):
    rows, columns, width = draw(st.tuples(st.integers(5, 12), st.integers(1, 4), st.integers(1, 4)))
    numbers = st.floats(-1e6, 1e6, width=32)
    inputs = draw(st.lists(numbers, min_size=rows * columns, max_size=rows * columns))
    labels = draw(st.lists(st.integers(0, 1), min_size=rows * width, max_size=rows * width))
    return np.array(inputs).reshape(rows, columns), np.array(labels).reshape(rows, width)


@given(
    matrices(),
    st.sampled_from([".mat", ".npz", ".npy"]),
    st.sampled_from(["float64", "float32", "uint8", "bool", "int16"]),
)
def test_what_is_written_comes_back(tmp_path_factory, content, suffix, kind):
    folder = tmp_path_factory.mktemp("matrices")
    inputs, labels = content
    data = read_matrices(
        save(folder / f"x{suffix}", inputs), save(folder / f"y{suffix}", labels.astype(kind)), seed=3
    )
    assert_well_formed(data)
    order = np.random.default_rng(3).permutation(len(inputs))
    assert np.array_equal(torch.cat([split.inputs for split in splits(data)]), inputs[order])
    assert np.array_equal(torch.cat([split.labels for split in splits(data)]), labels[order])


def test_splits_names_and_source(tmp_path):
    x, y = save(tmp_path / "x.npy", features(50)), save(tmp_path / "y.mat", tags(50))
    data = read_matrices(str(x), str(y))
    assert_well_formed(data)
    assert [len(split.labels) for split in splits(data)] == [20, 10, 20]
    assert data.names == TAG_NAMES
    assert data.source == "x.npy, y.mat"
    assert len(set(TAG_NAMES)) == 24
    rows = [row for split in splits(data) for row in (split.inputs[:, 0] * 4 / 3).tolist()]
    assert sorted(rows) == list(range(50))
    given_sizes = read_matrices(x, y, sizes=(5, 5))
    assert [len(split.labels) for split in splits(given_sizes)] == [5, 5, 40]
    assert torch.equal(given_sizes.train.labels, data.train.labels[:5])
    assert not torch.equal(read_matrices(x, y, seed=1).train.inputs, data.train.inputs)


def test_other_numbers_of_tags_have_no_names(tmp_path):
    x, y = save(tmp_path / "x.npy", features()), save(tmp_path / "y.npy", tags(columns=3))
    assert read_matrices(x, y).names == ("tag 0", "tag 1", "tag 2")


def test_sparse_matrices(tmp_path):
    x = save(tmp_path / "x.mat", sparse.csc_matrix(features()))
    y = save(tmp_path / "y.mat", sparse.csc_matrix(tags().astype(float)))
    dense = read_matrices(save(tmp_path / "x.npy", features()), save(tmp_path / "y.npy", tags()))
    assert torch.equal(read_matrices(x, y).train.inputs, dense.train.inputs)
    assert torch.equal(read_matrices(x, y).train.labels, dense.train.labels)


def test_a_sparse_matrix_whose_columns_begin_anywhere_is_refused(tmp_path):
    """scipy would write it out, beyond the memory that it has."""
    x = tmp_path / "x.mat"
    savemat(x, {"x": sparse.csc_matrix((6, 2))})
    begin = struct.pack("<II3i", 5, 12, 0, 0, 0)  # type and size of the part, and where columns begin
    assert x.read_bytes().count(begin) == 1
    x.write_bytes(x.read_bytes().replace(begin, struct.pack("<II3i", 5, 12, 0, 5, 0)))
    with pytest.raises(ValueError, match=r"x\.mat: the sparse matrix is damaged: the starts of its columns"):
        read_matrices(x, x)


@pytest.mark.parametrize("suffix", [".mat", ".npz", ".npy"])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.where(features() == 2.75, np.nan, features()), r"finite numbers, got nan in row 3, column 2"),
        (np.where(features() == 2.75, np.inf, features()), r"finite numbers, got inf in row 3, column 2"),
        (np.full((10, 2), 1e300), r"finite numbers, got 1e\+300 in row 0, column 0"),
        (np.zeros((10, 2, 2)), r"a matrix with rows and columns, got shape \(10, 2, 2\)"),
        (np.zeros((10, 0)), r"a matrix with rows and columns, got shape \(10, 0\)"),
        (np.full((10, 2), 1j), r"a matrix of real numbers, got complex128"),
        (np.array([["a", "b"]] * 10), r"a matrix of real numbers, got <U"),
    ],
)
def test_bad_features(tmp_path, suffix, matrix, message):
    x, y = save(tmp_path / f"x{suffix}", matrix), save(tmp_path / "y.npy", tags())
    with pytest.raises(ValueError, match=rf"x\{suffix}: expected {message}"):
        read_matrices(x, y)


def test_a_vector(tmp_path):
    with pytest.raises(ValueError, match=r"x\.npy: .* rows and columns, got shape \(10,\)"):
        read_matrices(save(tmp_path / "x.npy", np.zeros(10)), save(tmp_path / "y.npy", tags()))


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
@pytest.mark.parametrize("suffix", [".mat", ".npy"])
def test_bad_labels(tmp_path, suffix, value):
    labels = tags().astype(float)
    labels[4, 20] = value
    x, y = save(tmp_path / "x.npy", features()), save(tmp_path / f"y{suffix}", labels)
    with pytest.raises(ValueError, match=rf"y\{suffix}: expected 0 or 1, got {value}.* in row 4, column 20"):
        read_matrices(x, y)


def test_rows_that_disagree(tmp_path):
    x, y = save(tmp_path / "x.npy", features(9)), save(tmp_path / "y.npy", tags(10))
    with pytest.raises(ValueError, match=r"as many rows in both, got 9 in .*x\.npy and 10 in .*y\.npy"):
        read_matrices(x, y)


def test_too_few_rows(tmp_path):
    x, y = save(tmp_path / "x.npy", features(4)), save(tmp_path / "y.npy", tags(4))
    with pytest.raises(ValueError, match=r"x\.npy: expected 5 rows or more .* got 4"):
        read_matrices(x, y)
    with pytest.raises(ValueError, match=r"x\.npy: expected more than 3 \+ 1 rows .* got 4"):
        read_matrices(x, y, sizes=(3, 1))


def test_more_than_one_matrix_or_none(tmp_path):
    y = save(tmp_path / "y.npy", tags())
    savemat(tmp_path / "x.mat", {"A": features(), "B": features()})
    np.savez(tmp_path / "x.npz", A=features(), B=features())
    for name in ("x.mat", "x.npz"):
        with pytest.raises(ValueError, match=rf"{name}: expected one matrix, got 2: A, B"):
            read_matrices(tmp_path / name, y)
    savemat(tmp_path / "x.mat", {})
    np.savez(tmp_path / "x.npz")
    for name in ("x.mat", "x.npz"):
        with pytest.raises(ValueError, match=rf"{name}: expected one matrix, got 0: none"):
            read_matrices(tmp_path / name, y)


def test_structures_of_matlab(tmp_path):
    savemat(tmp_path / "x.mat", {"A": {"inner": features()}})
    with pytest.raises(ValueError, match=r"x\.mat: expected a matrix of real numbers, got"):
        read_matrices(tmp_path / "x.mat", save(tmp_path / "y.npy", tags()))


@pytest.mark.parametrize(
    "content",
    [
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(100),
        b"\x89HDF\r\n\x1a\n" + bytes(100),
        b"another first line".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(100),
    ],
)
def test_hdf5_is_refused(tmp_path, content):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.mat: expected a MATLAB 5 file, got version 7\.3 \(HDF5\)"):
        read_matrices(tmp_path / "x.mat", save(tmp_path / "y.npy", tags()))


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_pickles_are_not_loaded(tmp_path, name):
    x = save(tmp_path / name, np.array([[print, None]], dtype=object))
    with pytest.raises(ValueError, match=rf"{name}: cannot be read as an \{x.suffix} file: .*allow_pickle"):
        read_matrices(x, save(tmp_path / "y.npy", tags()))


@pytest.mark.parametrize("name", ["x.mat", "x.npz", "x.npy"])
@pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.9])
def test_torn_files(tmp_path, name, share):
    x, y = save(tmp_path / name, np.random.default_rng(0).random((10, 30))), save(tmp_path / "y.npy", tags())
    content = x.read_bytes()
    x.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=name):
        read_matrices(x, y)


def test_other_files(tmp_path):
    y = save(tmp_path / "y.npy", tags())
    with pytest.raises(ValueError, match=r"x\.csv: expected a file that ends in \.mat, \.npz or \.npy"):
        read_matrices(tmp_path / "x.csv", y)
    for name in ("x.mat", "x.npz", "x.npy"):
        with pytest.raises(ValueError, match=rf"{name}: no such file"):
            read_matrices(tmp_path / name, y)
        (tmp_path / name).write_bytes(b"something else entirely" * 100)
        with pytest.raises(ValueError, match=rf"{name}: .*(cannot be read|got something else)"):
            read_matrices(tmp_path / name, y)
        (tmp_path / "folder" / name).mkdir(parents=True)
        with pytest.raises(ValueError, match="a folder, expected a file"):
            read_matrices(tmp_path / "folder" / name, y)


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_copy_of_mirflickr():
    folder = Path(os.environ["GSPEN_DATA"]) / "mirflickr25k"
    data = read_matrices(folder / "mirflickr25k-yall.mat", folder / "mirflickr25k-lall.mat")
    assert_well_formed(data)
    assert [tuple(split.inputs.shape) for split in splits(data)] == [
        (8_006, 1_386),
        (4_003, 1_386),
        (8_006, 1_386),
    ]
    assert data.names == TAG_NAMES
    labels = torch.cat([split.labels for split in splits(data)])
    counts = dict(zip(data.names, labels.sum(0).tolist(), strict=True))
    assert (counts["structures"], counts["people"], counts["baby"]) == (8_463, 7_848, 179)
    assert labels.sum(1).min() >= 1
    assert hamming(torch.zeros_like(labels), labels) == pytest.approx(3.779, abs=1e-3)
