"""Sentences to tag: of plain text, with blank lines between documents, or of files that are split already."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from gspen_ner.ner.files import (
    DOCUMENT_MARK,
    TaggedSentence,
    column_sentences,
    decode_lines,
    json_sentences,
    read_lines,
    tagged,
)

Item = TypeVar("Item")
_TOKEN = re.compile(
    r"""
    (?:[A-Z]\.)+(?![^\W_])                              # initials: U.S.
  | (?:Mr|Mrs|Ms|Dr|Prof|St|Inc|Corp|Ltd|Co|Jr|Sr|vs)\. # abbreviations
  | \d+(?:[.,:/-]\d+)*                                  # numbers, dates, scores
  | [^\W\d_]+(?:[-&][^\W\d_]+|'(?!s\b)[^\W\d_]+)*       # words, with hyphens and apostrophes inside
  | '[sS]\b                                             # the genitive
  | \w+ | \S
    """,
    re.VERBOSE,
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
LONGEST = 512
_ENDS = (".", "!", "?")


def tokenise(text: str) -> list[str]:
    """Tokens as newswire corpora have them: punctuation and genitives by themselves.

    Example:
        >>> tokenise("Mr. Halden's U.S. trip cost 3,500 euros.")
        ['Mr.', 'Halden', "'s", 'U.S.', 'trip', 'cost', '3,500', 'euros', '.']
    """
    return _TOKEN.findall(text)


class LocatedSentence(NamedTuple):
    """A sentence of a text: its tokens, the character each begins at, and the number of its document."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    document: int


def split_text(text: str) -> list[LocatedSentence]:
    """The same sentences as `read_text` gives of a text's lines, with their places in it.

    But none has more than LONGEST tokens: what has is a list or a table, and may come from anyone.

    Example:
        >>> split_text("Rome won.  Paris lost!")[1]
        LocatedSentence(tokens=('Paris', 'lost', '!'), starts=(11, 17, 21), document=0)
    """
    found: list[LocatedSentence] = []
    lines = (list(_TOKEN.finditer(text, *line.span())) for line in _LINE.finditer(text))
    for document, matches in _numbered(lines):
        tokens, starts = [match[0] for match in matches], [match.start() for match in matches]
        found += [
            LocatedSentence(tuple(tokens[part]), tuple(starts[part]), document)
            for part in _sentences(tokens, LONGEST)
        ]
    return found


def read_text(lines: Iterable[str]) -> list[TaggedSentence]:
    """Sentences of plain text; a blank line begins a new document.

    Example:
        >>> [s.tokens for s in read_text(["Rome won. Paris lost!", "", "Next."])]
        [('Rome', 'won', '.'), ('Paris', 'lost', '!'), ('Next', '.')]
    """
    found: list[TaggedSentence] = []
    for document, tokens in _numbered(map(tokenise, lines)):
        parts = [tuple(tokens[part]) for part in _sentences(tokens)]
        found += [TaggedSentence(part, ("O",) * len(part), document) for part in parts]
    return found


def read_untagged(
    source: str, kind: Literal["auto", "text", "conll", "jsonl"] = "auto", token_column: int = 0
) -> list[TaggedSentence]:
    """Sentences to tag, from a file or, if `source` is -, from standard input.

    Args:
        source: file name or -.
        kind: plain text, CoNLL columns (tags, if there are any, are not looked at) or JSON lines with
            `tokens`; `"auto"` goes by the name and the content.
        token_column: of CoNLL columns.
    """
    path = Path("<standard input>" if source == "-" else source)
    lines = decode_lines(path, sys.stdin.buffer.read()) if source == "-" else read_lines(path)
    if kind == "auto":
        kind = guess_kind(path, lines)
    if kind == "text":
        return read_text(lines)
    if kind == "jsonl":
        raw = json_sentences(path, lines, with_tags=False)
    else:
        raw = column_sentences(path, lines, token_column, tag_column=None)
    return tagged(path, list(raw), "BIO", strict=False).sentences


def guess_kind(path: Path, lines: Sequence[str]) -> Literal["text", "conll", "jsonl"]:
    """JSON if every line begins like it; columns if a document mark is there or all lines end in a tag."""
    filled = [line for line in lines if line.strip()]
    if path.suffix in (".jsonl", ".json") or (filled and all(line.startswith("{") for line in filled)):
        return "jsonl"
    if any(line.startswith(DOCUMENT_MARK) for line in filled):
        return "conll"
    columns = [line.split() for line in filled]
    same = len({len(row) for row in columns}) == 1 and len(columns[0]) > 1
    return "conll" if same and all(re.fullmatch(r"O|[BIES]-\S+", row[-1]) for row in columns) else "text"


def _numbered(lines: Iterable[list[Item]]) -> Iterator[tuple[int, list[Item]]]:
    """Lines that have tokens, each with the number of its document; lines without any part documents."""
    document, fresh = -1, True
    for line in lines:
        if line:
            document, fresh = document + fresh, False
            yield document, line
        else:
            fresh = True


def _sentences(tokens: list[str], longest: int | None = None) -> Iterator[slice]:
    """Cut behind a full stop that an upper-case letter or nothing follows, or behind so many tokens."""
    start = 0
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        ends = not following or (token in _ENDS and following[:1].isupper())
        if ends or position + 1 - start == longest:
            yield slice(start, position + 1)
            start = position + 1
