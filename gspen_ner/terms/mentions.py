"""Relations between the tokens of a document.

    relation                tokens with an upper-case letter in the same document are related if they
    word                    are the same word in any case ("Paris" and "PARIS")
    word_and_next           ... followed by the same word ("Paris Match" twice)
    previous_and_word       ... preceded by the same word
    slot                    have the same shape, and neighbours of the same shapes: tables, lists, datelines
    wide_slot               ... and also their neighbours' neighbours
    shape                   have the same shape

The shape of a word is "Xx" if some letters are upper case, "XX" if all are, and otherwise the word itself,
with each number replaced by 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

_MARGIN = 2  # number of empty shapes before and after a sentence

RELATIONS: dict[str, Callable[[Sequence[str], Sequence[str], int], Hashable]] = {
    "word": lambda words, shapes, at: words[at],
    "word_and_next": lambda words, shapes, at: tuple(words[at : at + 2]) if at + 1 < len(words) else None,
    "previous_and_word": lambda words, shapes, at: tuple(words[at - 1 : at + 1]) if at else None,
    "slot": lambda words, shapes, at: tuple(shapes[at + _MARGIN - 1 : at + _MARGIN + 2]),
    "wide_slot": lambda words, shapes, at: tuple(shapes[at + _MARGIN - 2 : at + _MARGIN + 3]),
    "shape": lambda words, shapes, at: shapes[at + _MARGIN],
}
"""For each relation, the value that related tokens share, given lower-case words, shapes and a position."""
Relation = Literal[tuple(RELATIONS)]  # type: ignore[valid-type]


def match_mentions(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> Int[Tensor, "B N R"]:
    """Return numbers of the tokens of a batch for each of `RELATIONS`, equal for related tokens.

    Tokens that are never related, such as "paris", and padding have the number -1.

    Example:
        >>> match_mentions([["Paris", "won"], ["PARIS", "Saint-Germain"]], documents=[0, 0])[..., 0]
        tensor([[ 0, -1],
                [ 0,  1]])
    """
    longest = max(map(len, sentences), default=0)
    result = torch.full((len(sentences), longest, len(RELATIONS)), -1)
    for row, numbers in enumerate(mention_numbers(sentences, documents)):
        result[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long).reshape(-1, len(RELATIONS))
    return result


def mention_numbers(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> list[list[tuple[int, ...]]]:
    """Return the numbers of `match_mentions` for each token of each sentence, without padding."""
    if len(sentences) != len(documents):
        raise ValueError(
            f"documents must have a number for each of {len(sentences)} sentences, got {len(documents)}"
        )
    known: dict[str, dict[Hashable, int]] = {name: {} for name in RELATIONS}

    def number(name: str, document: int, shared: Hashable) -> int:
        return -1 if shared is None else known[name].setdefault((document, shared), len(known[name]))

    result = []
    for tokens, document in zip(sentences, map(int, documents), strict=True):
        words = [token.lower() for token in tokens]
        shapes = [""] * _MARGIN + [shape_of(token) for token in tokens] + [""] * _MARGIN
        numbers = [(-1,) * len(RELATIONS)] * len(tokens)
        for at, token in enumerate(tokens):
            if token != words[at]:
                shared = ((name, value(words, shapes, at)) for name, value in RELATIONS.items())
                numbers[at] = tuple(number(name, document, value) for name, value in shared)
        result.append(numbers)
    return result


@lru_cache(maxsize=100_000)
def shape_of(token: str) -> str:
    """Return the shape of a word.

    Example:
        >>> [shape_of(token) for token in ["Paris", "PARIS", "beat", "12-3"]]
        ['Xx', 'XX', 'beat', '0-0']
    """
    if token == token.lower():
        return re.sub(r"\d+", "0", token)
    return "XX" if token == token.upper() and len(token) > 1 else "Xx"
