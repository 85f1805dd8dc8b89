"""The rows of a corpus: each is a text or a list of tokens; some rows make a document together.

Consecutive rows with the same document number are one document. A row of text may have many sentences, a row
of tokens is one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypedDict

from gspen_ner.decode import ScoredSpan
from gspen_ner.ner.plain_text import split_text

Format = Literal["auto", "text", "conll", "jsonl", "parquet"]
Words = str | Sequence[str]
"""The content of a row: a text, or tokens."""
MOST_PADDED = 32768
"""Maximum number of tokens, padding included, of a document that is inferred at once."""


class Position(NamedTuple):
    """Position of a row in its file.

    Args:
        offset: byte offset of the row or, in a table, its index.
        line: line number of the row or, in a table, its number; from 1.
        document: document number; negative for a row that is a document of its own in a file that otherwise
            marks documents.
    """

    offset: int
    line: int
    document: int


class Columns(NamedTuple):
    """Names of the columns.

    Args:
        words: column of the text or the tokens; None, the default, means `tokens` or otherwise `text`.
        document: column that is equal for the rows of a document; None, the default, means `document` if it
            exists.
        entities: name of the column that is added; default `entities`.
        token: index of the token column in CoNLL files; default 0.
    """

    words: str | None = None
    document: str | None = None
    entities: str = "entities"
    token: int = 0


class Entity(TypedDict):
    """An entity of a row; start and end count the characters of a text, or tokens."""

    start: int
    end: int
    type: str
    text: str
    confidence: float


class Rows(NamedTuple):
    """Consecutive rows of a file.

    Args:
        words: content of each row.
        positions: position of each row.
        write: writes the rows unchanged to a file, with the given entities of each.
    """

    words: Sequence[Words]
    positions: Sequence[Position]
    write: Callable[[Path, Sequence[Sequence[Entity]]], None]


class CorpusFile(Protocol):
    """A file of a corpus. `positions` checks all rows, so that `read` meets no invalid row later.

    Attributes:
        path: path of the file.
        format: format of the file.
        suffix: suffix of the files to which its parts are written.
        end: offset after the last row.
    """

    path: Path
    format: Format
    suffix: str
    end: int

    def positions(self) -> Iterator[Position]:
        """Yield the position of each row."""

    def read(self, start: Position, stop: int) -> Rows:
        """Read the rows from a position up to the offset `stop`, which is excluded."""


class RowSentence(NamedTuple):
    """A sentence of a row.

    Args:
        row: index of the row.
        tokens: tokens of the sentence.
        starts: character at which each token begins; None in a row of tokens.
        document: document number.
    """

    row: int
    tokens: tuple[str, ...]
    starts: tuple[int, ...] | None
    document: int

    def entity(self, words: Words, scored: ScoredSpan) -> Entity:
        """Return an entity with its position in the row, whose content is `words`."""
        (start, end, entity_type), probability = scored
        if self.starts is not None:
            start, end = self.starts[start], self.starts[end - 1] + len(self.tokens[end - 1])
        content = words[start:end]
        text = content if isinstance(content, str) else " ".join(content)
        return Entity(start=start, end=end, type=entity_type, text=text, confidence=round(probability, 6))


def sentences_of(rows: Rows, longest: int) -> tuple[list[RowSentence], int]:
    """Return the sentences of rows, and the number of cuts inside documents; see `pieces_of`."""
    sentences = [
        RowSentence(number, tokens, starts, position.document)
        for number, (words, position) in enumerate(zip(rows.words, rows.positions, strict=True))
        for tokens, starts in _split(words)
    ]
    documents, lengths = [s.document for s in sentences], [len(s.tokens) for s in sentences]
    pieces, cuts = pieces_of(documents, lengths, longest)
    return [s._replace(document=piece) for s, piece in zip(sentences, pieces, strict=True)], cuts


def pieces_of(documents: Sequence[int], lengths: Sequence[int], longest: int) -> tuple[list[int], int]:
    """Cut documents that are too long to be inferred at once.

    Args:
        documents: document number of each sentence.
        lengths: number of tokens of each sentence.
        longest: maximum number of sentences of a piece. A piece also has at most MOST_PADDED tokens, padding
            included, so that one very long sentence among many does not exhaust the memory.

    Returns:
        The new document number of each sentence, and the number of cuts.

    Example:
        >>> pieces_of([0, 0, 0, 7], [2, 2, 2, 2], longest=2)
        ([0, 0, 1, 2], 1)
    """
    pieces: list[int] = []
    cuts = size = widest = 0
    for row, (document, length) in enumerate(zip(documents, lengths, strict=True)):
        continues = row > 0 and document == documents[row - 1]
        size, widest = size + 1, max(widest, length)
        if continues and size <= longest and size * widest <= MOST_PADDED:
            pieces.append(pieces[-1])
        else:
            cuts += continues
            size, widest = 1, length
            pieces.append(pieces[-1] + 1 if pieces else 0)
    return pieces, cuts


def _split(words: Words) -> Iterator[tuple[tuple[str, ...], tuple[int, ...] | None]]:
    """Yield the tokens of each sentence of a row and, in a text, the character at which each begins."""
    if isinstance(words, str):
        yield from ((sentence.tokens, sentence.starts) for sentence in split_text(words))
    elif words:
        yield tuple(words), None
