"""Dividing a corpus into parts of whole documents.

A part takes whole documents until it has enough rows. A document of more than `longest` rows is cut, so that
memory stays bounded for any corpus: a text without a single blank line is one document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gspen_ner.corpora.rows import CorpusFile, Position

PART_ROWS = 1000
"""Default approximate number of rows of a part."""
LONGEST_DOCUMENT = 256
"""Default maximum number of sentences that are inferred together."""


class Part(NamedTuple):
    """Consecutive rows of one file that are tagged and written at once.

    Args:
        file: index of the file.
        start: position of the first row.
        stop: offset after the last row.
        rows: number of rows.
    """

    file: int
    start: Position
    stop: int
    rows: int


class Plan(NamedTuple):
    """The parts of a corpus, and how many of them begin inside a document (cuts)."""

    parts: list[Part]
    cuts: int


def make_plan(files: Sequence[CorpusFile], part_rows: int, longest: int) -> Plan:
    """Read a corpus once, check all its rows, and divide it into parts.

    Args:
        files: files of the corpus.
        part_rows: minimum number of rows of a part, except for the last part of a file.
        longest: maximum number of rows of a document that stay together.
    """
    parts, cuts = [], 0
    for number, file in enumerate(files):
        for part, is_cut in _parts(number, file, part_rows, longest):
            parts.append(part)
            cuts += is_cut
    return Plan(parts or [Part(0, Position(0, 1, 0), 0, 0)], cuts)


def _parts(number: int, file: CorpusFile, part_rows: int, longest: int) -> Iterator[tuple[Part, bool]]:
    """Yield the parts of a file, each with whether it begins inside a document."""
    start: Position | None = None
    rows = document_rows = 0
    last, is_cut = None, False
    for position in file.positions():
        continues = position.document == last and document_rows < longest
        document_rows = document_rows + 1 if continues else 1
        if start is None:
            start = position
        elif not continues and rows >= part_rows:
            yield Part(number, start, position.offset, rows), is_cut
            start, rows, is_cut = position, 0, position.document == last
        last = position.document
        rows += 1
    if start is not None:
        yield Part(number, start, file.end, rows), is_cut
