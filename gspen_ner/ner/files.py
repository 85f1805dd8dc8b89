"""Reading tagged sentences from files: CoNLL columns and JSON lines.

Whatever scheme a file is tagged in (IOB1, IOB2, BIOES), sentences come out in strict BIO. Sequences that
the file's own scheme does not allow are repaired, and counted, or refused with `strict`; a malformed line
is an error that names file and line, and nothing is read of such a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from gspen_ner.labels import Span, tags_of_spans

FileScheme = Literal["auto", "IOB1", "BIO", "BIOES"]
DOCUMENT_MARK = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence in strict BIO, and the number of the document it stands in."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document: int


@dataclass(frozen=True)
class TaggedFile:
    """What was read from one file."""

    path: Path
    sentences: list[TaggedSentence]
    scheme: str
    repaired: int = 0
    """Sentences whose tags the file's scheme does not allow."""
    has_documents: bool = False
    """Whether the file says where documents begin; a sentence of none is a document of its own."""
    repaired_lines: list[int] = field(default_factory=list)
    """Where the first few of the repaired sentences begin."""


@dataclass(frozen=True)
class RawSentence:
    """A sentence as it stands in a source; `line` is where, `document` is -1 if nothing says which."""

    tokens: list[str]
    tags: list[str]
    document: int
    line: int


def read_tagged_file(
    path: str | Path,
    *,
    token_column: int = 0,
    tag_column: int | None = -1,
    scheme: FileScheme = "auto",
    strict: bool = False,
) -> TaggedFile:
    """Read CoNLL columns, or JSON lines if the name ends in .jsonl or .json.

    Args:
        path: the file, UTF-8 with or without a byte order mark, any line ends.
        token_column: which column holds the token; negative counts from the end.
        tag_column: which column holds the tag; None reads the tokens alone.
        scheme: how the file is tagged; `"auto"` finds out.
        strict: refuse tag sequences that the scheme does not allow instead of repairing them.

    JSON lines are objects with `tokens` and `tags` (lists of equal length) and, optionally, `document`.
    """
    path = Path(path)
    lines = read_lines(path)
    if path.suffix in (".jsonl", ".json"):
        raw = json_sentences(path, lines, tag_column is not None)
    else:
        raw = column_sentences(path, lines, token_column, tag_column)
    return tagged(path, list(raw), scheme, strict)


def tagged(path: Path, raw: Sequence[RawSentence], scheme: FileScheme, strict: bool) -> TaggedFile:
    """Sentences in strict BIO, whatever scheme they were tagged in.

    Args:
        path: what to call the source in errors.
        raw: its sentences, tags and documents unchecked.
        scheme: how they are tagged; `"auto"` finds out.
        strict: refuse tag sequences that the scheme does not allow instead of repairing them.
    """
    for sentence in raw:
        if len(sentence.tokens) != len(sentence.tags):
            raise ValueError(
                f"{path}:{sentence.line}: {len(sentence.tokens)} tokens but {len(sentence.tags)} tags"
            )
        for tag in sentence.tags:
            _check_tag(path, sentence.line, tag)
    last = max((sentence.document for sentence in raw), default=-1)
    found = _detect(raw) if scheme == "auto" else scheme
    sentences, repaired = [], []
    for number, sentence in enumerate(raw):
        spans, legal = _spans(sentence.tags, found)
        if not legal:
            if strict:
                raise ValueError(
                    f"{path}:{sentence.line}: the tags of this sentence are not legal {found}: "
                    f"{' '.join(sentence.tags)}"
                )
            repaired.append(sentence.line)
        document = sentence.document if sentence.document >= 0 else last + 1 + number
        tags = tags_of_spans(spans, len(sentence.tokens), "BIO")
        sentences.append(TaggedSentence(tuple(sentence.tokens), tuple(tags), document))
    return TaggedFile(path, sentences, found, len(repaired), last >= 0, repaired[:10])


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return decode_lines(path, path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: a folder, expected a file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None


def decode_lines(path: Path, content: bytes) -> list[str]:
    """The lines of UTF-8 text, with or without a byte order mark, whatever their ends."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start}): {error.reason}") from None
    return re.split(r"\r\n|\n|\r", text)  # splitlines would also break at \x85 and such


def column_sentences(
    path: Path,
    lines: Iterable[str],
    token_column: int,
    tag_column: int | None,
    first_line: int = 1,
    document: int = -1,
) -> Iterator[RawSentence]:
    """Sentences of columns; blank lines end them, and a line that begins with -DOCSTART- a document."""
    tokens: list[str] = []
    tags: list[str] = []
    start, width = 0, None
    for number, line in enumerate(chain(lines, [""]), first_line):
        columns = re.findall(r"[^ \t]+", line)  # other white space may be part of a token
        if not columns or DOCUMENT_MARK in (columns[0], *columns[token_column : token_column + 1 or None]):
            if tokens:
                yield RawSentence(tokens, tags, document, start)
                tokens, tags = [], []
            document += bool(columns)
            continue
        width = width or len(columns)
        least = 1 if tag_column is None else 2
        if len(columns) != width or width < least:
            raise ValueError(
                f"{path}:{number}: expected {max(width, least)} columns, got {len(columns)}: {line!r}"
            )
        try:
            token, tag = columns[token_column], "O" if tag_column is None else columns[tag_column]
        except IndexError:
            wanted = ", ".join(str(column) for column in (token_column, tag_column) if column is not None)
            raise ValueError(f"{path}:{number}: no such column ({wanted}), the line has {width}") from None
        _check_tag(path, number, tag)
        start = start if tokens else number
        tokens.append(token)
        tags.append(tag)


def json_sentences(path: Path, lines: Sequence[str], with_tags: bool) -> Iterator[RawSentence]:
    """Sentences of JSON lines: objects with `tokens`, `tags` and, if they say so, `document`."""
    documents: dict[object, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = json_object(path, number, line)
        tokens: Any = entry.get("tokens")
        check_tokens(path, number, tokens)
        tags: Any = entry.get("tags") if with_tags else ["O"] * len(tokens)
        if not _strings(tags) or len(tokens) != len(tags):
            raise ValueError(f"{path}:{number}: expected 'tags', a list of {len(tokens)} strings")
        if any(has_half_characters(tag) for tag in tags):
            raise ValueError(f"{path}:{number}: a tag has half of a character (a lone surrogate)")
        if tokens:
            name = entry.get("document")
            if isinstance(name, list | dict):
                raise ValueError(f"{path}:{number}: expected a name or number as 'document'")
            document = -1 if name is None else documents.setdefault(str(name), len(documents))
            yield RawSentence(tokens, tags, document, number)


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """The object that a line holds; an empty one if it holds something else."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{number}: not JSON: {error}") from None
    return entry if isinstance(entry, dict) else {}


def check_tokens(path: Path, number: int, tokens: Any, name: str = "tokens") -> None:
    """Refuse what is no list of tokens."""
    if not _strings(tokens):
        raise ValueError(f"{path}:{number}: expected an object with {name!r}, a list of strings")
    if "" in tokens:
        raise ValueError(f"{path}:{number}: a token is empty")
    if any(has_half_characters(token) for token in tokens):
        raise ValueError(f"{path}:{number}: a token has half of a character (a lone surrogate)")


def has_half_characters(text: str) -> bool:
    """Whether a text cannot be written as UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_tag(path: Path, line: int, tag: object) -> None:
    if tag != "O" and not (isinstance(tag, str) and re.match("[BIES]-.", tag)):
        raise ValueError(f"{path}:{line}: {tag!r} is no tag: expected 'O' or one such as 'B-PER'")


def _detect(sentences: Iterable[RawSentence]) -> FileScheme:
    """BIOES if E- or S- occur; IOB1 if B- stands only between two entities of one type; else BIO."""
    inner_starts = needless_begins = 0
    for sentence in sentences:
        before = "O"
        for tag in sentence.tags:
            if tag[0] in "ES":
                return "BIOES"
            same = before[2:] == tag[2:]
            inner_starts += tag[0] == "I" and not same
            needless_begins += tag[0] == "B" and not same
            before = tag
    return "IOB1" if inner_starts and not needless_begins else "BIO"


def _spans(tags: Sequence[str], scheme: FileScheme) -> tuple[list[Span], bool]:
    """Entities as scorers read them (any change of type begins one), and whether that was legal."""
    spans: list[Span] = []
    legal, start = True, None
    for position, tag in enumerate([*tags, "O"]):
        before = tags[position - 1] if position else "O"
        goes_on = tag[0] in "IE" and before[0] in "BI" and before[2:] == tag[2:]
        if start is not None and not goes_on:
            legal &= not (scheme == "BIOES" and before[0] in "BI")
            spans.append(Span(start, position, before[2:]))
            start = None
        if tag != "O" and not goes_on:
            legal &= scheme == "IOB1" or tag[0] in "BS"
            start = position
        legal &= scheme == "BIOES" or tag[0] not in "ES"
    return spans, legal
