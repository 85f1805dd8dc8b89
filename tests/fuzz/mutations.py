"""Broken files: valid ones with some bytes, lines or values changed, and bytes that never were a file."""

import gzip
import io
import json
import zipfile
from random import Random

ODD_TEXTS = (
    *(
        b"",
        b"\0",
        b"\n",
        b"\r",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xc2\x85",
        b"'",
        b'"',
        b"\\",
    ),
    *(b"{", b"}", b"[" * 3000, b'{"a":' * 2000, b"- " * 500, b"9" * 5000, b"-1", b"1e999", b"NaN", b"null"),
    *(
        b"0x10",
        b"\\ud800",
        b"<!DOCTYPE a>",
        b"&lol;",
        b"%",
        b"@data",
        b"-DOCSTART-",
        b"B-",
        b"I-\xe2\x80\xa8",
    ),
    *(b"../../x", b"/dev/zero", b"&a [*a, *a]", b"!!python/object/apply:os.abort []", b"<<: *a"),
    *(b"\x1f\x8b\x08", b"PK\x03\x04"),
)
ODD_VALUES = (
    *(None, True, -1, 0, 10**13, 10**400, 1e308, float("nan"), "", "\0", "../../x", "/etc/passwd", "\ud800"),
    *("x" * 300, [], {}, [None], [[[]]], {"a": 1}, {"": {}}, "a.b.c", "1", [1, 2, 3], ["a"], "newswire:1:1"),
)


def broken(valid: bytes, random: Random) -> bytes:
    """A file that is like a valid one, more or less; one in ten is of bytes that are like nothing."""
    if random.random() < 0.1:
        return random.randbytes(random.choice((0, 1, 7, 60, 600)))
    if random.random() < 0.2 and valid[:2] == b"\x1f\x8b":
        return gzip.compress(broken(gzip.decompress(valid), random), 1)
    if random.random() < 0.6 and valid[:4] == b"PK\x03\x04":
        return _broken_inside(valid, random)
    if random.random() < 0.4 and valid[:1] in b"{[":
        return _broken_json(valid, random)
    content = bytearray(valid)
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        random.choice((_flip, _cut, _insert, _repeat, _overwrite))(content, random)
    return bytes(content)


def _place(content: bytearray, random: Random) -> int:
    return random.randrange(len(content) + 1)


def _flip(content: bytearray, random: Random) -> None:
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _cut(content: bytearray, random: Random) -> None:
    start = _place(content, random)
    end = len(content) if random.random() < 0.3 else start + random.choice((1, 2, 8, 100))
    del content[start:end]


def _insert(content: bytearray, random: Random) -> None:
    start = _place(content, random)
    content[start:start] = random.choice(ODD_TEXTS) if random.random() < 0.8 else random.randbytes(4)


def _repeat(content: bytearray, random: Random) -> None:
    start, other = _place(content, random), _place(content, random)
    content[other:other] = content[start : start + random.choice((1, 4, 30, 400))]


def _overwrite(content: bytearray, random: Random) -> None:
    """Numbers in binary headers: sizes, counts and places."""
    start, width = _place(content, random), random.choice((1, 2, 4, 8))
    number = random.choice((0, 1, 2**7, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1)) % 2 ** (8 * width)
    content[start : start + width] = number.to_bytes(width, random.choice(("little", "big")))


def _broken_inside(valid: bytes, random: Random) -> bytes:
    """An archive that is sound, with one broken file in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(valid)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = random.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, broken(content, random) if name == chosen else content)
    return made.getvalue()


def _broken_json(valid: bytes, random: Random) -> bytes:
    """JSON that is sound, with a value that is not what is expected there."""
    lines = valid.splitlines()
    number = random.randrange(len(lines))
    whole = len(lines) > 1 and lines[0].strip() in (b"{", b"[")  # else JSON lines
    try:
        entries = json.loads(valid if whole else lines[number])
    except ValueError:
        return valid[: random.randrange(len(valid))]
    entries = _with_odd_value(entries, random)
    text = json.dumps(entries).encode()
    return text if whole else b"\n".join([*lines[:number], text, *lines[number + 1 :]])


def _with_odd_value(entries: object, random: Random) -> object:
    keys = (
        list(entries)
        if isinstance(entries, dict)
        else list(range(len(entries)))
        if isinstance(entries, list)
        else []
    )
    if not keys or random.random() < 0.15:
        return random.choice(ODD_VALUES)
    key = random.choice(keys)
    if random.random() < 0.1:
        del entries[key]
    elif random.random() < 0.1 and isinstance(entries, dict):
        entries[random.choice(("", "extra", "\ud800"))] = entries.pop(key)
    else:
        entries[key] = _with_odd_value(entries[key], random)
    return entries
