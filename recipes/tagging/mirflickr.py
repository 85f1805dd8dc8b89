"""MIRFLICKR25k as published. Any function from images to features makes data of it.

images            im1.jpg to im25000.jpg
annotations       animals.txt, baby.txt, ...: the numbers of the images that have a tag, one in a line

Annotations that end in _r1.txt, stricter ones of the same tags, and the README are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from recipes.studies.data import StudyData
from recipes.tagging.backbone import SIDE, Backbone
from recipes.tagging.splits import shuffled, split_sizes

_SHORTER = 256  # the shorter side of an image is scaled to this before its middle is cut out
_MOST_PIXELS = 1 << 24  # of an image; those of MIRFLICKR are much smaller
_IMAGE = re.compile(r"im([1-9][0-9]{0,8})\.jpg\Z")


def read_mirflickr(
    images_folder: str | Path,
    annotations_folder: str | Path,
    backbone: Backbone,
    seed: int = 0,
    sizes: tuple[int, int] | None = None,
    batch_size: int = 50,
) -> StudyData:
    """Read MIRFLICKR25k as published; see this module's header for its layout.

    Args:
        images_folder: folder of im1.jpg and so on; images without tags are read too.
        annotations_folder: folder of the tags.
        backbone: gets the middle of each image, 224 x 224 pixels after its shorter side is scaled to 256.
        seed: seed of the random splits.
        sizes: numbers of training and validation images; see `split_sizes`.
        batch_size: number of images of a call of the backbone.

    Raises:
        ValueError: if a file is missing, damaged or has other content; the message names it.
    """
    images_folder, annotations_folder = Path(images_folder), Path(annotations_folder)
    images = _image_files(images_folder)
    split_sizes(len(images), sizes)  # before the long work
    names, labels = _annotations(annotations_folder, list(images))
    files = list(images.values())
    batches = [files[start : start + batch_size] for start in range(0, len(files), batch_size)]
    features = torch.cat([_run(backbone, batch) for batch in batches])
    return shuffled(features, labels, names, str(images_folder), seed, sizes)


def _image_files(folder: Path) -> dict[int, Path]:
    """Return the images of a folder by their numbers, in order."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    files = {int(match[1]): file for file in folder.iterdir() if (match := _IMAGE.match(file.name))}
    if not files:
        raise ValueError(f"{folder}: expected images named im1.jpg, im2.jpg and so on, found none")
    return dict(sorted(files.items()))


def _annotations(
    folder: Path, numbers: Sequence[int]
) -> tuple[tuple[str, ...], Int64[Tensor, "images tags"]]:
    """Return the names of the tags, and the tags of each image."""
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
    """Return the rows of the images whose numbers are in a file."""
    tagged = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    for line_number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if not re.fullmatch(rb"[0-9]{1,9}", text):
            raise ValueError(f"{file}:{line_number}: expected the number of an image, got {text[:40]!r}")
        number = int(text)
        if number not in rows:
            raise ValueError(
                f"{file}:{line_number}: expected an image of this number, found no im{number}.jpg"
            )
        tagged.append(rows[number])
    if not tagged:
        raise ValueError(f"{file}: expected numbers of images, got none")
    return tagged


def _run(backbone: Backbone, files: Sequence[Path]) -> Float32[Tensor, "images features"]:
    """Return the features of some images."""
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
    """Return the middle of a JPEG image."""
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
    except Exception as error:  # damaged files raise exceptions of many classes
        raise ValueError(f"{file}: expected a JPEG image: {error}") from None
    left, top = (wide - SIDE) // 2, (high - SIDE) // 2
    middle = np.array(scaled.crop((left, top, left + SIDE, top + SIDE)))
    return torch.from_numpy(middle).permute(2, 0, 1).contiguous()
