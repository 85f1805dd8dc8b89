"""Image tagging on MIRFLICKR25k: which of 24 tags an image has, by features of the image.

Features and tags come from two matrices with a row for each image,

    file.mat          MATLAB 5, with one matrix, dense or sparse; version 7.3 (HDF5) is not read
    file.npy, .npz    NumPy, one array

or from the collection as published, by any function from images to features:

    images            im1.jpg to im25000.jpg
    annotations       animals.txt, baby.txt, ...: the numbers of the images that have a tag, one in a line

Annotations that end in _r1.txt, stricter ones of the same tags, and the README are left out. The matrices
often used instead, of 20,015 images, have the tags in the order of the alphabet too.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped, UInt8
from torch import Tensor, nn

from gspen_ner.tasks.matlab import check_matlab

_TAGS = (
    "animals baby bird car clouds dog female flower food indoor lake male night people plant_life portrait "
    "river sea sky structures sunset transport tree water"
)
TAG_NAMES = tuple(_TAGS.split())
"""The 24 tags of MIRFLICKR25k."""

SIZES = (10_000, 5_000)
"""Images for training and validation, of the 25,000; as many as for training remain for testing."""

SIDE = 224
"""Height and width of the images that a backbone gets."""

Backbone = Callable[[UInt8[Tensor, "images 3 224 224"]], Shaped[Tensor, "images features"]]
"""A function from images, red, green and blue, to their features."""

_SHORTER = 256  # the shorter side of an image is scaled to this before its middle is cut out
_MOST_CELLS = 1 << 30  # of a sparse matrix, written out
_MOST_PIXELS = 1 << 24  # of an image; those of MIRFLICKR are much smaller
_IMAGE = re.compile(r"im([1-9][0-9]{0,8})\.jpg\Z")
_MEANS, _DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as torchvision has them


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


def _shuffled(
    features: Tensor, labels: Tensor, names: tuple[str, ...], source: str, seed: int, sizes: tuple[int, int]
) -> TaggingData:
    """The splits, dealt out by chance."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = order.split(split_sizes(len(labels), sizes))
    train, dev, test = (TaggingSplit(features[part], labels[part]) for part in parts)
    return TaggingData(train, dev, test, names, source)


# Matrices


def read_matrices(
    features: str | Path, labels: str | Path, seed: int = 0, sizes: tuple[int, int] = SIZES
) -> TaggingData:
    """Read features and tags from matrices; see this module's header for the formats.

    Args:
        features: the file of the features, finite numbers.
        labels: the file of the tags, zeros and ones. Columns of 24 get the names of MIRFLICKR's tags.
        seed: rows are shuffled by it.
        sizes: of train and dev; see `split_sizes`.

    Raises:
        ValueError: a file is missing, damaged or not what was expected; the message says which.
    """
    features, labels = Path(features), Path(labels)
    inputs, tags = _features(features, _matrix(features)), _labels(labels, _matrix(labels))
    if len(inputs) != len(tags):
        raise ValueError(
            f"expected as many rows in both, got {len(inputs)} in {features} and {len(tags)} in {labels}"
        )
    width = tags.shape[1]
    names = TAG_NAMES if width == len(TAG_NAMES) else tuple(f"tag {number}" for number in range(width))
    try:
        return _shuffled(inputs, tags, names, f"{features.name}, {labels.name}", seed, sizes)
    except ValueError as error:
        raise ValueError(f"{features}: {error}") from None


def _matrix(path: Path) -> np.ndarray:
    """The one matrix of a file."""
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


# Images


def read_mirflickr(
    images_folder: str | Path,
    annotations_folder: str | Path,
    backbone: Backbone,
    seed: int = 0,
    sizes: tuple[int, int] = SIZES,
    batch_size: int = 50,
) -> TaggingData:
    """Read MIRFLICKR25k as published; see this module's header for its layout.

    Args:
        images_folder: where im1.jpg and so on are. All of them are read, those without tags too.
        annotations_folder: where the tags are.
        backbone: gets the middle of each image, 224 x 224 pixels after its shorter side was scaled to 256.
        seed: images are shuffled by it.
        sizes: of train and dev; see `split_sizes`.
        batch_size: how many images the backbone gets at a time.

    Raises:
        ValueError: a file is missing, damaged or not what was expected; the message says which.
    """
    images_folder, annotations_folder = Path(images_folder), Path(annotations_folder)
    images = _image_files(images_folder)
    split_sizes(len(images), sizes)  # before the long work
    names, labels = _annotations(annotations_folder, list(images))
    files = list(images.values())
    batches = [files[start : start + batch_size] for start in range(0, len(files), batch_size)]
    features = torch.cat([_run(backbone, batch) for batch in batches])
    return _shuffled(features, labels, names, str(images_folder), seed, sizes)


def _image_files(folder: Path) -> dict[int, Path]:
    """The images of a folder by their numbers, in order."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    found = {int(match[1]): file for file in folder.iterdir() if (match := _IMAGE.match(file.name))}
    if not found:
        raise ValueError(f"{folder}: expected images named im1.jpg, im2.jpg and so on, found none")
    return dict(sorted(found.items()))


def _annotations(
    folder: Path, numbers: Sequence[int]
) -> tuple[tuple[str, ...], Int64[Tensor, "images tags"]]:
    """The tags by name, and which images have them."""
    files = [
        file
        for file in sorted(folder.glob("*.txt"))
        if not file.stem.endswith("_r1") and not file.stem.lower().startswith("readme")
    ]
    if not files:
        raise ValueError(f"{folder}: expected annotations such as animals.txt, found none")
    rows = {number: row for row, number in enumerate(numbers)}
    labels = torch.zeros((len(numbers), len(files)), dtype=torch.int64)
    for column, file in enumerate(files):
        labels[_tagged_rows(file, rows), column] = 1
    return tuple(file.stem for file in files), labels


def _tagged_rows(file: Path, rows: dict[int, int]) -> list[int]:
    """The rows of the images whose numbers are in a file."""
    found = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    for place, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if not re.fullmatch(rb"[0-9]{1,9}", text):
            raise ValueError(f"{file}:{place}: expected the number of an image, got {text[:40]!r}")
        number = int(text)
        if number not in rows:
            raise ValueError(f"{file}:{place}: expected an image of this number, found no im{number}.jpg")
        found.append(rows[number])
    if not found:
        raise ValueError(f"{file}: expected numbers of images, got none")
    return found


def _run(backbone: Backbone, files: Sequence[Path]) -> Float32[Tensor, "images features"]:
    """The features of some images."""
    with torch.no_grad():
        features = backbone(torch.stack([_image(file) for file in files]))
    if features.ndim != 2 or len(features) != len(files):
        raise ValueError(
            f"expected the backbone to give [{len(files)}, features] for {len(files)} images, "
            f"got {list(features.shape)}"
        )
    features = features.float().cpu()
    if not features.isfinite().all():
        raise ValueError(f"expected finite features of {files[0].name} to {files[-1].name}, got others")
    return features


def _image(file: Path) -> UInt8[Tensor, "3 224 224"]:
    """The middle of a JPEG image."""
    from PIL import Image

    try:
        with Image.open(file, formats=("JPEG",)) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError(f"it has {image.width} x {image.height} pixels")
            scale = _SHORTER / min(image.size)
            if max(image.size) * scale > _MOST_PIXELS / _SHORTER:
                raise ValueError(f"it is {image.width} x {image.height} pixels, too narrow")
            wide, high = (max(_SHORTER, round(side * scale)) for side in image.size)
            scaled = image.convert("RGB").resize((wide, high), Image.Resampling.BILINEAR)
    except Exception as error:  # as above
        raise ValueError(f"{file}: expected a JPEG image: {error}") from None
    left, top = (wide - SIDE) // 2, (high - SIDE) // 2
    middle = np.array(scaled.crop((left, top, left + SIDE, top + SIDE)))
    return torch.from_numpy(middle).permute(2, 0, 1).contiguous()


def torchvision_backbone(name: str = "alexnet", weights_file: str | Path | None = None) -> Backbone:
    """A network of torchvision's without its last linear layer, for `read_mirflickr`.

    Args:
        name: as `torchvision.models.get_model` takes it.
        weights_file: its weights, a state dictionary written by `torch.save`. Nothing is downloaded: without
            a file the weights are random, though the same each time, which is of use for trials only.

    Raises:
        ModuleNotFoundError: torchvision is not installed.
        ValueError: there is no such network, or the file does not hold its weights.
    """
    try:
        torchvision = import_module("torchvision")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "features of images need torchvision, which is not installed: pip install torchvision",
            name="torchvision",
        ) from None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = torchvision.models.get_model(name, weights=None)
    if weights_file is not None:
        _load_weights(network, Path(weights_file))
    _remove_last_layer(network, name)
    network.eval()
    means, deviations = (torch.tensor(values)[:, None, None] for values in (_MEANS, _DEVIATIONS))

    def features(images: Tensor) -> Tensor:
        return network((images.float() / 255 - means) / deviations)

    return features


def _load_weights(network: nn.Module, file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    try:
        network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except Exception as error:  # for damaged files and other networks, these are of many kinds
        raise ValueError(f"{file}: expected the weights of {type(network).__name__}: {error}") from None


def _remove_last_layer(network: nn.Module, name: str) -> None:
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError(f"expected a network with a linear layer at its end, got {name}")
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())


# Scores


def hamming(predictions: Shaped[Tensor, "images tags"], labels: Shaped[Tensor, "images tags"]) -> float:
    """The mean number of wrong tags of an image, missing or too many: from 0 to the number of tags.

    Example:
        >>> hamming(torch.tensor([[1, 0, 1], [0, 0, 0]]), torch.tensor([[1, 1, 0], [0, 0, 1]]))
        1.5
    """
    if predictions.shape != labels.shape or labels.ndim != 2 or not labels.numel():
        raise ValueError(
            f"expected predictions and labels as [images, tags], "
            f"got {tuple(predictions.shape)} and {tuple(labels.shape)}"
        )
    for what, values in (("predictions", predictions), ("labels", labels)):
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"expected {what} that are 0 or 1, got others")
    return (predictions.bool() != labels.bool()).sum(1).double().mean().item()
