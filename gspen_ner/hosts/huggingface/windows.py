"""Sentences longer than an encoder's window: read in overlapping windows and put together again.

    [CLS] a b c d e f g [SEP]   ->   [CLS] a b c d e [SEP],  [CLS] c d e f g [SEP]
                                      a b c from the first        d e f g from the second

Each window has the special tokens of its row around it. A piece in an overlap is read from the window in
whose middle it is nearer: where both have half the overlap, they meet.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor


class Frame(NamedTuple):
    """What fits into an encoder.

    Args:
        size: pieces of a window, special ones included.
        overlap: pieces that neighbouring windows share.
        prefix, suffix: special pieces before and behind those of the text.
    """

    size: int
    overlap: int
    prefix: int
    suffix: int


class Windows(NamedTuple):
    """Windows of a batch, and where each piece of the batch is read from."""

    row: Int[Tensor, " W"]
    positions: Int[Tensor, "W size"]
    present: Bool[Tensor, "W size"]
    window_of: Int[Tensor, "B S"]
    place_in: Int[Tensor, "B S"]


def cut(length: int, frame: Frame) -> list[tuple[int, int, int]]:
    """Where windows over the text begin, and which part of the text is read from each.

    Example:
        >>> cut(7, Frame(size=7, overlap=3, prefix=1, suffix=1))
        [(0, 0, 3), (2, 3, 7)]
    """
    room = frame.size - frame.prefix - frame.suffix
    if not 0 <= frame.overlap < room:
        raise ValueError(f"windows of {frame.size} pieces cannot overlap by {frame.overlap}")
    starts = [0]
    while starts[-1] + room < length:
        starts.append(min(starts[-1] + room - frame.overlap, length - room))
    seams = [(first + room + second) // 2 for first, second in pairwise(starts)]
    return list(zip(starts, [0, *seams], [*seams, length], strict=True))


def in_windows(attention_mask: Tensor, frame: Frame) -> Windows:
    """Cut the rows of a batch; a row that fits is one window."""
    rows: list[int] = []
    texts: list[Tensor] = []
    window_of = torch.zeros_like(attention_mask, dtype=torch.long)
    place_in = torch.zeros_like(window_of)
    room = frame.size - frame.prefix - frame.suffix
    for row, mask in enumerate(attention_mask.bool()):
        pieces = mask.nonzero().squeeze(1)
        behind = max(len(pieces) - frame.suffix, frame.prefix)
        prefix, text, suffix = pieces[: frame.prefix], pieces[frame.prefix : behind], pieces[behind:]
        for start, first, last in cut(len(text), frame):
            window = torch.cat([prefix, text[start : start + room], suffix])
            place = torch.arange(len(window), device=window.device)
            read = torch.cat([prefix, text[first:last], suffix])  # special pieces: from the last window
            window_of[row, read] = len(rows)
            here = place[frame.prefix + first - start : frame.prefix + last - start]
            place_in[row, read] = torch.cat([place[: len(prefix)], here, place[len(place) - len(suffix) :]])
            rows.append(row)
            texts.append(window)
    positions = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    counts = torch.tensor([len(text) for text in texts], device=positions.device)
    present = torch.arange(positions.shape[1], device=positions.device) < counts[:, None]
    return Windows(torch.tensor(rows, device=positions.device), positions, present, window_of, place_in)
