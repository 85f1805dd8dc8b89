"""A check of the structure of MATLAB 5 files.

scipy looks up the type of each part of a file in a table without checking that it is there: a damaged file
ends the process. Therefore the tags of all parts are checked before; the numbers are not.

file        header of 128 bytes, then parts: matrices, each of which may be compressed
matrix      flags, dimensions, name, then numbers: one part, sparse ones three, complex ones one more
part        a tag (type and size, 8 bytes, or 4 for small parts), then data up to a multiple of 8 bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from mmap import mmap

_CUT_OFF = "cannot be read as a MATLAB 5 file: it is cut off"
_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS, _TEXT = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13), (16, 17, 18)
_CELL, _STRUCT, _OBJECT, _CHARACTERS, _SPARSE = 1, 2, 3, 4, 5
_PLAIN = range(_CHARACTERS, 16)


def check_matlab(content: bytes | mmap) -> None:
    """Refuse all but MATLAB 5 files with matrices of numbers or characters; version 4 is not checked.

    Raises:
        ValueError: with what was expected.
    """
    if 0 in content[:4]:  # version 4
        return
    order = "<" if content[126:128] == b"IM" else ">"
    start = _HEADER
    while start + 8 <= len(content):
        part_type, size = struct.unpack_from(f"{order}II", content, start)
        start += 8 + size
        if start > len(content):
            raise ValueError(_CUT_OFF)
        body = content[start - size : start]
        if part_type == _COMPRESSED:
            body = _decompressed(body)
            part_type, size = struct.unpack_from(f"{order}II", body)
            body = body[8 : 8 + size]
        if part_type != _MATRIX:
            raise ValueError(f"expected a matrix, got a part of type {part_type}")
        _check_matrix(body, order)


def _decompressed(body: bytes) -> bytes:
    try:
        content = zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(f"cannot be read as a MATLAB 5 file: {error}") from None
    if len(content) < 8:
        raise ValueError(_CUT_OFF)
    return content


def _check_matrix(body: bytes, order: str) -> None:
    if len(body) < 16:
        raise ValueError(_CUT_OFF)
    (flags,) = struct.unpack_from(f"{order}I", body, 8)
    matrix_class, is_complex = flags & 0xFF, flags >> 11 & 1
    if matrix_class not in _PLAIN:
        names = {_CELL: "cells", _STRUCT: "a struct", _OBJECT: "an object"}
        name = names.get(matrix_class, f"class {matrix_class}")
        raise ValueError(f"expected a matrix of real numbers, got {name}")
    count = 2 + (3 if matrix_class == _SPARSE else 1) + is_complex
    _, _, *part_types = _part_types(body, order, count)
    known = (*_NUMBERS, *_TEXT) if matrix_class == _CHARACTERS else _NUMBERS
    wrong = [part_type for part_type in part_types if part_type not in known]
    if wrong:
        raise ValueError(f"expected numbers, got a part of type {wrong[0]}")


def _part_types(body: bytes, order: str, count: int) -> Iterator[int]:
    """Yield the types of the first parts behind a matrix's flags."""
    start = 16
    for _ in range(count):
        if start + 8 > len(body):
            raise ValueError(_CUT_OFF)
        part_type, size = struct.unpack_from(f"{order}II", body, start)
        if part_type >> 16:  # a small part: its size is in the upper half of the first number
            part_type, size = part_type & 0xFFFF, 0
        start += 8 + (size + 7) // 8 * 8
        if start - (-size % 8) > len(body):
            raise ValueError(_CUT_OFF)
        yield part_type
