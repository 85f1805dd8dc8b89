"""Where one part of a corpus ends and the next begins: never inside a document.

A part is filled with whole documents until it has enough rows. A document of more rows than `longest` is cut
behind every so many of them, so that memory has a bound whatever the corpus is like: a text without a single
blank line is one document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gspen_ner.corpora.rows import CorpusFile, Place

PART_ROWS = 1000  # unless somebody wants it otherwise
LONGEST_DOCUMENT = 256  # likewise: sentences that are inferred together, at most


class Part(NamedTuple):
    """Rows of one file that are tagged, and written, at once."""

    file: int
    start: Place
    stop: int
    """What the first row that is not in it is at."""
    rows: int


class Plan(NamedTuple):
    """The parts of a corpus, and how many of them begin inside a document that was too long."""

    parts: list[Part]
    cuts: int


def make_plan(files: Sequence[CorpusFile], part_rows: int, longest: int) -> Plan:
    """Read all of a corpus once, checking it, and say where its parts are.

    Args:
        files: of the corpus.
        part_rows: a part has at least so many rows, the last of a file excepted.
        longest: rows of a document that stay together.
    """
    parts, cuts = [], 0
    for number, file in enumerate(files):
        for part, cut in _parts(number, file, part_rows, longest):
            parts.append(part)
            cuts += cut
    return Plan(parts or [Part(0, Place(0, 1, 0), 0, 0)], cuts)


def _parts(number: int, file: CorpusFile, part_rows: int, longest: int) -> Iterator[tuple[Part, bool]]:
    """The parts of a file, each with whether it begins inside a document."""
    start: Place | None = None
    rows = inside = 0
    last, cut = None, False
    for place in file.places():
        inside = inside + 1 if place.document == last and inside < longest else 1
        if start is None:
            start = place
        elif inside == 1 and rows >= part_rows:
            yield Part(number, start, place.at, rows), cut
            start, rows, cut = place, 0, place.document == last
        last = place.document
        rows += 1
    if start is not None:
        yield Part(number, start, file.end, rows), cut
