"""Relations between the tokens of a document.

    relation                    tokens of the same document are related if they
    word                        are the same word in any case ("Paris" and "PARIS")
    word_and_next               ... followed by the same word ("Paris Match" twice)
    previous_and_word           ... preceded by the same word
    slot                        have the same shape, and neighbours of the same shapes: tables, lists
    wide_slot                   ... and also their neighbours' neighbours
    shape                       have the same shape

These relate tokens with an upper-case letter, and so nothing where names are written small or the script has
no case. The following relate all content words: tokens with an upper-case letter, with letters of a script
without case, or with at least three letters.

    content_word, content_word_and_next, previous_and_content_word: as above
    stem                        begin with the same five letters ("tumour" and "tumours")
    abbreviation                are an abbreviation that the document explains, or a word of its long form:
                                "chronic kidney disease (CKD)"

The shape of a word is "Xx" if some letters are upper case, "XX" if all are, and otherwise the word itself,
with each number replaced by 0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

_MARGIN = 2  # number of empty shapes before and after a sentence
_STEM = 5  # number of letters


class _Sentence(NamedTuple):
    """What relations know of a sentence."""

    words: list[str]
    """Its tokens in lower case."""
    shapes: list[str]
    """Shapes of its tokens, with a margin."""
    long_forms: Mapping[int, str]
    """For each token of a long form, the abbreviation of it."""
    abbreviations: set[str]
    """The abbreviations that the document defines."""


Key = Callable[[_Sentence, int], Hashable]
"""From a sentence and a position in it to the value that related tokens share; None if there is none."""


def is_capitalised(token: str) -> bool:
    """Return whether a token has an upper-case letter."""
    return token != token.lower()


@lru_cache(maxsize=100_000)
def is_content(token: str) -> bool:
    """Return whether a token may be a name, or a part of one, in any script.

    Example:
        >>> [is_content(token) for token in ["Paris", "lung", "of", "12", "東", "القاهرة"]]
        [True, True, False, False, True, True]
    """
    letters = sum(character.isalpha() for character in token)
    return is_capitalised(token) or letters >= 3 or (letters > 0 and token == token.upper())


def _word(sentence: _Sentence, at: int) -> Hashable:
    return sentence.words[at]


def _word_and_next(sentence: _Sentence, at: int) -> Hashable:
    return tuple(sentence.words[at : at + 2]) if at + 1 < len(sentence.words) else None


def _previous_and_word(sentence: _Sentence, at: int) -> Hashable:
    return tuple(sentence.words[at - 1 : at + 1]) if at else None


def _stem(sentence: _Sentence, at: int) -> Hashable:
    return sentence.words[at][:_STEM]


def _abbreviation(sentence: _Sentence, at: int) -> Hashable:
    word = sentence.words[at]
    return sentence.long_forms.get(at, word if word in sentence.abbreviations else None)


def _shapes_around(margin: int) -> Key:
    return lambda sentence, at: tuple(sentence.shapes[at + _MARGIN - margin : at + _MARGIN + margin + 1])


RELATIONS: dict[str, tuple[Key, Callable[[str], bool]]] = {
    "word": (_word, is_capitalised),
    "word_and_next": (_word_and_next, is_capitalised),
    "previous_and_word": (_previous_and_word, is_capitalised),
    "slot": (_shapes_around(1), is_capitalised),
    "wide_slot": (_shapes_around(2), is_capitalised),
    "shape": (_shapes_around(0), is_capitalised),
    "content_word": (_word, is_content),
    "content_word_and_next": (_word_and_next, is_content),
    "previous_and_content_word": (_previous_and_word, is_content),
    "stem": (_stem, is_content),
    "abbreviation": (_abbreviation, is_content),
}
"""For each relation, the value that related tokens share, and which tokens it relates."""
DEFAULT_RELATIONS = (
    "content_word",
    "content_word_and_next",
    "previous_and_content_word",
    "stem",
    "abbreviation",
    "slot",
    "wide_slot",
    "shape",
)
"""The best on development data of three corpora; they need neither case nor a language."""
Relation = Literal[tuple(RELATIONS)]  # type: ignore[valid-type]


def match_mentions(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> Int[Tensor, "B N R"]:
    """Return numbers of the tokens of a batch for each of `RELATIONS`, equal for related tokens.

    Tokens that a relation never relates, such as "paris" by the first, and padding have the number -1.

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
    numbers_of_documents = list(map(int, documents))
    abbreviations: defaultdict[int, set[str]] = defaultdict(set)
    read = []
    for tokens, document in zip(sentences, numbers_of_documents, strict=True):
        words = [token.lower() for token in tokens]
        shapes = [""] * _MARGIN + [shape_of(token) for token in tokens] + [""] * _MARGIN
        long_forms = find_long_forms(tokens)
        abbreviations[document].update(long_forms.values())
        read.append(_Sentence(words, shapes, long_forms, abbreviations[document]))

    def number(name: str, document: int, shared: Hashable) -> int:
        return -1 if shared is None else known[name].setdefault((document, shared), len(known[name]))

    result = []
    for tokens, sentence, document in zip(sentences, read, numbers_of_documents, strict=True):
        numbers = [(-1,) * len(RELATIONS)] * len(tokens)
        for at, token in enumerate(tokens):
            if is_content(token):
                shared = (
                    (name, key(sentence, at) if relates(token) else None)
                    for name, (key, relates) in RELATIONS.items()
                )
                numbers[at] = tuple(number(name, document, value) for name, value in shared)
        result.append(numbers)
    return result


def find_long_forms(tokens: Sequence[str]) -> dict[int, str]:
    """Return the positions of words that are abbreviated in parentheses behind them, and the abbreviation.

    The letters of the abbreviation are looked for in the words before it, from right to left; the first of
    them has to begin a word (Schwartz and Hearst, 2003).

    Example:
        >>> find_long_forms("chronic Kidney Disease ( KD )".split())
        {1: 'kd', 2: 'kd'}
    """
    long_forms: dict[int, str] = {}
    for at in range(1, len(tokens) - 2):
        short = tokens[at + 1].lower()
        letters = [letter for letter in short if letter.isalnum()]
        if tokens[at] != "(" or not is_capitalised(tokens[at + 1]) or not 2 <= len(letters) <= 10:
            continue
        start = max(0, at - min(len(letters) + 5, 2 * len(letters)))
        text = " ".join(tokens[start:at]).lower()
        end = len(text)
        for rank in range(len(letters) - 1, -1, -1):
            pattern = (r"(?<!\w)" if rank == 0 else "") + re.escape(letters[rank])
            starts = [match.start() for match in re.finditer(pattern, text[:end])]
            if not starts:
                break
            end = starts[-1]
        else:
            first = start + text[:end].count(" ")
            long_forms |= {position: short for position in range(first, at) if is_content(tokens[position])}
    return long_forms


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
