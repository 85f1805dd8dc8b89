"""OCR data: what varies and what does not, how letters are moved, and that splits share nothing."""

import os
import time
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
import torch

from recipes.ocr.backgrounds import read_backgrounds
from recipes.ocr.letters import Letters, read_letters
from recipes.ocr.words import (
    WORDS,
    choose_words,
    letter_accuracy,
    make_ocr_data,
    word_accuracy,
)
from recipes.studies.data import SPLITS

SIZES = (300, 40, 40)


def pool(shape, fonts=20, alphabet=ascii_lowercase):
    """Letters that all have one shape [28, 28]; a font shows as the brightness 100 + font."""
    labels = torch.tensor([ascii_lowercase.index(letter) for letter in alphabet]).repeat(fonts)
    group = torch.arange(fonts).repeat_interleave(len(alphabet))
    images = shape.to(torch.uint8) * (100 + group)[:, None, None].to(torch.uint8)
    return Letters(images, labels, "a test", group)


def block(height, width):
    """A rectangle in the middle of an image."""
    shape = torch.zeros(28, 28)
    shape[14 - height // 2 : 14 + height // 2, 14 - width // 2 : 14 + width // 2] = 1
    return shape


def plain(count=10):
    """Photographs that show nothing but their number."""
    return [np.full((30, 30), number, dtype=np.uint8) for number in range(count)]


@pytest.fixture(scope="module")
def noisy():
    """Letters and backgrounds that are all different."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (26 * 10, 28, 28), generator=generator, dtype=torch.uint8)
    letters = Letters(images, torch.arange(26).repeat(10), "noise", torch.arange(10).repeat_interleave(26))
    return letters, [np.random.default_rng(0).integers(0, 256, (60, 300), dtype=np.uint8)]


def test_the_words():
    assert len(WORDS) == len(set(WORDS)) > 100
    assert all(len(word) == 5 and set(word) <= set(ascii_lowercase) for word in WORDS)
    chosen = choose_words(ascii_lowercase)
    assert len(chosen) == 50
    assert {"close", "other", "world"} <= set(chosen)


def test_words_of_the_letters_at_hand():
    alphabet = ascii_lowercase.replace("i", "").replace("o", "")
    chosen = choose_words(alphabet)
    assert len(set(chosen)) == 50
    assert set("".join(chosen)) <= set(alphabet)
    assert chosen == [word for word in WORDS if not set(word) & {"i", "o"}][:50]
    assert choose_words(ascii_lowercase, len(WORDS)) == list(WORDS)


@pytest.mark.parametrize(("alphabet", "count"), [("abc", 1), (ascii_lowercase, 0), (ascii_lowercase, 1000)])
def test_too_few_words(alphabet, count):
    with pytest.raises(ValueError, match=rf"spelled with the letters at hand \(missing: .*\).*got {count}"):
        choose_words(alphabet, count)


def test_the_form_of_the_data(noisy):
    data = make_ocr_data(*noisy, 0.5, SIZES)
    assert tuple(data.splits) == SPLITS == ("train", "dev", "test")
    for split, size in zip(data.splits.values(), SIZES, strict=True):
        assert split.inputs.shape == (size, 5, 28, 28)
        assert split.inputs.dtype == torch.uint8
        assert split.labels.shape == (size, 5)
        assert split.labels.dtype == torch.int64
        assert list(data.names) == choose_words(ascii_lowercase)
        found = {"".join(ascii_lowercase[label] for label in row) for row in split.labels.tolist()}
        assert found <= set(data.names)
    assert found != set(data.names)
    assert len(data.train.labels.unique(dim=0)) == 50


def test_equal_seeds_give_equal_data(noisy):
    first, again, other = (make_ocr_data(*noisy, 0.5, SIZES, seed=seed) for seed in (3, 3, 4))
    for name in SPLITS:
        assert torch.equal(first.splits[name].inputs, again.splits[name].inputs)
        assert torch.equal(first.splits[name].labels, again.splits[name].labels)
        assert not torch.equal(first.splits[name].labels, other.splits[name].labels)
    assert not torch.equal(first.dev.labels, first.test.labels)


@pytest.mark.parametrize("size", [1, 7, 200, 501, 1000])
def test_fewer_words_are_the_first_of_more(noisy, size):
    more = make_ocr_data(*noisy, 0.3, (1201, 30, 30))
    fewer = make_ocr_data(*noisy, 0.3, (size, 30, 9))
    assert torch.equal(fewer.train.inputs, more.train.inputs[:size])
    assert torch.equal(fewer.train.labels, more.train.labels[:size])
    assert torch.equal(fewer.dev.inputs, more.dev.inputs)
    assert torch.equal(fewer.test.inputs, more.test.inputs[:9])


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7])
def test_alpha_changes_the_mixing_alone(noisy, alpha):
    letter, background, mixed = (make_ocr_data(*noisy, each, SIZES) for each in (0, 1, alpha))
    for name in SPLITS:
        behind, before = (data.splits[name].inputs.double() for data in (background, letter))
        expected = alpha * behind + (1 - alpha) * before
        assert (mixed.splits[name].inputs - expected).abs().max() <= 1
        assert (mixed.splits[name].inputs - expected).abs().mean() < 0.4  # rounding, nothing else
        assert torch.equal(mixed.splits[name].labels, letter.splits[name].labels)


def test_no_font_is_in_two_splits():
    data = make_ocr_data(pool(block(16, 16)), plain(), 0.0, (300, 100, 100))
    fonts = [set((split.inputs.amax((2, 3)) - 100).flatten().tolist()) for split in data.splits.values()]
    assert [len(each) for each in fonts] == [12, 4, 4]
    assert set().union(*fonts) == set(range(20))


@pytest.mark.parametrize("photos", [plain(10), [np.arange(280, dtype=np.uint8)[None].repeat(30, 0) // 28]])
def test_no_background_is_in_two_splits(photos):
    data = make_ocr_data(pool(block(16, 16)), photos, 1.0, (300, 100, 100))
    seen = [set(split.inputs.flatten().tolist()) for split in data.splits.values()]
    assert [len(each) for each in seen] == [6, 2, 2]
    assert set().union(*seen) == set(range(10))


def test_the_image_of_a_letter_is_of_that_letter():
    """Letters that differ in brightness: what is seen is what the label says."""
    letters = pool(block(16, 16))
    images = block(16, 16).to(torch.uint8) * (100 + letters.labels)[:, None, None].to(torch.uint8)
    data = make_ocr_data(Letters(images, letters.labels, "", letters.group), plain(), 0.0, SIZES)
    for split in data.splits.values():
        assert torch.equal(split.inputs.amax((2, 3)).long() - 100, split.labels)


def moments(images):
    """Mass, centre (x, y) and covariance (xx, xy, yy) of each image."""
    images = images.flatten(0, -3).double()
    axis = torch.arange(28).double()
    mass = images.sum((1, 2))
    x, y = (images.sum(1) * axis).sum(1) / mass, (images.sum(2) * axis).sum(1) / mass
    across, along = axis - x[:, None], axis - y[:, None]
    products = (
        (images * across[:, None] ** 2),
        (images * across[:, None] * along[:, :, None]),
        (images * along[:, :, None] ** 2),
    )
    return mass, x, y, *(each.sum((1, 2)) / mass for each in products)


def test_how_letters_are_moved():
    """Shifted by up to 3 pixels, scaled by 0.8 to 1.2, rotated by up to 15 degrees, all of it used."""
    letters = pool(block(4, 12), fonts=5)
    letters = Letters(letters.images.clamp(max=1) * 200, letters.labels, "", letters.group)
    images = make_ocr_data(letters, plain(), 0.0, (1000, 10, 10)).train.inputs
    mass, x, y, xx, xy, yy = moments(images)
    for centre in (x, y):
        assert (centre - 13.5).abs().max() < 3.1
        assert (centre - 13.5).min() < -2.8
        assert (centre - 13.5).max() > 2.8
        assert (centre - 13.5).mean().abs() < 0.1
    scale = (mass / (200 * 4 * 12)).sqrt()
    assert 0.78 < scale.min() < 0.83
    assert 1.17 < scale.max() < 1.22
    angle = torch.rad2deg(torch.atan2(2 * xy, xx - yy) / 2)
    assert -15.6 < angle.min() < -14.3
    assert 14.3 < angle.max() < 15.6
    assert angle.mean().abs() < 0.5
    numbers = torch.corrcoef(torch.stack([x, y, scale, angle]))
    assert (numbers - torch.eye(4)).abs().max() < 0.08  # each by itself


def test_words_of_ones_own(noisy):
    data = make_ocr_data(*noisy, 0.5, (20, 5, 5), words=["zebra", "vixen"])
    assert data.names == ("zebra", "vixen")
    first = {row[0] for row in data.train.labels.tolist()}
    assert first == {ascii_lowercase.index("z"), ascii_lowercase.index("v")}


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_out_of_range(noisy, alpha):
    with pytest.raises(ValueError, match=f"alpha must be from 0 to 1, got {alpha}"):
        make_ocr_data(*noisy, alpha)


@pytest.mark.parametrize("sizes", [(10, 10), (10, 0, 10), (-1, 1, 1)])
def test_bad_sizes(noisy, sizes):
    with pytest.raises(ValueError, match="expected positive sizes of train, dev and test, got"):
        make_ocr_data(*noisy, 0.5, sizes)


@pytest.mark.parametrize("words", [["four", "sixsix"], ["Large"], ["caf\u00e9s"], []])
def test_bad_words(noisy, words):
    with pytest.raises(ValueError, match="expected words of 5 letters a to z, got"):
        make_ocr_data(*noisy, 0.5, SIZES, words=words)


def test_letters_that_there_are_not():
    letters = pool(block(16, 16), alphabet="abcdelrst")
    with pytest.raises(ValueError, match="the words need the letters k, o, of which there are no images"):
        make_ocr_data(letters, plain(), 0.5, SIZES, words=["clock"])
    with pytest.raises(ValueError, match="missing: fghijkmnopquvwxyz"):
        make_ocr_data(letters, plain(), 0.5, SIZES)


def test_every_split_needs_every_letter():
    with pytest.raises(
        ValueError, match=r"a test: test has 0 of 2 fonts and no image of a, .*: expected more"
    ):
        make_ocr_data(pool(block(16, 16), fonts=2), plain(), 0.5, SIZES)
    letters = pool(block(16, 16), fonts=10)
    once = (letters.labels != 4) | (letters.group == 0)  # "e" is in one font only
    some = Letters(letters.images[once], letters.labels[once], "a test", letters.group[once])
    with pytest.raises(ValueError, match=r"of 10 fonts and no image of e: expected more fonts"):
        make_ocr_data(some, plain(), 0.5, SIZES)
    assert make_ocr_data(some, plain(), 0.5, SIZES, words=["quick"])  # which needs no "e"


def test_accuracies():
    gold = torch.arange(20).view(4, 5)
    predicted = gold.clone()
    assert letter_accuracy(predicted, gold) == word_accuracy(predicted, gold) == 1
    predicted[0, 0] = predicted[2, 1] = predicted[2, 4] = 25
    assert letter_accuracy(predicted, gold) == pytest.approx(17 / 20)
    assert word_accuracy(predicted, gold) == pytest.approx(2 / 4)
    assert letter_accuracy(gold + 1, gold) == word_accuracy(gold + 1, gold) == 0
    for metric in (letter_accuracy, word_accuracy):
        assert isinstance(metric(predicted, gold), float)
        for wrong in (gold[:3], gold[:, :4], gold[0]):
            with pytest.raises(
                ValueError, match=r"expected predicted and gold labels as \[examples, 5\], got"
            ):
                metric(wrong, gold)
        with pytest.raises(ValueError, match="expected predicted and gold labels"):
            metric(gold[:0], gold[:0])


def test_drawn_letters_on_photographs():
    data = make_ocr_data(read_letters(), read_backgrounds(), 0.3, (50, 20, 20))
    assert data.names[:2] == ("other", "about")
    assert 30 < data.train.inputs.float().mean() < 150


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_chars74k_in_full_size():
    letters = read_letters(Path(os.environ["GSPEN_DATA"]) / "chars74k" / "chars74k_fnt_28x28.npz")
    start = time.perf_counter()
    data = make_ocr_data(letters, read_backgrounds(), 0.5)
    assert time.perf_counter() - start < 30
    assert [len(split.labels) for split in data.splits.values()] == [10_000, 2_000, 2_000]
    for split in data.splits.values():
        assert list(data.names) == choose_words(letters.alphabet)
        assert len(split.labels.unique(dim=0)) == 50
