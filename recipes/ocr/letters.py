"""Images of single letters, 28 x 28 pixels with bright ink on black, from several sources.

None                         drawn with the installed fonts
path/to/file.npz             arrays `images`, `label` (a character) and `font` (a number)
path/to/folder, .zip, .tgz   Chars74k's "English Fnt" as published: .../Fnt/Sample011/img011-00001.png

Digits are ignored, and capitals count as their letter. Chars74k has many fonts twice and one of them fifteen
times, under different numbers. Equal images of a letter are therefore kept once, so that no image can be in
two splits.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from string import ascii_lowercase, digits
from typing import IO, TYPE_CHECKING, cast

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

SIZE = 28
"""Height and width of a letter image."""

Files = dict[str, Callable[[], IO[bytes]]]
"""Functions that open the files of a folder or archive, by name."""

_LAYOUT = "Sample011/img011-00001.png to Sample062/..., as in Chars74k's English Fnt set"
_PICTURE = re.compile(r"(?:^|/)(Fnt/)?Sample([0-9]{3})/img([0-9]{3})-([0-9]{1,9})\.png\Z")
_MOST_BYTES, _MOST_PIXELS = 1 << 20, 1 << 20  # of a picture; Chars74k's are much smaller
_NO_LETTERS = ("cmex", "cmsy", "stixsiz", "stixnonuni", "symbol", "dings", "dingbat", "emoji", "icon", "math")
_FINE = 4  # factor by which letters are drawn larger, then reduced
_STYLES = ((26, 0, 0.0), (25, 2, 0.0), (23, 0, 0.25))  # height of the tallest letter, added boldness, slant


@dataclass(frozen=True, eq=False)
class Letters:
    """A pool of letter images.

    Attributes:
        images: images; ink is 255, the background 0.
        labels: labels; 0 is "a", 25 is "z".
        source: where the images come from, for people to read.
        group: font of each image; a pool is split by group, so that no font is in two splits.
    """

    images: UInt8[Tensor, "letters 28 28"]
    labels: Int64[Tensor, " letters"]
    source: str
    group: Int64[Tensor, " letters"]

    @property
    def alphabet(self) -> str:
        """Return the letters that occur, in order."""
        return "".join(ascii_lowercase[label] for label in self.labels.unique().tolist())


def read_letters(source: str | Path | None = None) -> Letters:
    """Read or draw letter images; see this module's header for the sources.

    Raises:
        ValueError: if the source is missing, damaged or has other content; the message names the file.
    """
    if source is None:
        return _drawn()
    path = Path(source)
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    return _from_arrays(path) if path.suffix == ".npz" else _from_pictures(path)


def _letters(source: str, images: np.ndarray, labels: np.ndarray, fonts: np.ndarray) -> Letters:
    """Return the pool, with bright ink, and each image of a letter once."""
    border = np.ones((SIZE, SIZE), dtype=bool)
    border[1:-1, 1:-1] = False
    if images[:, border].mean() > 127.5:
        images = 255 - images
    seen: dict[tuple[int, bytes], int] = {}
    for number, (label, image) in enumerate(zip(labels.tolist(), images, strict=True)):
        seen.setdefault((label, image.tobytes()), number)
    first = list(seen.values())
    kept = [torch.from_numpy(array[first]) for array in (images, labels, fonts)]
    return Letters(kept[0], kept[1], source, kept[2])


# Arrays


def _from_arrays(path: Path) -> Letters:
    images, characters, fonts = _load_arrays(path)
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != (SIZE, SIZE):
        raise ValueError(f"{path}: expected images as uint8 [n, 28, 28], got {images.dtype} {images.shape}")
    for name, array, dtypes, noun in (
        ("label", characters, "U", "character"),
        ("font", fonts, "iu", "number"),
    ):
        if array.dtype.kind not in dtypes or array.shape != images.shape[:1]:
            raise ValueError(
                f"{path}: expected {name} as a {noun} for each of {len(images)} images, "
                f"got {array.dtype} {array.shape}"
            )
    small = np.char.lower(characters)
    unknown = sorted(set(small.tolist()) - set(ascii_lowercase + digits))
    if unknown:
        raise ValueError(f"{path}: expected letters and digits as label, got {unknown[:5]}")
    kept = np.isin(small, list(ascii_lowercase))
    if not kept.any():
        raise ValueError(f"{path}: expected images of letters, got {len(images)} of digits")
    labels = np.searchsorted(list(ascii_lowercase), small[kept])
    return _letters(str(path), images[kept], labels.astype(np.int64), fonts[kept].astype(np.int64))


def _load_arrays(path: Path) -> list[np.ndarray]:
    names = ("images", "label", "font")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an .npz file with arrays {', '.join(names)}, got something else")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            present = list(arrays.files)
            if set(names) <= set(present):
                images, characters, fonts = (np.asanyarray(arrays[name]) for name in names)
                characters.tolist()  # invalid characters raise only here
                return [images, characters, fonts]  # entries that are no arrays came as bytes
    except Exception as error:  # damaged files raise exceptions of many classes
        raise ValueError(f"{path}: cannot be read as an .npz file: {error}") from None
    raise ValueError(f"{path}: expected arrays {', '.join(names)}, got {', '.join(present) or 'none'}")


# Pictures


def _from_pictures(path: Path) -> Letters:
    """Read a folder or an archive in the layout of Chars74k."""
    read = {}
    with _opened(path) as files:
        matches = {name: match for name in files if (match := _PICTURE.search(name))}
        # A folder may also hold Chars74k's photographs, whose files have the same names.
        only_fonts = any(match[1] for match in matches.values())
        for name, match in matches.items():  # in the archive's order: going back in a .tgz is slow
            label = _label(path, match, name) if match[1] or not only_fonts else None
            if label is not None:
                read[name] = _picture(f"{path}: {name}", files[name]), label, int(match[4])
    if not read:
        raise ValueError(f"{path}: expected letter images named {_LAYOUT}, found none")
    images, labels, fonts = zip(*(read[name] for name in sorted(read)), strict=True)
    return _letters(str(path), np.stack(images), np.array(labels), np.array(fonts))


@contextmanager
def _opened(path: Path) -> Iterator[Files]:
    """Yield the files of a folder or archive by name; nothing is unpacked to disk."""
    try:
        if path.is_dir():
            pictures = [file for file in path.rglob("*.png") if file.is_file()]
            yield {p.relative_to(path).as_posix(): cast(Callable, partial(p.open, "rb")) for p in pictures}
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as zipped:
                yield {info.filename: partial(zipped.open, info) for info in zipped.infolist()}
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                members = [member for member in tar if member.isfile()]
                yield {member.name: cast(Callable, partial(tar.extractfile, member)) for member in members}
        else:
            raise ValueError(f"{path}: expected an .npz file, a folder, or a .zip or .tgz archive")
    except Exception as error:  # damaged files raise exceptions of many classes
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path}: cannot be read: {error}") from None


def _label(path: Path, match: re.Match[str], name: str) -> int | None:
    """Return a picture's label by its folder; None for a digit."""
    sample = int(match[2])
    if sample != int(match[3]):
        raise ValueError(f"{path}: {name}: expected img{match[2]} in Sample{match[2]}, got img{match[3]}")
    if not 1 <= sample <= 62:
        raise ValueError(f"{path}: {name}: expected Sample001 (0) to Sample062 (z), got Sample{match[2]}")
    return (sample - 11) % 26 if sample > 10 else None


def _picture(name: str, opener: Callable[[], IO[bytes]]) -> UInt8[np.ndarray, "28 28"]:
    """Return a PNG file as a small grey image."""
    from PIL import Image

    with opener() as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{name}: expected a small picture, got more than {_MOST_BYTES:,} bytes")
    try:
        with Image.open(BytesIO(content), formats=("PNG",)) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError(f"it has {image.width} x {image.height} pixels")
            return np.array(image.convert("L").resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    except Exception as error:  # damaged pictures raise exceptions of many classes
        raise ValueError(f"{name}: expected a small PNG picture: {error}") from None


# Fonts


def _drawn() -> Letters:
    """Draw all lower-case letters in all installed fonts, each font in a few styles."""
    images = []
    for font in _fonts():
        styles = [_draw(font, *style) for style in _STYLES]
        if all(
            style.any((1, 2)).all() and len({image.tobytes() for image in style}) == 26 for style in styles
        ):
            images.append(np.concatenate(styles))
    if not images:
        raise ValueError("no installed font has the letters a to z; give a file of letter images instead")
    labels = np.tile(np.arange(26), len(_STYLES) * len(images))
    fonts = np.repeat(np.arange(len(images)), len(_STYLES) * 26)
    return _letters(f"{len(images)} installed fonts", np.concatenate(images), labels, fonts)


def _fonts() -> list[FreeTypeFont]:
    """Return Matplotlib's and the system's fonts, each once, without those known to have no letters."""
    import matplotlib
    from matplotlib.font_manager import findSystemFonts
    from PIL import ImageFont

    bundled = Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf")
    fonts: dict[tuple[str | None, ...], FreeTypeFont] = {}
    for file in (*sorted(bundled), *sorted(map(Path, findSystemFonts()))):
        if any(name in file.name.lower() for name in _NO_LETTERS):
            continue
        try:
            font = ImageFont.truetype(file, 100)
        except OSError:  # a bitmap font, or damaged
            continue
        fonts.setdefault(font.getname(), font)
    return list(fonts.values())


def _draw(font: FreeTypeFont, height: int, bolder: int, slant: float) -> UInt8[np.ndarray, "26 28 28"]:
    """Draw the letters a to z, each in the middle of its image, in the largest scale at which all fit."""
    from PIL import Image, ImageDraw

    boxes = np.array([font.getbbox(letter) for letter in ascii_lowercase])
    wide, high = (boxes[:, 2:] - boxes[:, :2]).T
    scale = _FINE * min(height / max(high.max(), 1), (SIZE - 2) / max((wide + slant * high).max(), 1))
    font = font.font_variant(size=max(1, round(font.size * scale)))
    side = SIZE * _FINE
    images = []
    for letter in ascii_lowercase:
        left, top, right, bottom = font.getbbox(letter)
        image = Image.new("L", (side, side))
        corner = ((side - left - right) / 2, (side - top - bottom) / 2)
        ImageDraw.Draw(image).text(corner, letter, fill=255, font=font, stroke_width=bolder)
        if slant:
            shear = (1, slant, -slant * side / 2, 0, 1, 0)
            image = image.transform(image.size, Image.Transform.AFFINE, shear, Image.Resampling.BILINEAR)
        images.append(np.array(image.reduce(_FINE)))
    return np.stack(images)
