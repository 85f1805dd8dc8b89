"""Backgrounds of letters: small patches of photographs, other photographs for each split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64, UInt8
from numpy.lib.stride_tricks import sliding_window_view

from recipes.ocr.letters import SIZE

Photo = UInt8[np.ndarray, "_ _"]
"""A grey photograph, or a part of one."""

MANY = 10
"""From this number on, photographs are not cut; fewer are each cut into this number of bands."""

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def read_backgrounds(folder: str | Path | None = None) -> list[Photo]:
    """Read photographs as grey images.

    Args:
        folder: folder of images, read in the order of their names; by default the two photographs that come
            with scikit-learn.

    Raises:
        ValueError: if there is no image, or one cannot be read or is too small; the message names it.
    """
    from PIL import Image

    if folder is None:
        from sklearn.datasets import load_sample_images

        return [np.array(Image.fromarray(photo).convert("L")) for photo in load_sample_images().images]
    if not Path(folder).is_dir():
        raise ValueError(f"{folder}: expected a folder of photographs, there is none")
    files = sorted(file for file in Path(folder).iterdir() if file.suffix.lower() in _SUFFIXES)
    if not files:
        raise ValueError(f"{folder}: expected photographs ({', '.join(_SUFFIXES)}), found none")
    return [_photo(file) for file in files]


def _photo(file: Path) -> Photo:
    from PIL import Image

    try:
        with Image.open(file) as image:
            photo = np.array(image.convert("L"))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{file}: expected a photograph: {error}") from None
    if min(photo.shape) < SIZE:
        rows, columns = photo.shape
        raise ValueError(f"{file}: expected at least {SIZE} x {SIZE} pixels, got {columns} x {rows}")
    return photo


def split_backgrounds(photos: Sequence[Photo], shares: Sequence[float]) -> list[list[Photo]]:
    """Return a pool of photographs for each share; pools have no pixel in common.

    Ten or more photographs are divided whole. Fewer are each cut into vertical bands, which go to the pools
    in turn: the pools would differ too much if each had one wide band of a photograph.

    Args:
        photos: photographs to divide.
        shares: shares of the pools; they sum to one.

    Raises:
        ValueError: if a pool would be empty.

    Example:
        >>> train, test = split_backgrounds([np.zeros((40, 400), np.uint8)], (0.8, 0.2))
        >>> len(train), len(test), test[0].shape
        (8, 2, (40, 40))
    """
    if not photos:
        raise ValueError("expected photographs to divide, got none")
    if min(shares, default=0) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"expected positive shares that sum to 1, got {tuple(shares)}")
    parts = [list(photos)]
    if len(photos) < MANY:  # bands are wide enough for a patch
        counts = [max(1, min(MANY, photo.shape[1] // SIZE)) for photo in photos]
        parts = [np.array_split(photo, count, axis=1) for photo, count in zip(photos, counts, strict=True)]
    pools: list[list[Photo]] = [[] for _ in shares]
    for bands in parts:
        for band, pool in zip(bands, _pools_of(len(bands), shares), strict=True):
            pools[pool].append(band)
    if not all(pools):
        raise ValueError(
            f"{len(photos)} photographs are too few or too narrow for the shares {tuple(shares)}: expected "
            f"{MANY} or more, or some of {MANY * SIZE} pixels width"
        )
    return pools


def _pools_of(count: int, shares: Sequence[float]) -> list[int]:
    """Return the pool of each of `count` parts: always the pool that lacks most of its share."""
    pools: list[int] = []
    for number in range(1, count + 1):
        lacking = [number * share - pools.count(pool) for pool, share in enumerate(shares)]
        pools.append(max(range(len(shares)), key=lambda pool: round(lacking[pool], 6)))
    return pools


def cut_patches(
    pool: Sequence[Photo], draws: Float[np.ndarray, " patches"]
) -> UInt8[np.ndarray, "patches 28 28"]:
    """Cut a patch out of a pool for each random number; all positions are equally likely.

    Args:
        pool: photographs of at least 28 x 28 pixels.
        draws: uniform random numbers in [0, 1); equal numbers give equal patches.

    Example:
        >>> photo = np.arange(29, dtype=np.uint8)[None].repeat(28, 0)   # it has two positions for a patch
        >>> cut_patches([photo], np.array([0.2, 0.7]))[:, 0, 0]
        array([0, 1], dtype=uint8)
    """
    small = [photo.shape for photo in pool if min(photo.shape) < SIZE]
    if small or not pool:
        raise ValueError(f"expected photographs of at least {SIZE} x {SIZE} pixels, got {small or 'none'}")
    positions = np.array([(p.shape[0] - SIZE + 1) * (p.shape[1] - SIZE + 1) for p in pool])
    ends = positions.cumsum()
    chosen = pick(draws, int(ends[-1]))
    photo_of = np.searchsorted(ends, chosen, side="right")
    patches = np.empty((len(draws), SIZE, SIZE), dtype=np.uint8)
    for number in np.unique(photo_of):
        here = photo_of == number
        windows = sliding_window_view(pool[number], (SIZE, SIZE))
        row, column = np.divmod(chosen[here] - (ends - positions)[number], windows.shape[1])
        patches[here] = windows[row, column]
    return patches


def pick(
    draws: Float[np.ndarray, "*shape"], counts: Int64[np.ndarray, "*#shape"] | int
) -> Int64[np.ndarray, "*shape"]:
    """Return uniform random numbers in [0, 1) as whole numbers from 0 to count - 1.

    Example:
        >>> pick(np.array([0.0, 0.5, 0.99]), 10)
        array([0, 5, 9])
    """
    return np.minimum((draws * counts).astype(np.int64), np.asarray(counts) - 1)  # a product may round up
