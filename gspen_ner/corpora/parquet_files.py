"""Corpus files that are parquet tables: the schema stays unchanged, with one more column.

Each worker reads a table once, from the beginning to the end, whatever the size of its row groups: it tags
its parts in rising order and skips the rows between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gspen_ner.corpora.rows import Columns, Entity, Format, Position, Rows

BATCH = 1024
UNREADABLE = (pa.ArrowException, OSError, ValueError)  # ValueError: column names that are not UTF-8
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
        path: path of the file.
        columns: names of the columns.
    """

    format: Format = "parquet"
    suffix = ".parquet"

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path, buffer_size=1 << 20)
            schema = self.file.schema_arrow
        except UNREADABLE as error:
            raise ValueError(f"{path}: not a readable parquet table: {error}") from None
        self.words = _words_column(path, schema, columns.words)
        self.document = _document_column(path, schema, columns.document)
        self.entities = columns.entities
        if self.entities in schema.names:
            raise ValueError(
                f"{path}: the column {self.entities!r} exists already: choose another name for the new "
                "column (--entities-column)"
            )
        metadata = self.file.metadata
        self.end: int = metadata.num_rows
        sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        self._group_ends = list(accumulate(sizes))
        self._next_row = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None

    def positions(self) -> Iterator[Position]:
        """Yield the position of each row; all rows are checked."""
        columns = [self.words] if self.document is None else [self.words, self.document]
        row, document, last = 0, -1, None
        for batch in self._checked(self.file.iter_batches(BATCH, columns=columns)):
            self._check(batch, row)
            names = [None] * len(batch) if self.document is None else batch[self.document].to_pylist()
            for name in names:
                document += name is None or name != last or document < 0
                last = name
                yield Position(row, row + 1, document)
                row += 1

    def read(self, start: Position, stop: int) -> Rows:
        """Read the rows from a position up to the row `stop`, which is excluded."""
        batches = list(self._checked(self._slices(start.offset, stop)))
        table = pa.Table.from_batches(batches, self.file.schema_arrow)
        words = ["" if content is None else content for content in table[self.words].to_pylist()]
        documents = [None] * len(table) if self.document is None else table[self.document].to_pylist()
        positions, number = [], start.document
        for row, name in enumerate(documents):
            number += row > 0 and (name is None or name != documents[row - 1])
            positions.append(Position(start.offset + row, start.offset + row + 1, number))
        return Rows(words, positions, partial(self._write, table))

    def _write(self, table: pa.Table, file: Path, entities: Sequence[Sequence[Entity]]) -> None:
        """Write rows as a parquet table, with the entities of each."""
        column = pa.array([list(row_entities) for row_entities in entities], ENTITIES)
        pq.write_table(table.append_column(pa.field(self.entities, ENTITIES), column), file)

    def _slices(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `start` to `stop`; reading continues where it stopped, if `start` is near."""
        is_behind = start < self._next_row or self._next_row == 0
        if is_behind or self._group(start) > self._group(self._next_row):
            first = self._group(start)
            self._next_row, self._rest = self._group_ends[first - 1] if first else 0, None
            self._batches = self.file.iter_batches(BATCH, range(first, len(self._group_ends)))
        while self._next_row < stop:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                raise ValueError(f"contains {self._next_row} rows, but its metadata say {self.end}")
            skipped = min(max(start - self._next_row, 0), len(batch))
            taken = min(stop - self._next_row - skipped, len(batch) - skipped)
            self._next_row += skipped + taken
            self._rest = batch.slice(skipped + taken) if skipped + taken < len(batch) else None
            if taken:
                yield batch.slice(skipped, taken)

    def _group(self, row: int) -> int:
        """Return the index of the row group of a row."""
        return bisect_right(self._group_ends, row)

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except UNREADABLE as error:
            raise ValueError(f"{self.path}: the table cannot be read to its end: {error}") from None

    def _check(self, batch: pa.RecordBatch, first: int) -> None:
        """Refuse texts that are not UTF-8, and tokens that are empty or null."""
        words = batch[self.words]
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{self.path}: rows {first + 1} to {first + len(batch)}: {error}") from None
        if _is_text(words.type):
            return
        tokens, rows = words.flatten(), pc.list_parent_indices(words)
        empty = pc.fill_null(pc.equal(pc.utf8_length(tokens), 0), True)
        if pc.any(empty).as_py():
            row = first + rows[pc.index(empty, True).as_py()].as_py() + 1
            raise ValueError(f"{self.path}:{row}: a token of {self.words!r} is empty or null")


def _is_text(column_type: pa.DataType) -> bool:
    return pa.types.is_string(column_type) or pa.types.is_large_string(column_type)


def _is_tokens(column_type: pa.DataType) -> bool:
    is_list = pa.types.is_list(column_type) or pa.types.is_large_list(column_type)
    return is_list and _is_text(column_type.value_type)


def _words_column(path: Path, schema: pa.Schema, given: str | None) -> str:
    names = ("tokens", "text") if given is None else (given,)
    for name in names:
        if name in schema.names:
            column_type = schema.field(name).type
            if not _is_text(column_type) and not _is_tokens(column_type):
                raise ValueError(
                    f"{path}: column {name!r} has type {column_type}, expected strings or lists of strings"
                )
            return name
    raise ValueError(
        f"{path}: no column {' or '.join(map(repr, names))}; the columns are {', '.join(schema.names)}; give "
        "the column of the tokens or the text (--column)"
    )


def _document_column(path: Path, schema: pa.Schema, given: str | None) -> str | None:
    if given is None:
        return "document" if "document" in schema.names else None
    if given not in schema.names:
        raise ValueError(f"{path}: no column {given!r}; the columns are {', '.join(schema.names)}")
    return given
