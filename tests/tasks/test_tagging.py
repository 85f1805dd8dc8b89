"""Image tagging: matrices in all formats, images as published, and clear errors for everything else."""

import io
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse
from scipy.io import savemat
from torch import nn

from gspen_ner.tasks.tagging import (
    TAG_NAMES,
    hamming,
    read_matrices,
    read_mirflickr,
    split_sizes,
    torchvision_backbone,
)


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


def splits(data):
    return data.train, data.dev, data.test


def assert_well_formed(data):
    for split in splits(data):
        assert split.features.dtype == torch.float32
        assert split.labels.dtype == torch.int64
        assert len(split.features) == len(split.labels) >= 1
        assert split.features.shape[1] == data.train.features.shape[1]
        assert split.labels.shape[1] == len(data.names)


# Sizes


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (25_000, (10_000, 5_000, 10_000)),
        (30_000, (10_000, 5_000, 15_000)),
        (20_015, (8_006, 4_003, 8_006)),
        (24_999, (9_999, 4_999, 10_001)),
        (5, (2, 1, 2)),
    ],
)
def test_sizes(rows, sizes):
    assert split_sizes(rows) == sizes


def test_sizes_of_ones_own_are_never_changed():
    assert split_sizes(31, (20, 10)) == (20, 10, 1)
    for rows, sizes in ((30, (20, 10)), (9, (0, 5)), (9, (5, -1))):
        with pytest.raises(
            ValueError, match=rf"expected more than {sizes[0]} \+ {sizes[1]} rows .* got {rows}"
        ):
            split_sizes(rows, sizes)
    with pytest.raises(ValueError, match=r"expected 5 rows or more for train, dev and test, got 4"):
        split_sizes(4)


# Matrices


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
    assert np.array_equal(torch.cat([split.features for split in splits(data)]), inputs[order])
    assert np.array_equal(torch.cat([split.labels for split in splits(data)]), labels[order])


def test_splits_names_and_source(tmp_path):
    x, y = save(tmp_path / "x.npy", features(50)), save(tmp_path / "y.mat", tags(50))
    data = read_matrices(str(x), str(y))
    assert_well_formed(data)
    assert [len(split.labels) for split in splits(data)] == [20, 10, 20]
    assert data.names == TAG_NAMES
    assert data.source == "x.npy, y.mat"
    assert len(set(TAG_NAMES)) == 24
    rows = [row for split in splits(data) for row in (split.features[:, 0] * 4 / 3).tolist()]
    assert sorted(rows) == list(range(50))
    given_sizes = read_matrices(x, y, sizes=(5, 5))
    assert [len(split.labels) for split in splits(given_sizes)] == [5, 5, 40]
    assert torch.equal(given_sizes.train.labels, data.train.labels[:5])
    assert not torch.equal(read_matrices(x, y, seed=1).train.features, data.train.features)


def test_other_numbers_of_tags_have_no_names(tmp_path):
    x, y = save(tmp_path / "x.npy", features()), save(tmp_path / "y.npy", tags(columns=3))
    assert read_matrices(x, y).names == ("tag 0", "tag 1", "tag 2")


def test_sparse_matrices(tmp_path):
    x = save(tmp_path / "x.mat", sparse.csc_matrix(features()))
    y = save(tmp_path / "y.mat", sparse.csc_matrix(tags().astype(float)))
    dense = read_matrices(save(tmp_path / "x.npy", features()), save(tmp_path / "y.npy", tags()))
    assert torch.equal(read_matrices(x, y).train.features, dense.train.features)
    assert torch.equal(read_matrices(x, y).train.labels, dense.train.labels)


def test_a_sparse_matrix_whose_columns_begin_anywhere_is_refused(tmp_path):
    """scipy would write it out, beyond the memory that it has."""
    x = tmp_path / "x.mat"
    savemat(x, {"x": sparse.csc_matrix((6, 2))})
    begin = struct.pack("<II3i", 5, 12, 0, 0, 0)  # type and size of the part, and where columns begin
    assert x.read_bytes().count(begin) == 1
    x.write_bytes(x.read_bytes().replace(begin, struct.pack("<II3i", 5, 12, 0, 5, 0)))
    with pytest.raises(ValueError, match=r"x\.mat: the sparse matrix is damaged: where its columns begin"):
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


# Images


def jpeg(number, size=(40, 30), mode="RGB"):
    """A picture of one colour, which tells its number."""
    file = io.BytesIO()
    Image.new("RGB", size, (10 * number, 100, 200)).convert(mode).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def folders(tmp_path):
    """Images 1 to 11 but for 10, and two tags."""
    images, annotations = tmp_path / "mirflickr", tmp_path / "annotations"
    (images / "meta").mkdir(parents=True)
    annotations.mkdir()
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        (images / f"im{number}.jpg").write_bytes(jpeg(number))
    (images / "readme.jpg.txt").write_text("no image")
    (annotations / "sky.txt").write_text("1\r\n3\r\n11\r\n")
    (annotations / "baby.txt").write_text("3\n\n4\n")
    (annotations / "baby_r1.txt").write_text("4\n")
    (annotations / "README.txt").write_text("Annotations of 25,000 images")
    return images, annotations


def colours(images):
    """A backbone: the mean red, green and blue."""
    assert images.dtype == torch.uint8
    assert images.shape[1:] == (3, 224, 224)
    return images.double().mean((2, 3))


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_images_as_published(folders, batch_size):
    data = read_mirflickr(*folders, colours, batch_size=batch_size)
    assert_well_formed(data)
    assert data.names == ("baby", "sky")
    assert data.source == str(folders[0])
    assert [len(split.labels) for split in splits(data)] == [4, 2, 4]
    found = {}
    for split in splits(data):
        for (red, green, blue), labels in zip(split.features.tolist(), split.labels.tolist(), strict=True):
            assert (green, blue) == pytest.approx((100, 200), abs=3)
            found[round(red / 10)] = labels
    none = {number: [0, 0] for number in (2, 5, 6, 7, 8, 9)}
    assert found == none | {1: [0, 1], 3: [1, 1], 4: [1, 0], 11: [0, 1]}


def test_the_seed_and_sizes_of_images(folders):
    first, again, other = (read_mirflickr(str(folders[0]), folders[1], colours, seed=s) for s in (0, 0, 1))
    assert torch.equal(first.train.features, again.train.features)
    assert not torch.equal(first.train.features, other.train.features)
    data = read_mirflickr(*folders, colours, sizes=(7, 2))
    assert [len(split.labels) for split in splits(data)] == [7, 2, 1]


def test_images_of_all_forms(folders):
    for number, size, mode in ((1, (500, 20), "RGB"), (2, (20, 500), "L"), (3, (256, 257), "CMYK")):
        (folders[0] / f"im{number}.jpg").write_bytes(jpeg(number, size, mode))
    assert_well_formed(read_mirflickr(*folders, colours))


def test_the_middle_of_an_image_is_cut_out(folders):
    pixels = np.zeros((100, 400, 3), dtype=np.uint8)
    pixels[:, 150:250] = 255  # scaled to 256 x 1024, this is the middle 256
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    (folders[0] / "im1.jpg").write_bytes(file.getvalue())
    seen = []
    read_mirflickr(*folders, lambda images: seen.append(images) or colours(images))
    assert seen[0][0].float().mean() > 250


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n10\n", r":2: expected an image of this number, found no im10\.jpg"),
        ("0\n", r":1: expected an image of this number, found no im0\.jpg"),
        ("1\nim3.jpg\n", r":2: expected the number of an image, got b'im3\.jpg'"),
        ("1 2\n", r":1: expected the number of an image, got b'1 2'"),
        ("\xff\n", r":1: expected the number of an image"),
        ("\n", r": expected numbers of images, got none"),
    ],
)
def test_bad_annotations(folders, text, message):
    (folders[1] / "sky.txt").write_text(text)
    with pytest.raises(ValueError, match=r"sky\.txt" + message):
        read_mirflickr(*folders, colours)


def test_no_annotations(folders, tmp_path):
    for name in ("sky.txt", "baby.txt"):
        (folders[1] / name).unlink()
    for folder in (folders[1], tmp_path / "none"):
        with pytest.raises(ValueError, match=r"expected annotations such as animals\.txt, found none"):
            read_mirflickr(folders[0], folder, colours)


def test_no_images(folders, tmp_path):
    with pytest.raises(ValueError, match=r"none: no such folder"):
        read_mirflickr(tmp_path / "none", folders[1], colours)
    with pytest.raises(ValueError, match=r"expected images named im1\.jpg, im2\.jpg and so on, found none"):
        read_mirflickr(folders[0] / "meta", folders[1], colours)
    with pytest.raises(ValueError, match=r"expected more than 8 \+ 2 rows"):
        read_mirflickr(*folders, colours, sizes=(8, 2))


def gif():
    file = io.BytesIO()
    Image.new("L", (20, 20)).save(file, "GIF")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        jpeg(1)[:100],
        jpeg(1, (400, 300))[:-200],
        gif(),
        jpeg(1, (5_000, 4_000)),
        jpeg(1, (1, 500)),
    ],
    ids=["empty", "text", "header", "torn", "gif", "large", "narrow"],
)
def test_bad_images(folders, content):
    (folders[0] / "im7.jpg").write_bytes(content)
    with pytest.raises(ValueError, match=r"im7\.jpg: expected a JPEG image: "):
        read_mirflickr(*folders, colours)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (
            lambda images: images.float(),
            r"to give \[10, features\] for 10 images, got \[10, 3, 224, 224\]",
        ),
        (
            lambda images: colours(images)[:1],
            r"to give \[10, features\] for 10 images, got \[1, 3\]",
        ),
        (lambda images: colours(images) / 0, r"expected finite features of im1\.jpg to im11\.jpg"),
    ],
)
def test_bad_backbones(folders, backbone, message):
    with pytest.raises(ValueError, match=message):
        read_mirflickr(*folders, backbone)


# torchvision


def small_network():
    """In the form of AlexNet, and much smaller."""
    network = nn.Module()
    network.features = nn.Sequential(nn.AvgPool2d(56), nn.Flatten())
    network.classifier = nn.Sequential(nn.Dropout(), nn.Linear(48, 7), nn.ReLU(), nn.Linear(7, 5))
    network.forward = lambda images: network.classifier(network.features(images))
    return network


def get_model(name, weights):
    assert weights is None
    if name not in ("alexnet", "flat"):
        raise ValueError(f"Unknown model {name}")
    return small_network() if name == "alexnet" else nn.Sequential(nn.Flatten())


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in for torchvision."""
    monkeypatch.setitem(
        sys.modules, "torchvision", SimpleNamespace(models=SimpleNamespace(get_model=get_model))
    )


def test_without_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ModuleNotFoundError, match="torchvision, which is not installed") as error:
        torchvision_backbone()
    assert error.value.name == "torchvision"


@pytest.mark.usefixtures("torchvision")
def test_the_last_layer_is_taken_off(folders):
    before = torch.random.get_rng_state()
    backbone, again = torchvision_backbone(), torchvision_backbone("alexnet")
    assert torch.equal(torch.random.get_rng_state(), before)
    images = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8)
    found = backbone(images)
    assert found.shape == (2, 7)
    assert found.min() >= 0  # after the last but one
    assert torch.equal(found, again(images))  # and no dropout
    assert read_mirflickr(*folders, backbone).train.features.shape == (4, 7)


@pytest.mark.usefixtures("torchvision")
def test_weights_from_a_file(tmp_path):
    network = small_network()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    images = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8)
    found = torchvision_backbone("alexnet", str(tmp_path / "weights.pth"))(images)
    normal = images / 255 - torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    normal /= torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    expected = network.eval().classifier[:-1](network.features(normal))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.usefixtures("torchvision")
def test_bad_weights(tmp_path):
    file = tmp_path / "weights.pth"
    with pytest.raises(ValueError, match=r"weights\.pth: no such file"):
        torchvision_backbone(weights_file=file)
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)
    torch.save({"other": torch.zeros(3)}, file)
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)
    torch.save({"evil": Path}, file)  # nothing but tensors is loaded
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)


@pytest.mark.usefixtures("torchvision")
def test_bad_networks():
    with pytest.raises(ValueError, match="Unknown model none"):
        torchvision_backbone("none")
    with pytest.raises(ValueError, match="expected a network with a linear layer at its end, got flat"):
        torchvision_backbone("flat")


# Scores


def test_hamming():
    labels = torch.zeros(4, 24, dtype=torch.int64)
    predictions = labels.clone()
    predictions[0, :5] = 1
    labels[1, 3] = 1
    for kind in (torch.int64, torch.bool, torch.float32):
        assert hamming(predictions.to(kind), labels) == 6 / 4
    assert hamming(labels, labels) == 0
    assert hamming(1 - labels, labels) == 24


def test_bad_predictions():
    zeros = torch.zeros(2, 3)
    for predictions, labels in ((zeros, zeros[:1]), (zeros[0], zeros[0]), (zeros[:0], zeros[:0])):
        with pytest.raises(ValueError, match=r"expected predictions and labels as \[images, tags\], got"):
            hamming(predictions, labels)
    with pytest.raises(ValueError, match="expected predictions that are 0 or 1"):
        hamming(zeros + 0.5, zeros)
    with pytest.raises(ValueError, match="expected labels that are 0 or 1"):
        hamming(zeros, zeros + torch.nan)


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_copy_of_mirflickr():
    folder = Path(os.environ["GSPEN_DATA"]) / "mirflickr25k"
    data = read_matrices(folder / "mirflickr25k-yall.mat", folder / "mirflickr25k-lall.mat")
    assert_well_formed(data)
    assert [tuple(split.features.shape) for split in splits(data)] == [
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
