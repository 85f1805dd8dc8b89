"""Backgrounds: read as grey, divided without overlap, cut at every place alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recipes.ocr.backgrounds import cut_patches, pick, read_backgrounds, split_backgrounds

SHARES = (0.6, 0.2, 0.2)


def columns(width, rows=30):
    """A photograph in which each column has its number as value."""
    return np.arange(width)[None].repeat(rows, 0)


def test_the_photographs_of_scikit_learn():
    photos = read_backgrounds(None)
    assert [photo.shape for photo in photos] == [(427, 640), (427, 640)]
    assert all(photo.dtype == np.uint8 for photo in photos)
    pools = split_backgrounds(photos, SHARES)
    pixels = [sum(part.size for part in pool) for pool in pools]
    assert np.allclose(np.array(pixels) / sum(pixels), SHARES)
    assert sum(pixels) == 2 * 427 * 640


def test_a_folder_in_the_order_of_names(tmp_path):
    for number, name in enumerate(["c.PNG", "a.bmp", "b.tiff"]):
        Image.new("RGB", (40, 30), (60 * number,) * 3).save(tmp_path / name)
    (tmp_path / "readme.txt").write_text("no photograph")
    photos = read_backgrounds(str(tmp_path))
    assert [photo[0, 0] for photo in photos] == [60, 120, 0]
    assert all(photo.shape == (30, 40) and photo.dtype == np.uint8 for photo in photos)


def test_bad_folders(tmp_path):
    with pytest.raises(ValueError, match=r"none: expected a folder of photographs"):
        read_backgrounds(tmp_path / "none")
    with pytest.raises(ValueError, match=r"expected photographs \(\.bmp, .*\), found none"):
        read_backgrounds(tmp_path)
    Image.new("L", (27, 200)).save(tmp_path / "small.png")
    with pytest.raises(ValueError, match=r"small\.png: expected at least 28 x 28 pixels, got 27 x 200"):
        read_backgrounds(tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"broken\.jpg: expected a photograph"):
        read_backgrounds(tmp_path)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_few_photographs_are_cut_into_bands(count):
    photos = [columns(333) + 1000 * number for number in range(count)]
    pools = split_backgrounds(photos, SHARES)
    owned = [{value for part in pool for value in part[0].tolist()} for pool in pools]
    assert sum(map(len, owned)) == len(set().union(*owned)) == 333 * count  # each column has one owner
    for pool, values, share in zip(pools, owned, SHARES, strict=True):
        assert all(part.shape[0] == 30 and part.shape[1] >= 28 for part in pool)
        assert len(values) == pytest.approx(333 * count * share, rel=0.03)
        assert {value // 1000 for value in values} == set(range(count))  # some of each photograph


@pytest.mark.parametrize("count", [10, 11, 57])
def test_many_photographs_are_dealt_out_whole(count):
    photos = [np.full((30, 40), number) for number in range(count)]
    pools = split_backgrounds(photos, SHARES)
    numbers = [[int(photo[0, 0]) for photo in pool] for pool in pools]
    assert sorted(number for some in numbers for number in some) == list(range(count))
    for pool, share in zip(pools, SHARES, strict=True):
        assert abs(len(pool) - count * share) < 1
        assert all(photo.shape == (30, 40) for photo in pool)


def test_what_cannot_be_divided():
    with pytest.raises(ValueError, match="expected photographs to divide, got none"):
        split_backgrounds([], SHARES)
    for shares in [(), (0.5, 0.6), (1.0, 0.0), (1.5, -0.5)]:
        with pytest.raises(ValueError, match="positive shares that sum to 1"):
            split_backgrounds([columns(300)], shares)
    with pytest.raises(ValueError, match="1 photographs are too few or too narrow"):
        split_backgrounds([columns(100)], SHARES)
    with pytest.raises(ValueError, match="10 photographs are too few"):
        split_backgrounds([columns(100)] * 10, (0.98, 0.01, 0.01))
    assert len(split_backgrounds([columns(140)], SHARES)[2]) == 1  # just wide enough


def test_patches_are_windows_of_the_pool():
    generator = np.random.default_rng(0)
    pool = [generator.integers(0, 256, size, dtype=np.uint8) for size in ((28, 28), (29, 31), (40, 33))]
    windows = [
        photo[row : row + 28, column : column + 28]
        for photo in pool
        for row in range(photo.shape[0] - 27)
        for column in range(photo.shape[1] - 27)
    ]
    patches = cut_patches(pool, (np.arange(len(windows)) + 0.5) / len(windows))
    assert np.array_equal(patches, np.stack(windows))  # every place, and each equally likely
    assert patches.dtype == np.uint8


def test_patches_depend_on_their_own_number_only():
    pool = split_backgrounds(read_backgrounds(), SHARES)[0]
    draws = np.random.default_rng(0).random(500)
    patches = cut_patches(pool, draws)
    assert np.array_equal(patches[:7], cut_patches(pool, draws[:7]))
    assert np.array_equal(patches[::-1], cut_patches(pool, draws[::-1]))
    assert cut_patches(pool, draws[:0]).shape == (0, 28, 28)


def test_patches_of_nothing():
    for pool in ([], [np.zeros((27, 100), np.uint8)]):
        with pytest.raises(ValueError, match="photographs of at least 28 x 28 pixels, got"):
            cut_patches(pool, np.zeros(1))


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 10**9))
def test_numbers_are_picked_within_bounds(draw, count):
    assert 0 <= pick(np.array([draw]), count)[0] < count


def test_the_largest_draw_picks_the_last():
    largest = np.nextafter(np.ones(4), 0)
    assert pick(largest, np.array([1, 3, 10, 2**40])).tolist() == [0, 2, 9, 2**40 - 1]
