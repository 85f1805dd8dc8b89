"""The vocabulary of a word-level tagger: numbers of words and characters, and pretrained word vectors.

Words are looked up in lower case with each digit replaced by 0; unknown words share one learned vector. Words
of the training data come first, and their vectors are trained. The other words of a file of pretrained
vectors follow, and their vectors are fixed.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

UNKNOWN_WORD = 0
PADDING, UNKNOWN_CHARACTER = 0, 1  # numbers in spellings
MAX_SPELLING = 45  # largest number of characters of a word that are used
FILE_NAME = "vocabulary.json"
_ENDS_IN_NUMBER = re.compile(r" (-?[0-9.]*[0-9][0-9.e+-]*)?$")  # a "word" before which a number is missing


def normalise(word: str) -> str:
    """Return a word as it is looked up: in lower case, with digits replaced by 0."""
    return re.sub(r"\d", "0", word.lower())


@dataclass(frozen=True)
class Vocabulary:
    """Numbers of words and characters.

    Args:
        words: words in the order of their numbers, from 1; 0 is the number of unknown words.
        trained: number of words, from the first one, that occur in the training data.
        characters: characters in the order of their numbers, from 2; 0 is padding, 1 unknown characters.

    Example:
        >>> vocabulary = Vocabulary.of_sentences([["In", "1996"], ["In", "1997"]])
        >>> vocabulary.words
        ('in', '0000')
        >>> vocabulary.word_numbers(["in", "2026", "Rome"])
        [1, 2, 0]
    """

    words: tuple[str, ...]
    trained: int
    characters: tuple[str, ...]

    @classmethod
    def of_sentences(
        cls, sentences: Iterable[Sequence[str]], known: Iterable[str] = (), minimum_count: int = 2
    ) -> Vocabulary:
        """Return the vocabulary of training sentences.

        Args:
            sentences: tokens of each sentence.
            known: words with a pretrained vector, which are all kept.
            minimum_count: least number of occurrences of other words that are kept.
        """
        counts: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for tokens in sentences:
            counts.update(map(normalise, tokens))
            for token in tokens:
                characters.update(token)
        pretrained = dict.fromkeys(known)
        trained = [w for w, count in counts.most_common() if count >= minimum_count or w in pretrained]
        others = [word for word in pretrained if word not in counts]
        return cls((*trained, *others), len(trained), tuple(sorted(characters)))

    def word_numbers(self, tokens: Sequence[str]) -> list[int]:
        """Return the number of each token's word."""
        numbers = self._word_index
        return [numbers.get(normalise(token), UNKNOWN_WORD) for token in tokens]

    def spelling(self, token: str) -> list[int]:
        """Return the numbers of a token's first characters, from one to MAX_SPELLING numbers."""
        numbers = self._character_index
        known = [numbers.get(character, UNKNOWN_CHARACTER) for character in token[:MAX_SPELLING]]
        return known or [UNKNOWN_CHARACTER]

    @cached_property
    def _word_index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, UNKNOWN_WORD + 1)}

    @cached_property
    def _character_index(self) -> dict[str, int]:
        return {character: number for number, character in enumerate(self.characters, UNKNOWN_CHARACTER + 1)}

    def save(self, directory: Path) -> None:
        """Write vocabulary.json."""
        entries = {"trained": self.trained, "characters": list(self.characters), "words": list(self.words)}
        (directory / FILE_NAME).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Vocabulary:
        """Read vocabulary.json."""
        file = directory / FILE_NAME
        try:
            entries = json.loads(file.read_text(encoding="utf-8"))
            words, trained, characters = (entries[key] for key in ("words", "trained", "characters"))
            for part in (words, characters):
                if not isinstance(part, list) or not all(isinstance(entry, str) for entry in part):
                    raise ValueError("words and characters must be lists of strings")
            if type(trained) is not int or not 0 <= trained <= len(words):
                raise ValueError(f"trained must be between 0 and {len(words)}, got {trained}")
            return cls(tuple(words), trained, tuple(characters))
        except FileNotFoundError:
            raise ValueError(f"{file}: no such file; is {directory} a model of gspen_ner?") from None
        except (KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: not a vocabulary ({error!r})") from None


@dataclass(frozen=True)
class WordVectors:
    """Pretrained word vectors of a file."""

    words: tuple[str, ...]
    vectors: Float[np.ndarray, "words size"]

    @classmethod
    def read(cls, path: str | Path, size: int) -> WordVectors:
        """Return vectors in GloVe's text format, plain or gzipped: a word and `size` numbers per line.

        Words that are never looked up (with upper case or digits) are left out.
        """
        words: list[str] = []
        rows: list[np.ndarray] = []
        opener = gzip.open if str(path).endswith(".gz") else open
        try:
            with opener(path, "rt", encoding="utf-8-sig") as file:
                for number, line in enumerate(file, 1):
                    word, *numbers = line.rstrip().rsplit(" ", size)  # a word may contain spaces
                    if len(numbers) != size or _ENDS_IN_NUMBER.search(word):
                        count = line.rstrip().count(" ")
                        raise ValueError(f"{path}:{number}: expected a word and {size} numbers, got {count}")
                    if word != normalise(word):
                        continue
                    try:
                        rows.append(np.array(numbers, dtype=np.float32))
                    except ValueError as error:
                        raise ValueError(f"{path}:{number}: {error}") from None
                    words.append(word)
        except FileNotFoundError:
            raise ValueError(f"{path}: no such file of word vectors") from None
        except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None
        vectors = np.array(rows, dtype=np.float32).reshape(-1, size)
        if not np.isfinite(vectors).all():
            word = words[int((~np.isfinite(vectors)).any(1).argmax())]
            raise ValueError(f"{path}: vectors must be finite, got NaN or infinity for {word!r}")
        return cls(tuple(words), vectors)

    @torch.no_grad()
    def copy_into(self, table: Float[Tensor, "rows size"], words: Sequence[str], first_row: int) -> None:
        """Copy the vectors of words into rows first_row, first_row + 1, ...; skip words without a vector."""
        sources = {word: row for row, word in enumerate(self.words)}
        rows = [(row, sources[word]) for row, word in enumerate(words, first_row) if word in sources]
        if rows:
            to, source = torch.tensor(rows).T
            table[to] = torch.from_numpy(self.vectors)[source]


def spell_out(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> tuple[Int[Tensor, "U C"], Int[Tensor, "B T"]]:
    """Return the spellings of a batch's distinct words, and the row of each token (0 on padding)."""
    numbers: dict[str, int] = {}
    rows = torch.zeros(len(sentences), max(map(len, sentences), default=0), dtype=torch.long)
    for row, tokens in enumerate(sentences):
        rows[row, : len(tokens)] = torch.tensor([numbers.setdefault(t, len(numbers)) for t in tokens])
    spellings = [vocabulary.spelling(token) for token in numbers]
    longest = max(map(len, spellings), default=0)
    padded = [spelling + [PADDING] * (longest - len(spelling)) for spelling in spellings]
    return torch.tensor(padded, dtype=torch.long).reshape(len(spellings), longest), rows
