"""Corpora as parquet tables: the schema stays as it is, with one more column.

A table is read from its beginning to its end once by each worker, whatever the size of its row groups: parts
are asked for in rising order, and what lies between them is skipped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gspen_ner.corpora.rows import Columns, Entity, Place, Words

BATCH = 1024
UNREADABLE = (pa.ArrowException, OSError, ValueError)  # names of columns may be no UTF-8
ENTITIES = pa.list_(
    pa.struct(
        [
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("type", pa.string()),
            ("text", pa.string()),
            ("confidence", pa.float64()),
        ]
    )
)


class TableFile:
    """A corpus file that is a parquet table with a column of texts, or of lists of tokens.

    Args:
        path: the file.
        columns: what is where.
    """

    suffix = ".parquet"

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path, buffer_size=1 << 20)
            schema = self.file.schema_arrow
        except UNREADABLE as error:
            raise ValueError(f"{path}: not a parquet table that can be read: {error}") from None
        self.words = _words_column(path, schema, columns.words)
        self.document = _document_column(path, schema, columns.document)
        self.entities = columns.entities
        if self.entities in schema.names:
            raise ValueError(
                f"{path}: has a column {self.entities!r} already: call the new one something else "
                "(--entities-column)"
            )
        groups = self.file.metadata
        self.end: int = groups.num_rows
        self._ends = list(accumulate(groups.row_group(g).num_rows for g in range(groups.num_row_groups)))
        self._at = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None

    def places(self) -> Iterator[Place]:
        """Where each row stands; all are checked."""
        wanted = [self.words] if self.document is None else [self.words, self.document]
        row, document, last = 0, -1, None
        for batch in self._checked(self.file.iter_batches(BATCH, columns=wanted)):
            self._check(batch, row)
            names = [None] * len(batch) if self.document is None else batch[self.document].to_pylist()
            for name in names:
                document += name is None or name != last or document < 0
                last = name
                yield Place(row, row + 1, document)
                row += 1

    def read(self, start: Place, stop: int) -> TableRows:
        """The rows from a place to `stop`, a row."""
        batches = list(self._checked(self._slices(start.at, stop)))
        table = pa.Table.from_batches(batches, self.file.schema_arrow)
        words = ["" if said is None else said for said in table[self.words].to_pylist()]
        documents = [None] * len(table) if self.document is None else table[self.document].to_pylist()
        places, number = [], start.document
        for row, name in enumerate(documents):
            number += row > 0 and (name is None or name != documents[row - 1])
            places.append(Place(start.at + row, start.at + row + 1, number))
        return TableRows(table, words, places, self.entities)

    def _slices(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file; goes on where it was, if the start is not far off."""
        if start < self._at or self._group(start) > self._group(self._at) or self._at == 0:
            first = self._group(start)
            self._at, self._rest = self._ends[first - 1] if first else 0, None
            self._batches = self.file.iter_batches(BATCH, range(first, len(self._ends)))
        while self._at < stop:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                raise ValueError(f"{self._at} rows, and it tells of {self.end}")
            skipped = min(max(start - self._at, 0), len(batch))
            taken = min(stop - self._at - skipped, len(batch) - skipped)
            self._at += skipped + taken
            self._rest = batch.slice(skipped + taken) if skipped + taken < len(batch) else None
            if taken:
                yield batch.slice(skipped, taken)

    def _group(self, row: int) -> int:
        """The row group that a row is in."""
        return bisect_right(self._ends, row)

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except UNREADABLE as error:
            raise ValueError(f"{self.path}: the table cannot be read to its end: {error}") from None

    def _check(self, batch: pa.RecordBatch, first: int) -> None:
        """Refuse texts that are no UTF-8, and tokens that are none."""
        words = batch[self.words]
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{self.path}: rows {first + 1} to {first + len(batch)}: {error}") from None
        if _is_text(words.type):
            return
        tokens, owners = words.flatten(), pc.list_parent_indices(words)
        empty = pc.fill_null(pc.equal(pc.utf8_length(tokens), 0), True)
        if pc.any(empty).as_py():
            raise ValueError(f"{self.path}:{first + owners[pc.index(empty, True).as_py()].as_py() + 1}: "
                             f"a token of {self.words!r} is empty or null")  # fmt: skip


class TableRows:
    """Rows of a parquet table."""

    def __init__(self, table: pa.Table, words: Sequence[Words], places: Sequence[Place], name: str) -> None:
        self.table, self.words, self.places, self.name = table, words, places, name

    def write(self, file: Path, entities: Sequence[Sequence[Entity]]) -> None:
        """As a parquet table."""
        column = pa.array([list(found) for found in entities], ENTITIES)
        pq.write_table(self.table.append_column(pa.field(self.name, ENTITIES), column), file)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_tokens(kind: pa.DataType) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type)


def _words_column(path: Path, schema: pa.Schema, wanted: str | None) -> str:
    names = ("tokens", "text") if wanted is None else (wanted,)
    for name in names:
        if name in schema.names:
            kind = schema.field(name).type
            if not _is_text(kind) and not _is_tokens(kind):
                raise ValueError(f"{path}: column {name!r} has {kind}, expected strings or lists of strings")
            return name
    raise ValueError(
        f"{path}: no column {' or '.join(map(repr, names))}, only {', '.join(schema.names)}; name the one of "
        "tokens or texts (--column)"
    )


def _document_column(path: Path, schema: pa.Schema, wanted: str | None) -> str | None:
    if wanted is None:
        return "document" if "document" in schema.names else None
    if wanted not in schema.names:
        raise ValueError(f"{path}: no column {wanted!r}, only {', '.join(schema.names)}")
    return wanted
