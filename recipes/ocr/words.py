"""Words of five letter images: the data of the paper's OCR experiment, made of letters and photographs.

    pixel = alpha * background + (1 - alpha) * letter

A word is drawn from a short list. Each of its letters is a random image of that letter, shifted, scaled and
rotated, then mixed with a random patch of a photograph. The list is thus a strong signal, and alpha sets how
informative a single image is. The splits share neither fonts nor letter images nor backgrounds.

Every word is a function of one row of uniform random numbers. So data with equal seeds and different alphas
differ in the mixing only, and a smaller training set is the beginning of a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_lowercase

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn.functional import grid_sample

from gspen_ner.training import Examples
from recipes.ocr.backgrounds import Photo, cut_patches, pick, split_backgrounds
from recipes.ocr.letters import SIZE, Letters
from recipes.studies.data import SPLITS, StudyData, check_shapes

WORD_LENGTH = 5
_TEXT = """
    other about which there would close world their these could after first where place great never small
    under house water every right three large still again early state young night heard money later group
    party level point human music least table whole heart class study paper value light black green plant
    earth sense ready clear leave story speak stand today start learn teach watch bring break dream build
    reach share drive sleep write laugh enter agree think happy angry sweet sharp clean fresh cheap heavy
    brown white short quick quiet bread sugar fruit grass glass metal stone beach ocean river cloud storm
    wheel truck train plane horse sheep whale mouse chair nurse judge queen guest uncle
"""
WORDS = tuple(_TEXT.split())
"""Common English words of five letters, roughly by frequency."""

SHARES = (0.6, 0.2, 0.2)
"""Shares of the splits in the fonts and in the backgrounds."""

_SHIFT, _SCALE, _DEGREES = 3.0, (0.8, 1.2), 15.0  # at most, in pixels and degrees
_CHUNK = 500  # words generated at a time
_DRAWS = 6  # random numbers of a letter: its image, its patch, two of its shift, its scale, its angle


def choose_words(alphabet: str, count: int = 50) -> list[str]:
    """Return the first words of the list that can be spelled with the letters of an alphabet.

    Example:
        >>> choose_words("abcdefghijklmnopqrstuvwxyz", 6)
        ['other', 'about', 'which', 'there', 'would', 'close']
    """
    words = [word for word in WORDS if set(word) <= set(alphabet)]
    if not 1 <= count <= len(words):
        missing = "".join(sorted(set(ascii_lowercase) - set(alphabet))) or "none"
        raise ValueError(
            f"of {len(WORDS)} words, {len(words)} are spelled with the letters at hand (missing: {missing}): "
            f"expected a count from 1 to {len(words)}, got {count}"
        )
    return words[:count]


def make_ocr_data(
    letters: Letters,
    backgrounds: Sequence[Photo],
    alpha: float,
    sizes: tuple[int, int, int] = (10_000, 2_000, 2_000),
    seed: int = 0,
    words: Sequence[str] | None = None,
) -> StudyData:
    """Generate training, validation and test data.

    Args:
        letters: letter images; 60 % of the fonts are for training, 20 % each for the others.
        backgrounds: photographs, divided in the same way.
        alpha: weight of the background: 0 is letters on black, 1 backgrounds alone. The paper has 0.3, 0.5
            and 0.7.
        sizes: numbers of words of train, dev and test.
        seed: seed of words and images; fewer words are the first of more words.
        words: the vocabulary; by default `choose_words` for the alphabet of the letters.

    Raises:
        ValueError: if an argument is out of range, or a split has no image of a letter that the words need.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    if len(sizes) != len(SPLITS) or min(sizes) < 1:
        raise ValueError(f"expected positive sizes of train, dev and test, got {sizes}")
    vocabulary = choose_words(letters.alphabet) if words is None else list(words)
    spelled = _spelled(vocabulary, letters.alphabet)
    fonts = _split_letters(letters, np.unique(spelled), seed)
    photos = split_backgrounds(backgrounds, SHARES)
    splits = {}
    for number, (name, size) in enumerate(zip(SPLITS, sizes, strict=True)):
        draws = np.random.default_rng((seed, number)).random((size, 1 + WORD_LENGTH * _DRAWS))
        labels = spelled[pick(draws[:, 0], len(vocabulary))]
        draws = draws[:, 1:].reshape(size, WORD_LENGTH, _DRAWS)
        images = torch.empty((size, WORD_LENGTH, SIZE, SIZE), dtype=torch.uint8)
        for start in range(0, size, _CHUNK):
            rows = slice(start, start + _CHUNK)
            images[rows] = _words(fonts[number], photos[number], labels[rows], draws[rows], alpha)
        splits[name] = Examples(images, torch.from_numpy(labels))
    return StudyData(**splits, names=tuple(vocabulary), source=letters.source)


def _spelled(words: Sequence[str], alphabet: str) -> Int64[np.ndarray, "words 5"]:
    wrong = [word for word in words if len(word) != WORD_LENGTH or not set(word) <= set(ascii_lowercase)]
    if wrong or not words:
        raise ValueError(f"expected words of {WORD_LENGTH} letters a to z, got {wrong[:5] or 'none'}")
    missing = sorted(set("".join(words)) - set(alphabet))
    if missing:
        raise ValueError(f"the words need the letters {', '.join(missing)}, of which there are no images")
    return np.array([[ascii_lowercase.index(letter) for letter in word] for word in words])


@dataclass(frozen=True, eq=False)
class _Pool:
    """Letter images of a split in the order of their labels; start and number of each label's images."""

    images: UInt8[Tensor, "letters 28 28"]
    starts: Int64[np.ndarray, " labels"]
    counts: Int64[np.ndarray, " labels"]


def _split_letters(letters: Letters, needed: Int64[np.ndarray, " needed"], seed: int) -> list[_Pool]:
    """Divide the fonts among the splits; each split must have every letter that the words need."""
    groups = np.random.default_rng((seed, len(SPLITS))).permutation(letters.group.unique().numpy())
    ends = [round(share * len(groups)) for share in accumulate(SHARES)]
    pools = []
    for name, start, end in zip(SPLITS, [0, *ends], ends, strict=False):
        rows = np.flatnonzero(np.isin(letters.group.numpy(), groups[start:end]))
        labels = letters.labels.numpy()[rows]
        counts = np.bincount(labels, minlength=len(ascii_lowercase))
        missing = [ascii_lowercase[label] for label in needed if counts[label] == 0]
        if missing:
            raise ValueError(
                f"{letters.source}: {name} has {end - start} of {len(groups)} fonts and no image of "
                f"{', '.join(missing)}: expected more fonts"
            )
        order = rows[np.argsort(labels, kind="stable")]
        pools.append(_Pool(letters.images[order], counts.cumsum() - counts, counts))
    return pools


def _words(
    pool: _Pool,
    photos: Sequence[Photo],
    labels: Int64[np.ndarray, "examples 5"],
    draws: Float[np.ndarray, "examples 5 6"],
    alpha: float,
) -> UInt8[Tensor, "examples 5 28 28"]:
    """Return the images of words."""
    flat, draws = labels.reshape(-1), draws.reshape(-1, _DRAWS)
    letters = _moved(pool.images[pool.starts[flat] + pick(draws[:, 0], pool.counts[flat])], draws[:, 2:])
    patches = torch.from_numpy(cut_patches(photos, draws[:, 1]))
    mixed = alpha * patches + (1 - alpha) * letters
    return mixed.round_().to(torch.uint8).view(*labels.shape, SIZE, SIZE)


def _moved(
    images: UInt8[Tensor, "letters 28 28"], draws: Float[np.ndarray, "letters 4"]
) -> Float[Tensor, "letters 28 28"]:
    """Shift, scale and rotate each image, with bilinear interpolation.

    The grid holds the source of each pixel. `affine_grid` computes it by matrix products, whose last bits may
    depend on the number of images; here each pixel is computed in the same way in every batch.
    """
    right, down = _SHIFT * (2 * draws[:, :2].T - 1) * 2 / SIZE  # an image goes from -1 to 1
    scale = _SCALE[0] + (_SCALE[1] - _SCALE[0]) * draws[:, 2]
    angle = np.radians(_DEGREES) * (2 * draws[:, 3] - 1)
    numbers = np.stack([right, down, np.cos(angle) / scale, np.sin(angle) / scale])
    right, down, cosine, sine = torch.from_numpy(numbers).float()[:, :, None, None]
    axis = (torch.arange(SIZE) + 0.5) * 2 / SIZE - 1
    x, y = axis - right, axis[:, None] - down
    grid = torch.stack([cosine * x + sine * y, cosine * y - sine * x], dim=-1)
    return grid_sample(images[:, None].float(), grid, align_corners=False)[:, 0]


def letter_accuracy(predicted: Int64[Tensor, "examples 5"], gold: Int64[Tensor, "examples 5"]) -> float:
    """Return the share of letters that are right.

    Example:
        >>> gold = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]])
        >>> predicted = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 4, 0]])
        >>> round(letter_accuracy(predicted, gold), 3), word_accuracy(predicted, gold)
        (0.9, 0.5)
    """
    return _right(predicted, gold).double().mean().item()


def word_accuracy(predicted: Int64[Tensor, "examples 5"], gold: Int64[Tensor, "examples 5"]) -> float:
    """Return the share of words whose letters are all right; see `letter_accuracy` for an example."""
    return _right(predicted, gold).all(dim=1).double().mean().item()


def _right(predicted: Tensor, gold: Tensor) -> Tensor:
    check_shapes(f"predicted and gold labels as [examples, {WORD_LENGTH}]", predicted, gold)
    return predicted == gold
