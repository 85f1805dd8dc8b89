"""Reading tagged sentences from files: CoNLL columns and JSON lines.

Files may be tagged in IOB1, BIO (IOB2) or BIOES; sentences are returned in strict BIO. Tag sequences that the
file's scheme does not allow are repaired and counted or, with `strict`, refused. A malformed line raises a
`ValueError` that names the file and the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from gspen_ner.labels import Span, spans_of_tags, tags_of_spans

FileScheme = Literal["auto", "IOB1", "BIO", "BIOES"]
DOCUMENT_MARK = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with tags in strict BIO, and the number of its document.

    Example:
        >>> TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0).spans
        [Span(start=0, end=1, type='PER')]
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document: int

    @property
    def spans(self) -> list[Span]:
        """The entities."""
        return spans_of_tags(self.tags, "BIO")


@dataclass(frozen=True)
class TaggedFile:
    """The sentences of one source.

    Args:
        path: name of the source.
        sentences: its sentences.
        scheme: tagging scheme of the source.
        repaired: number of sentences whose tags the scheme does not allow; default 0.
        has_documents: whether the source marks documents; otherwise each sentence is a document of its own.
        repaired_lines: line numbers at which the first ten repaired sentences begin.
    """

    path: Path
    sentences: list[TaggedSentence]
    scheme: str
    repaired: int = 0
    has_documents: bool = False
    repaired_lines: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class RawSentence:
    """A sentence as read, with the line at which it begins; `document` is -1 if the source marks none."""

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
    """Read CoNLL columns, or JSON lines if the file name ends in .jsonl or .json.

    JSON lines are objects with `tokens` and `tags` (lists of equal length) and, optionally, `document`.

    Args:
        path: file in UTF-8, with or without a byte order mark, with any line endings.
        token_column: index of the token column, negative from the end; default 0.
        tag_column: index of the tag column, negative from the end; None reads only tokens; default -1.
        scheme: tagging scheme of the file; `"auto"`, the default, detects it.
        strict: refuse tag sequences that the scheme does not allow instead of repairing them.
    """
    path = Path(path)
    lines = read_lines(path)
    if path.suffix in (".jsonl", ".json"):
        raw = json_sentences(path, lines, tag_column is not None)
    else:
        raw = column_sentences(path, lines, token_column, tag_column)
    return convert_to_bio(path, list(raw), scheme, strict)


def convert_to_bio(path: Path, raw: Sequence[RawSentence], scheme: FileScheme, strict: bool) -> TaggedFile:
    """Return sentences of any scheme as sentences in strict BIO.

    Args:
        path: name of the source, for errors.
        raw: its sentences, with unchecked tags and documents.
        scheme: tagging scheme of the sentences; `"auto"` detects it.
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
    scheme = _detect_scheme(raw) if scheme == "auto" else scheme
    sentences, repaired = [], []
    for number, sentence in enumerate(raw):
        spans, legal = _spans(sentence.tags, scheme)
        if not legal:
            if strict:
                raise ValueError(
                    f"{path}:{sentence.line}: the tags of this sentence are not legal {scheme}: "
                    f"{' '.join(sentence.tags)}"
                )
            repaired.append(sentence.line)
        document = sentence.document if sentence.document >= 0 else last + 1 + number
        tags = tags_of_spans(spans, len(sentence.tokens), "BIO")
        sentences.append(TaggedSentence(tuple(sentence.tokens), tuple(tags), document))
    return TaggedFile(path, sentences, scheme, len(repaired), last >= 0, repaired[:10])


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file."""
    try:
        return decode_lines(path, path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: a folder, expected a file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None


def decode_lines(path: Path, content: bytes) -> list[str]:
    """Return the lines of UTF-8 text, with or without a byte order mark, with any line endings."""
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
    """Yield the sentences of CoNLL columns: blank lines end sentences, -DOCSTART- lines start documents."""
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
        if len(columns) > width and "\t" in line:  # between tabs, a token may contain spaces
            by_tabs = re.findall(r"[^\t]*[^ \t][^\t]*", line)
            columns = [column.strip(" ") for column in by_tabs] if len(by_tabs) == width else columns
        minimum = 1 if tag_column is None else 2
        if len(columns) != width or width < minimum:
            raise ValueError(
                f"{path}:{number}: expected {max(width, minimum)} columns, got {len(columns)}: {line!r}"
            )
        try:
            token, tag = columns[token_column], "O" if tag_column is None else columns[tag_column]
        except IndexError:
            chosen = ", ".join(str(column) for column in (token_column, tag_column) if column is not None)
            raise ValueError(f"{path}:{number}: no such column ({chosen}), the line has {width}") from None
        _check_tag(path, number, tag)
        start = start if tokens else number
        tokens.append(token)
        tags.append(tag)


def json_sentences(path: Path, lines: Sequence[str], with_tags: bool) -> Iterator[RawSentence]:
    """Yield the sentences of JSON lines: objects with `tokens`, `tags` and, optionally, `document`."""
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
        if any(has_surrogates(tag) for tag in tags):
            raise ValueError(f"{path}:{number}: a tag contains a lone surrogate (half of a character)")
        if tokens:
            name = entry.get("document")
            if isinstance(name, list | dict):
                raise ValueError(f"{path}:{number}: expected 'document' to be a string or a number")
            document = -1 if name is None else documents.setdefault(str(name), len(documents))
            yield RawSentence(tokens, tags, document, number)


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return the JSON object in a line, or an empty one if the line contains another JSON value."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{number}: not JSON: {error}") from None
    return entry if isinstance(entry, dict) else {}


def check_tokens(path: Path, number: int, tokens: Any, name: str = "tokens") -> None:
    """Raise a `ValueError` unless `tokens` is a list of non-empty strings that UTF-8 can encode."""
    if not _strings(tokens):
        raise ValueError(f"{path}:{number}: expected an object with {name!r}, a list of strings")
    if "" in tokens:
        raise ValueError(f"{path}:{number}: a token is empty")
    if any(has_surrogates(token) for token in tokens):
        raise ValueError(f"{path}:{number}: a token contains a lone surrogate (half of a character)")


def has_surrogates(text: str) -> bool:
    """Return whether a text contains lone surrogates, which UTF-8 cannot encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_tag(path: Path, line: int, tag: object) -> None:
    if tag != "O" and not (isinstance(tag, str) and re.match("[BIES]-.", tag)):
        raise ValueError(f"{path}:{line}: {tag!r} is not a tag: expected 'O' or a tag such as 'B-PER'")


def _detect_scheme(sentences: Iterable[RawSentence]) -> FileScheme:
    """Return BIOES if E- or S- occur, IOB1 if B- only separates adjacent entities of a type, else BIO."""
    inner_starts = unneeded_begins = 0
    for sentence in sentences:
        before = "O"
        for tag in sentence.tags:
            if tag[0] in "ES":
                return "BIOES"
            same = before[2:] == tag[2:]
            inner_starts += tag[0] == "I" and not same
            unneeded_begins += tag[0] == "B" and not same
            before = tag
    return "IOB1" if inner_starts and not unneeded_begins else "BIO"


def _spans(tags: Sequence[str], scheme: FileScheme) -> tuple[list[Span], bool]:
    """Return the entities as seqeval reads them (each change of type starts one), and if tags are legal."""
    spans: list[Span] = []
    legal, start = True, None
    for position, tag in enumerate([*tags, "O"]):
        before = tags[position - 1] if position else "O"
        continues = tag[0] in "IE" and before[0] in "BI" and before[2:] == tag[2:]
        if start is not None and not continues:
            legal &= not (scheme == "BIOES" and before[0] in "BI")
            spans.append(Span(start, position, before[2:]))
            start = None
        if tag != "O" and not continues:
            legal &= scheme == "IOB1" or tag[0] in "BS"
            start = position
        legal &= scheme == "BIOES" or tag[0] not in "ES"
    return spans, legal
