"""Which tokens of a document have to do with each other, and in what way.

    relation                tokens are related if they have an upper-case letter, stand in one document, and
    word                    are the same word, whatever its case ("Paris" and "PARIS")
    word_and_next           ... before the same word ("Paris Match" twice)
    previous_and_word       ... behind the same word
    slot                    look alike, and so do their neighbours: rows of a table, lists, datelines
    wide_slot               ... and their neighbours' neighbours too
    shape                   look alike

Words look alike that have the same shape: "Xx" for words with some upper-case letters, "XX" for words with
no others, and for all other words themselves, with numbers read as 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

_MARGIN = 2  # shapes beyond each end of a sentence

RELATIONS: dict[str, Callable[[Sequence[str], Sequence[str], int], Hashable]] = {
    "word": lambda words, shapes, at: words[at],
    "word_and_next": lambda words, shapes, at: tuple(words[at : at + 2]) if at + 1 < len(words) else None,
    "previous_and_word": lambda words, shapes, at: tuple(words[at - 1 : at + 1]) if at else None,
    "slot": lambda words, shapes, at: tuple(shapes[at + _MARGIN - 1 : at + _MARGIN + 2]),
    "wide_slot": lambda words, shapes, at: tuple(shapes[at + _MARGIN - 2 : at + _MARGIN + 3]),
    "shape": lambda words, shapes, at: shapes[at + _MARGIN],
}
"""What related tokens have in common, by words in lower case, shapes with a margin, and position."""
Relation = Literal[tuple(RELATIONS)]  # type: ignore[valid-type]


def match_mentions(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> Int[Tensor, "B N R"]:
    """Number the tokens of a batch: equal numbers for tokens that are related, by each of RELATIONS.

    A token that is related to none, such as "paris", and padding have the number -1.

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
    """The same for any number of sentences, without padding."""
    if len(sentences) != len(documents):
        raise ValueError(f"{len(sentences)} sentences but {len(documents)} document numbers")
    known: dict[str, dict[Hashable, int]] = {name: {} for name in RELATIONS}
    none = (-1,) * len(RELATIONS)

    def number(seen: dict[Hashable, int], document: int, common: Hashable) -> int:
        return -1 if common is None else seen.setdefault((document, common), len(seen))

    found = []
    for tokens, document in zip(sentences, map(int, documents), strict=True):
        words = [token.lower() for token in tokens]
        shapes = [""] * _MARGIN + [shape_of(token) for token in tokens] + [""] * _MARGIN
        found.append(
            [
                tuple(
                    number(known[name], document, key(words, shapes, at)) for name, key in RELATIONS.items()
                )
                if token != words[at]
                else none
                for at, token in enumerate(tokens)
            ]
        )
    return found


@lru_cache(maxsize=100_000)
def shape_of(token: str) -> str:
    """What a word looks like.

    Example:
        >>> [shape_of(token) for token in ["Paris", "PARIS", "beat", "12-3"]]
        ['Xx', 'XX', 'beat', '0-0']
    """
    if token == token.lower():
        return re.sub(r"\d+", "0", token)
    return "XX" if token == token.upper() and len(token) > 1 else "Xx"
