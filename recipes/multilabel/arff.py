"""Tables of zeros and ones in ARFF files, and Mulan's XML files that say which columns are labels.

    @relation bibtex
    @attribute 'some name' {0,1}     nominal with these two values, or numeric, integer or real
    @attribute TAG_web {0,1}
    @data
    {1 1}                            sparse: column, counted from 0, and value; all other columns are 0
    0,1                              dense: the value of each column

Keywords are read in any case, `%` begins a comment, and blank lines mean nothing. A file may be compressed
with gzip, whatever its name. Nothing is read of a file that has an error: the message names file and line.

The labels of a table stand in a file of their own; labels within labels count like any others:

    <labels xmlns="http://mulan.sourceforge.net/labels"><label name="TAG_web"></label></labels>
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast
from xml.parsers import expat

import numpy as np
from jaxtyping import UInt8

_BLANK = re.compile(r"\s*(%.*)?\Z", re.DOTALL)
_RELATION = re.compile(r"\s*@relation\b", re.IGNORECASE)
_DATA = re.compile(r"\s*@data\s*(%.*)?\Z", re.IGNORECASE | re.DOTALL)
_ATTRIBUTE = re.compile(
    r"""\s*@attribute\s+
    (?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^\s'"{},%][^\s{},%]*) )
    \s* (?: \{\s*(?P<quote>['"]?)0(?P=quote)\s*,\s*(?P=quote)1(?P=quote)\s*\}
          | (?<=\s)(?:numeric|integer|real) )
    \s* (?:%.*)?\Z""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_ENTRY = re.compile(r"\s*([0-9]{1,9})\s+(\S+)\s*\Z")
_VALUES = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "'0'": 0, "'1'": 1, '"0"': 0, '"1"': 1}
_GIVEN_ONE, _GIVEN_ZERO = 1, 2  # bytes of a sparse row while it is read; 0 is a column that is not given


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A table of zeros and ones.

    Attributes:
        names: of the columns, all different.
        values: the rows, in the order of the file.
    """

    names: tuple[str, ...]
    values: UInt8[np.ndarray, "rows attributes"]


def read_binary_arff(path: str | Path) -> BinaryTable:
    r"""Read an ARFF file; see this module's header for what it may hold.

    Raises:
        ValueError: the file is missing, damaged or not such a table; the message says which file and line.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "x.arff")
        ...     text = "@relation x\n@attribute a {0,1}\n@attribute b {0,1}\n@data\n{1 1}\n1,0\n"
        ...     _ = file.write_text(text)
        ...     table = read_binary_arff(file)
        >>> table.names, table.values.tolist()
        (('a', 'b'), [[0, 1], [1, 0]])
    """
    path = Path(path)
    lines = _lines(path)
    names = _header(path, lines)
    entries, cells = _Entries(len(names)), _Cells()
    values = bytearray()  # grows in place, so that a large table is in memory once
    for number, line in lines:
        row = line.partition("%")[0].strip()
        try:
            if row:
                values += _sparse(row, entries) if row[0] == "{" else _dense(row, cells, len(names))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    if not values:
        raise ValueError(f"{path}: expected rows after @data, got none")
    return BinaryTable(names, np.frombuffer(values, dtype=np.uint8).reshape(-1, len(names)))


# Lines


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, which may be compressed, with their numbers."""
    number = 0
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            content = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if compressed else file
            for number, line in enumerate(content, 1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: a folder, expected a file") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{number}: expected UTF-8 text: {error.reason}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: damaged or cut off after line {number}: {error}") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None


def _shown(text: str) -> str:
    """Text of any length as an error message shows it."""
    text = text.strip()
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# Header


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[str, ...]:
    """The names of the columns; afterwards `lines` is at the first line after @data."""
    found: dict[str, int] = {}
    number, empty = 0, True
    for number, line in lines:
        if _BLANK.match(line):
            continue
        empty = False
        if _DATA.match(line):
            if not found:
                raise ValueError(f"{path}:{number}: expected attributes before @data, got none")
            return tuple(found)
        if not _RELATION.match(line):
            name = _attribute(f"{path}:{number}", line)
            if name in found:
                raise ValueError(
                    f"{path}:{number}: expected attributes of different names, "
                    f"got {name!r} again after line {found[name]}"
                )
            found[name] = number
    if empty:
        raise ValueError(f"{path}: expected an ARFF file, got an empty one")
    raise ValueError(
        f"{path}:{number}: expected @data after {len(found)} attributes, got the end: is it cut off?"
    )


def _attribute(place: str, line: str) -> str:
    """The name in an @attribute line."""
    match = _ATTRIBUTE.match(line)
    if not match or "\0" in line:
        if line.lstrip()[:10].lower() == "@attribute":
            raise ValueError(f"{place}: expected '@attribute name {{0,1}}' or numeric, got {_shown(line)}")
        raise ValueError(f"{place}: expected @relation, @attribute or @data of ARFF, got {_shown(line)}")
    if match["bare"] is not None:
        return match["bare"]
    return re.sub(r"\\(.)", r"\1", match["double"] if match["single"] is None else match["single"])


# Rows


class _Entries(dict[str, tuple[int, int]]):
    """Column and mark of each entry of sparse rows, such as "17 1", found out when it is first met."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __missing__(self, entry: str) -> tuple[int, int]:
        match = _ENTRY.match(entry)
        if not match:
            raise ValueError(f"expected a column and its value such as '3 1', got {_shown(entry)}")
        column = int(match[1])
        if column >= self.width:
            raise ValueError(f"expected a column from 0 to {self.width - 1}, got {column}")
        self[entry] = found = column, _GIVEN_ONE if _value(match[2]) else _GIVEN_ZERO
        return found


class _Cells(dict[str, int]):
    """The value of each cell of dense rows, found out when it is first met."""

    def __missing__(self, cell: str) -> int:
        self[cell] = value = _value(cell)
        return value


def _value(text: str) -> int:
    value = _VALUES.get(text.strip())
    if value is None:
        raise ValueError(f"expected 0 or 1, got {_shown(text)}")
    return value


def _sparse(row: str, entries: _Entries) -> bytes:
    """A row such as {3 1,17 1}."""
    if row[-1] != "}":
        raise ValueError(f"expected a sparse row that ends in }}, got one that ends in {_shown(row[-20:])}")
    inside = row[1:-1]
    parts = inside.split(",") if inside.strip() else []
    marks = bytearray(entries.width)
    for column, mark in map(entries.__getitem__, parts):
        marks[column] = mark
    if marks.count(0) != entries.width - len(parts):
        columns = [entries[part][0] for part in parts]
        doubled = next(column for column in columns if columns.count(column) > 1)
        raise ValueError(f"expected each column once, got column {doubled} {columns.count(doubled)} times")
    return bytes(marks.replace(bytes([_GIVEN_ZERO]), bytes(1)))


def _dense(row: str, cells: _Cells, width: int) -> bytes:
    """A row such as 0,1,0."""
    parts = row.split(",")
    if len(parts) != width:
        raise ValueError(f"expected {width} values, got {len(parts)}: {_shown(row)}")
    return bytes(map(cells.__getitem__, parts))


# Labels


def read_label_names(path: str | Path) -> tuple[str, ...]:
    """Read the names of the labels from an XML file of Mulan's, in its order.

    Raises:
        ValueError: the file is missing, cut off, declares a document type, or is not such a list of labels.
    """
    path = Path(path)
    reader = _LabelReader(path)
    try:
        content = path.read_bytes()
        reader.parser.Parse(content, True)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    except (expat.ExpatError, LookupError) as error:
        raise ValueError(f"{reader.place}: expected XML, whole: {error}") from None
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{reader.place}: expected XML, whole: {error}") from None  # of an odd encoding
    if not reader.names:
        raise ValueError(f"{path}: expected labels such as <label name='...'>, got none")
    return tuple(reader.names)


class _LabelReader:
    """Collects labels while an XML file is parsed; entities are never expanded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, int] = {}
        self.depth = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    @property
    def place(self) -> str:
        return f"{self.path}:{self.parser.CurrentLineNumber}"

    def _refuse(self, name: str, *_: object) -> None:
        raise ValueError(f"{self.place}: expected no document type (DOCTYPE, entities), got {_shown(name)}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]  # without its namespace
        expected = "label" if self.depth else "labels"
        if tag != expected:
            raise ValueError(f"{self.place}: expected <{expected}>, got {_shown(f'<{tag}>')}")
        self.depth += 1
        if tag == "labels":
            return
        name = attributes.get("name", "")
        if not name:
            raise ValueError(f"{self.place}: expected a label with a name, got one without")
        if name in self.names:
            raise ValueError(f"{self.place}: expected different labels, got {_shown(name)} again")
        self.names[name] = self.parser.CurrentLineNumber

    def _end(self, _: str) -> None:
        self.depth -= 1
