"""Whether a MATLAB 5 file is built as one.

scipy looks up the type of each part in a table without asking whether it is in there: a damaged file then
ends the process. So the tags of all parts are walked before; numbers are not looked at.

    file        header of 128 bytes, then parts: a matrix each, or a compressed one
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
    """Refuse what is no MATLAB 5 file of matrices of numbers or characters; version 4 is not looked at.

    Raises:
        ValueError: says what was expected.
    """
    if 0 in content[:4]:  # version 4
        return
    order = "<" if content[126:128] == b"IM" else ">"
    place = _HEADER
    while place + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        place += 8 + size
        if place > len(content):
            raise ValueError(_CUT_OFF)
        body = content[place - size : place]
        if kind == _COMPRESSED:
            body = _decompressed(body)
            kind, size = struct.unpack_from(f"{order}II", body)
            body = body[8 : 8 + size]
        if kind != _MATRIX:
            raise ValueError(f"expected a matrix, got a part of type {kind}")
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
    kind, is_complex = flags & 0xFF, flags >> 11 & 1
    if kind not in _PLAIN:
        names = {_CELL: "cells", _STRUCT: "a struct", _OBJECT: "an object"}
        raise ValueError(f"expected a matrix of real numbers, got {names.get(kind, f'class {kind}')}")
    _, _, *numbers = _parts(body, order, 2 + (3 if kind == _SPARSE else 1) + is_complex)
    known = (*_NUMBERS, *_TEXT) if kind == _CHARACTERS else _NUMBERS
    wrong = [found for found in numbers if found not in known]
    if wrong:
        raise ValueError(f"expected numbers, got a part of type {wrong[0]}")


def _parts(body: bytes, order: str, count: int) -> Iterator[int]:
    """The types of the first parts behind a matrix's flags."""
    place = 16
    for _ in range(count):
        if place + 8 > len(body):
            raise ValueError(_CUT_OFF)
        kind, size = struct.unpack_from(f"{order}II", body, place)
        if kind >> 16:  # a small part: its size is in the upper half of the first number
            kind, size = kind & 0xFFFF, 0
        place += 8 + (size + 7) // 8 * 8
        if place - (-size % 8) > len(body):
            raise ValueError(_CUT_OFF)
        yield kind
