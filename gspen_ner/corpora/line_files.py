"""Corpora as files of lines: JSON lines, plain text, CoNLL columns. Any row can be sought, none is kept.

text      a row is a line; a blank line, or one that begins with -DOCSTART-, ends a document
conll     a row is a sentence; -DOCSTART- begins a document; only the tokens are kept
jsonl     a row is an object with `tokens` or `text`, and perhaps `document`; written as it was, byte by
          byte, with one more entry
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gspen_ner.corpora.rows import Columns, Entity, Place, Words
from gspen_ner.ner.files import (
    DOCUMENT_MARK,
    check_tokens,
    column_sentences,
    has_half_characters,
    json_object,
)

LineKind = Literal["text", "conll", "jsonl"]
_START = Place(0, 1, 0)


class _Line(NamedTuple):
    at: int
    number: int
    text: str


class _Row(NamedTuple):
    place: Place
    words: Words
    source: str
    """The line as it stands, of JSON lines."""


class LineFile:
    """A corpus file of lines; see this module's header.

    Args:
        path: the file, UTF-8.
        kind: of its lines.
        columns: what is where.
    """

    suffix = ".jsonl"

    def __init__(self, path: Path, kind: LineKind, columns: Columns) -> None:
        self.path, self.kind, self.columns = path, kind, columns
        self.end = path.stat().st_size

    def places(self) -> Iterator[Place]:
        """Where each row stands; all are checked."""
        return (row.place for row in self._rows(_START, None))

    def read(self, start: Place, stop: int) -> LineRows:
        """The rows from a place to `stop`, a byte."""
        return LineRows(list(self._rows(start, stop)), self.kind, self.columns)

    def _rows(self, start: Place, stop: int | None) -> Iterator[_Row]:
        rows = {"text": self._text, "conll": self._conll, "jsonl": self._json}[self.kind]
        return rows(_lines(self.path, start, stop), start)

    def _text(self, lines: Iterator[_Line], start: Place) -> Iterator[_Row]:
        document, ended = start.document, False
        for line in lines:
            if not line.text.strip() or line.text.startswith(DOCUMENT_MARK):
                ended = True
                continue
            document, ended = document + ended, False
            yield _Row(Place(line.at, line.number, document), line.text, "")

    def _conll(self, lines: Iterator[_Line], start: Place) -> Iterator[_Row]:
        passed: list[_Line] = []

        def texts() -> Iterator[str]:
            for line in lines:
                passed.append(line)
                yield line.text

        document = -1 if start == _START else max(start.document, -1)
        given = (self.path, texts(), self.columns.token, None, start.line, document)
        for sentence in column_sentences(*given):
            first = passed[sentence.line - passed[0].number]
            document = sentence.document if sentence.document >= 0 else -1 - sentence.line  # by itself
            yield _Row(Place(first.at, sentence.line, document), sentence.tokens, "")
            del passed[:-1]

    def _json(self, lines: Iterator[_Line], start: Place) -> Iterator[_Row]:
        document, last = start.document, None
        fresh = True
        for line in lines:
            if not line.text.strip():
                continue
            entry = json_object(self.path, line.number, line.text)
            words, name = self._words(line.number, entry), self._document(line.number, entry)
            if not fresh and (name is None or name != last):
                document += 1
            fresh, last = False, name
            yield _Row(Place(line.at, line.number, document), words, line.text.strip())

    def _words(self, number: int, entry: dict[str, Any]) -> Words:
        if self.columns.entities in entry:
            raise ValueError(
                f"{self.path}:{number}: has {self.columns.entities!r} already: call the new column something "
                "else (--entities-column)"
            )
        name = self.columns.words or ("tokens" if "tokens" in entry else "text")
        if name not in entry:
            wanted = repr(name) if self.columns.words else "'tokens' or 'text'"
            raise ValueError(f"{self.path}:{number}: expected an object with {wanted}")
        words = entry[name]
        if isinstance(words, str):
            if has_half_characters(words):
                raise ValueError(f"{self.path}:{number}: the text has half of a character (a lone surrogate)")
            return words
        if words is None:
            return ""
        check_tokens(self.path, number, words, name)
        return words

    def _document(self, number: int, entry: dict[str, Any]) -> Any:
        name = self.columns.document
        if name is not None and name not in entry:
            raise ValueError(f"{self.path}:{number}: expected an object with {name!r}, the document")
        return entry.get(name or "document")


class LineRows:
    """Rows of a file of lines."""

    def __init__(self, rows: Sequence[_Row], kind: LineKind, columns: Columns) -> None:
        self.rows, self.kind, self.columns = rows, kind, columns
        self.words: Sequence[Words] = [row.words for row in rows]
        self.places: Sequence[Place] = [row.place for row in rows]

    def write(self, file: Path, entities: Sequence[Sequence[Entity]]) -> None:
        """As JSON lines."""
        with file.open("w", encoding="utf-8", newline="\n") as out:
            for row, found in zip(self.rows, entities, strict=True):
                out.write(f"{self._object(row)}, {_json(self.columns.entities)}: {_json(found)}}}\n")

    def _object(self, row: _Row) -> str:
        """A row's object without its last brace."""
        if self.kind == "jsonl":
            return row.source[:-1].rstrip()
        name = "text" if self.kind == "text" else "tokens"
        document = row.place.document if row.place.document >= 0 else None
        return _json({"document": document, "line": row.place.line, name: row.words})[:-1]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(path: Path, start: Place, stop: int | None) -> Iterator[_Line]:
    """Lines of a file from a place on, with the byte each begins at."""
    with path.open("rb") as file:
        file.seek(start.at)
        at = start.at
        for number, line in enumerate(file, start.line):
            if stop is not None and at >= stop:
                return
            try:
                text = line.decode("utf-8-sig" if at == 0 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: not UTF-8 text (byte {at + error.start}): {error.reason}"
                ) from None
            yield _Line(at, number, text)
            at += len(line)
