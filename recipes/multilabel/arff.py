"""Tables of zeros and ones in ARFF files, and Mulan's XML files that list which columns are labels.

    @relation bibtex
    @attribute 'some name' {0,1}     nominal with these two values, or numeric, integer or real
    @attribute TAG_web {0,1}
    @data
    {1 1}                            sparse: column, counted from 0, and value; all other columns are 0
    0,1                              dense: the value of each column

Keywords may be in upper or lower case, `%` begins a comment, and blank lines are ignored. A file may be
compressed with gzip, whatever its name. An error in a file is raised with file and line.

The labels of a table are listed in another file; labels may be nested:

    <labels xmlns="http://mulan.sourceforge.net/labels"><label name="TAG_web"></label></labels>
"""

from __future__ import annotations

import functools
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
_CACHED = 1 << 16  # entries are few and repeated: parsing each of them once makes reading fast


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A table of zeros and ones.

    Attributes:
        names: names of the columns, all different.
        values: rows, in the order of the file.
    """

    names: tuple[str, ...]
    values: UInt8[np.ndarray, "rows attributes"]


def read_binary_arff(path: str | Path) -> BinaryTable:
    r"""Read an ARFF file; see this module's header for the format.

    Raises:
        ValueError: if the file is missing, damaged or another kind of table; the message names file and line.

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
    values = bytearray()  # grows in place, so that a large table is in memory once
    for number, line in lines:
        row = line.partition("%")[0].strip()
        try:
            if row:
                values += _sparse(row, len(names)) if row[0] == "{" else _dense(row, len(names))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    if not values:
        raise ValueError(f"{path}: expected rows after @data, got none")
    return BinaryTable(names, np.frombuffer(values, dtype=np.uint8).reshape(-1, len(names)))


# Lines


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file, which may be compressed, with their numbers."""
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
    """Return text of any length as an error message shows it."""
    text = text.strip()
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# Header


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[str, ...]:
    """Return the names of the columns; then `lines` is at the first line after @data."""
    names: dict[str, int] = {}
    number, empty = 0, True
    for number, line in lines:
        if _BLANK.match(line):
            continue
        empty = False
        if _DATA.match(line):
            if not names:
                raise ValueError(f"{path}:{number}: expected attributes before @data, got none")
            return tuple(names)
        if not _RELATION.match(line):
            name = _attribute(f"{path}:{number}", line)
            if name in names:
                raise ValueError(
                    f"{path}:{number}: expected attributes of different names, "
                    f"got {name!r} again after line {names[name]}"
                )
            names[name] = number
    if empty:
        raise ValueError(f"{path}: expected an ARFF file, got an empty one")
    raise ValueError(
        f"{path}:{number}: expected @data after {len(names)} attributes, got the end: is it cut off?"
    )


def _attribute(position: str, line: str) -> str:
    """Return the name in an @attribute line."""
    match = _ATTRIBUTE.match(line)
    if not match or "\0" in line:
        if line.lstrip()[:10].lower() == "@attribute":
            raise ValueError(f"{position}: expected '@attribute name {{0,1}}' or numeric, got {_shown(line)}")
        raise ValueError(f"{position}: expected @relation, @attribute or @data of ARFF, got {_shown(line)}")
    if match["bare"] is not None:
        return match["bare"]
    return re.sub(r"\\(.)", r"\1", match["double"] if match["single"] is None else match["single"])


# Rows


def _sparse(row: str, width: int) -> bytes:
    """Return the values of a row such as {3 1,17 1}."""
    if row[-1] != "}":
        raise ValueError(f"expected a sparse row that ends in }}, got one that ends in {_shown(row[-20:])}")
    inside = row[1:-1]
    entries = [_entry(part, width) for part in inside.split(",")] if inside.strip() else []
    values = bytearray(width)
    for column, value in entries:
        values[column] = value
    columns = [column for column, _ in entries]
    if len(set(columns)) < len(columns):
        doubled = next(column for column in columns if columns.count(column) > 1)
        raise ValueError(f"expected each column once, got column {doubled} {columns.count(doubled)} times")
    return bytes(values)


def _dense(row: str, width: int) -> bytes:
    """Return the values of a row such as 0,1,0."""
    parts = row.split(",")
    if len(parts) != width:
        raise ValueError(f"expected {width} values, got {len(parts)}: {_shown(row)}")
    return bytes(map(_value, parts))


@functools.lru_cache(_CACHED)
def _entry(text: str, width: int) -> tuple[int, int]:
    """Return column and value of an entry of a sparse row, such as "17 1"."""
    match = _ENTRY.match(text)
    if not match:
        raise ValueError(f"expected a column and its value such as '3 1', got {_shown(text)}")
    column = int(match[1])
    if column >= width:
        raise ValueError(f"expected a column from 0 to {width - 1}, got {column}")
    return column, _value(match[2])


@functools.lru_cache(_CACHED)
def _value(text: str) -> int:
    value = _VALUES.get(text.strip())
    if value is None:
        raise ValueError(f"expected 0 or 1, got {_shown(text)}")
    return value


# Labels


def read_label_names(path: str | Path) -> tuple[str, ...]:
    """Read the names of the labels from one of Mulan's XML files, in its order.

    Raises:
        ValueError: if the file is missing, cut off, declares a document type, or is no list of labels.
    """
    path = Path(path)
    names: dict[str, None] = {}
    open_tags: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def position() -> str:
        return f"{path}:{parser.CurrentLineNumber}"

    def refuse(name: str, *_: object) -> None:
        raise ValueError(f"{position()}: expected no document type (DOCTYPE, entities), got {_shown(name)}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]  # without its namespace
        expected = "label" if open_tags else "labels"
        if tag != expected:
            raise ValueError(f"{position()}: expected <{expected}>, got {_shown(f'<{tag}>')}")
        open_tags.append(tag)
        name = attributes.get("name", "")
        if tag == "label" and not name:
            raise ValueError(f"{position()}: expected a label with a name, got one without")
        if tag == "label" and name in names:
            raise ValueError(f"{position()}: expected different labels, got {_shown(name)} again")
        if tag == "label":
            names[name] = None

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_tags.pop()
    try:
        parser.Parse(path.read_bytes(), True)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    except (expat.ExpatError, LookupError, ValueError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{position()}: expected XML, whole: {error}") from None
    if not names:
        raise ValueError(f"{path}: expected labels such as <label name='...'>, got none")
    return tuple(names)
