"""Corpus files of lines: JSON lines, plain text, CoNLL columns. Rows are found by offset, none is kept.

text      a row is a line; a blank line, or one that starts with -DOCSTART-, ends a document
conll     a row is a sentence; -DOCSTART- starts a document; only the tokens are kept
jsonl     a row is an object with `tokens` or `text` and, optionally, `document`; the line is written
          unchanged, byte by byte, with one more entry
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gspen_ner.corpora.rows import Columns, Entity, Format, Position, Rows, Words
from gspen_ner.ner.files import DOCUMENT_MARK, check_tokens, column_sentences, has_surrogates, json_object

_START = Position(0, 1, 0)


class _Line(NamedTuple):
    offset: int
    number: int
    text: str


class _Row(NamedTuple):
    """A row; `source` is the unchanged line, in JSON lines only."""

    position: Position
    words: Words
    source: str


class LineFile:
    """A corpus file of lines; see the header of this module.

    Args:
        path: path of the file, in UTF-8.
        file_format: format of the lines: `"text"`, `"conll"` or `"jsonl"`.
        columns: names of the columns.
    """

    suffix = ".jsonl"

    def __init__(self, path: Path, file_format: Format, columns: Columns) -> None:
        self.path, self.format, self.columns = path, file_format, columns
        self.end = path.stat().st_size

    def positions(self) -> Iterator[Position]:
        """Yield the position of each row; all rows are checked."""
        return (row.position for row in self._rows(_START, None))

    def read(self, start: Position, stop: int) -> Rows:
        """Read the rows from a position up to the byte `stop`, which is excluded."""
        rows = list(self._rows(start, stop))
        return Rows([row.words for row in rows], [row.position for row in rows], partial(self._write, rows))

    def _write(self, rows: Sequence[_Row], file: Path, entities: Sequence[Sequence[Entity]]) -> None:
        """Write rows as JSON lines, with the entities of each."""
        with file.open("w", encoding="utf-8", newline="\n") as out:
            for row, row_entities in zip(rows, entities, strict=True):
                out.write(f"{self._object(row)}, {_json(self.columns.entities)}: {_json(row_entities)}}}\n")

    def _object(self, row: _Row) -> str:
        """Return the JSON object of a row without its closing brace."""
        if self.format == "jsonl":
            return row.source[:-1].rstrip()
        name = "text" if self.format == "text" else "tokens"
        document = row.position.document if row.position.document >= 0 else None
        return _json({"document": document, "line": row.position.line, name: row.words})[:-1]

    def _rows(self, start: Position, stop: int | None) -> Iterator[_Row]:
        rows = {"text": self._text, "conll": self._conll, "jsonl": self._json}[self.format]
        return rows(_lines(self.path, start, stop), start)

    def _text(self, lines: Iterator[_Line], start: Position) -> Iterator[_Row]:
        document, ended = start.document, False
        for line in lines:
            if not line.text.strip() or line.text.startswith(DOCUMENT_MARK):
                ended = True
                continue
            document, ended = document + ended, False
            yield _Row(Position(line.offset, line.number, document), line.text, "")

    def _conll(self, lines: Iterator[_Line], start: Position) -> Iterator[_Row]:
        passed: list[_Line] = []

        def texts() -> Iterator[str]:
            for line in lines:
                passed.append(line)
                yield line.text

        document = -1 if start == _START else max(start.document, -1)
        arguments = (self.path, texts(), self.columns.token, None, start.line, document)
        for sentence in column_sentences(*arguments):
            first = passed[sentence.line - passed[0].number]
            # Without a document mark, a sentence is a document of its own: a negative number.
            document = sentence.document if sentence.document >= 0 else -1 - sentence.line
            yield _Row(Position(first.offset, sentence.line, document), sentence.tokens, "")
            del passed[:-1]

    def _json(self, lines: Iterator[_Line], start: Position) -> Iterator[_Row]:
        document, last = start.document, None
        is_first = True
        for line in lines:
            if not line.text.strip():
                continue
            entry = json_object(self.path, line.number, line.text)
            words, name = self._words(line.number, entry), self._document(line.number, entry)
            if not is_first and (name is None or name != last):
                document += 1
            is_first, last = False, name
            yield _Row(Position(line.offset, line.number, document), words, line.text.strip())

    def _words(self, number: int, entry: dict[str, Any]) -> Words:
        if self.columns.entities in entry:
            raise ValueError(
                f"{self.path}:{number}: {self.columns.entities!r} exists already: choose another name for "
                "the new column (--entities-column)"
            )
        name = self.columns.words or ("tokens" if "tokens" in entry else "text")
        if name not in entry:
            expected = repr(name) if self.columns.words else "'tokens' or 'text'"
            raise ValueError(f"{self.path}:{number}: expected an object with {expected}")
        words = entry[name]
        if isinstance(words, str):
            if has_surrogates(words):
                raise ValueError(
                    f"{self.path}:{number}: the text contains a lone surrogate (half of a character)"
                )
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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(path: Path, start: Position, stop: int | None) -> Iterator[_Line]:
    """Yield the lines of a file from a position to the byte `stop`, each with its byte offset."""
    with path.open("rb") as file:
        file.seek(start.offset)
        offset = start.offset
        for number, line in enumerate(file, start.line):
            if stop is not None and offset >= stop:
                return
            try:
                text = line.decode("utf-8-sig" if offset == 0 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: not UTF-8 text (byte {offset + error.start}): {error.reason}"
                ) from None
            yield _Line(offset, number, text)
            offset += len(line)
