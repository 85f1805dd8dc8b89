"""What a corpus is made of: rows of text or of tokens, some of which make a document together.

Rows that follow each other and have the same document number are one document. A row of text may have many
sentences, a row of tokens is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict

from gspen_ner.decode import ScoredSpan
from gspen_ner.ner.plain_text import split_text

Words = str | Sequence[str]
"""What a row says: a text, or tokens."""
MOST_PADDED = 32768  # tokens of a document that is inferred at once, padding included


class Place(NamedTuple):
    """Where a row stands in its file: what to seek to, its line (or row), and the number of its document.

    Numbers of documents below zero are of rows that stand alone in a file that otherwise numbers them.
    """

    at: int
    line: int
    document: int


class Columns(NamedTuple):
    """Which column holds what.

    Args:
        words: the text or the tokens; None: `tokens`, or else `text`.
        document: equal for the rows of a document; None: `document`, if there is one.
        entities: what the new column is called.
        token: number of the column of tokens in CoNLL files.
    """

    words: str | None = None
    document: str | None = None
    entities: str = "entities"
    token: int = 0


class Entity(TypedDict):
    """An entity of a row; start and end count characters of a text, or tokens."""

    start: int
    end: int
    type: str
    text: str
    confidence: float


class Rows(Protocol):
    """Some rows of a file that follow each other."""

    words: Sequence[Words]
    places: Sequence[Place]

    def write(self, file: Path, entities: Sequence[Sequence[Entity]]) -> None:
        """Write the rows as they were, with the entities of each."""


class CorpusFile(Protocol):
    """A file of a corpus. `places` checks all that it passes, so that `read` finds nothing wrong later."""

    path: Path
    suffix: str
    """Of the files that its parts are written to."""
    end: int
    """What a row behind the last would be at."""

    def places(self) -> Iterator[Place]:
        """Where each row stands."""

    def read(self, start: Place, stop: int) -> Rows:
        """The rows from a place to the one at `stop`, which is left out."""


class RowSentence(NamedTuple):
    """A sentence of a row; `starts` are the characters its tokens begin at, None in a row of tokens."""

    row: int
    tokens: tuple[str, ...]
    starts: tuple[int, ...] | None
    document: int

    def entity(self, words: Words, scored: ScoredSpan) -> Entity:
        """An entity in terms of its row."""
        (start, end, kind), probability = scored
        if self.starts is not None:
            start, end = self.starts[start], self.starts[end - 1] + len(self.tokens[end - 1])
        found = words[start:end]
        text = found if isinstance(found, str) else " ".join(found)
        return Entity(start=start, end=end, type=kind, text=text, confidence=round(probability, 6))


def sentences_of(rows: Rows, longest: int) -> tuple[list[RowSentence], int]:
    """The sentences of rows, and at how many places a document was cut; see `pieces_of`."""
    found = [
        RowSentence(number, tokens, starts, place.document)
        for number, (words, place) in enumerate(zip(rows.words, rows.places, strict=True))
        for tokens, starts in _split(words)
    ]
    pieces, cuts = pieces_of([s.document for s in found], [len(s.tokens) for s in found], longest)
    return [sentence._replace(document=piece) for sentence, piece in zip(found, pieces, strict=True)], cuts


def pieces_of(documents: Sequence[int], lengths: Sequence[int], longest: int) -> tuple[list[int], int]:
    """Documents cut where they grow too long to be inferred at once: new numbers, and the number of cuts.

    Args:
        documents: equal numbers, one behind the other, for the sentences of a document.
        lengths: tokens of each sentence.
        longest: sentences of a piece, at most. It also has at most MOST_PADDED tokens, padding included,
            so that one very long sentence among many does not exhaust the memory.

    Example:
        >>> pieces_of([0, 0, 0, 7], [2, 2, 2, 2], longest=2)
        ([0, 0, 1, 2], 1)
    """
    found: list[int] = []
    cuts = inside = widest = 0
    for row, (document, length) in enumerate(zip(documents, lengths, strict=True)):
        same = row > 0 and document == documents[row - 1]
        inside, widest = inside + 1, max(widest, length)
        full = inside > longest or inside * widest > MOST_PADDED
        if not same or full:
            cuts += same
            inside, widest = 1, length
            found.append(found[-1] + 1 if found else 0)
        else:
            found.append(found[-1])
    return found, cuts


def _split(words: Words) -> Iterator[tuple[tuple[str, ...], tuple[int, ...] | None]]:
    if isinstance(words, str):
        yield from ((sentence.tokens, sentence.starts) for sentence in split_text(words))
    elif words:
        yield tuple(words), None
