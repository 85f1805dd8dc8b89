"""Reading sentences to tag: from plain text, which is split and tokenised, or from CoNLL and JSON files."""

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
    convert_to_bio,
    decode_lines,
    json_sentences,
    read_lines,
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
LONGEST_SENTENCE = 512
"""Maximum number of tokens of a sentence of `split_text`."""
_ENDS = (".", "!", "?")


def tokenise(text: str) -> list[str]:
    """Return the tokens of a text as in newswire corpora: punctuation and genitives are separate tokens.

    Example:
        >>> tokenise("Mr. Halden's U.S. trip cost 3,500 euros.")
        ['Mr.', 'Halden', "'s", 'U.S.', 'trip', 'cost', '3,500', 'euros', '.']
    """
    return _TOKEN.findall(text)


class LocatedSentence(NamedTuple):
    """A sentence of a text: its tokens, the character at which each begins, and its document number."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    document: int


def split_text(text: str) -> list[LocatedSentence]:
    """Return the sentences of a text with their character positions.

    The sentences are those of `read_text`, but cut after LONGEST_SENTENCE tokens: longer ones are lists or
    tables, and would exhaust the memory of a server.

    Example:
        >>> split_text("Rome won.  Paris lost!")[1]
        LocatedSentence(tokens=('Paris', 'lost', '!'), starts=(11, 17, 21), document=0)
    """
    sentences: list[LocatedSentence] = []
    lines = (list(_TOKEN.finditer(text, *line.span())) for line in _LINE.finditer(text))
    for document, matches in _number_documents(lines):
        tokens, starts = [match[0] for match in matches], [match.start() for match in matches]
        sentences += [
            LocatedSentence(tuple(tokens[part]), tuple(starts[part]), document)
            for part in _sentences(tokens, LONGEST_SENTENCE)
        ]
    return sentences


def read_text(lines: Iterable[str]) -> list[TaggedSentence]:
    """Return the sentences of plain text; a blank line starts a new document.

    Example:
        >>> [s.tokens for s in read_text(["Rome won. Paris lost!", "", "Next."])]
        [('Rome', 'won', '.'), ('Paris', 'lost', '!'), ('Next', '.')]
    """
    sentences: list[TaggedSentence] = []
    for document, tokens in _number_documents(map(tokenise, lines)):
        parts = [tuple(tokens[part]) for part in _sentences(tokens)]
        sentences += [TaggedSentence(part, ("O",) * len(part), document) for part in parts]
    return sentences


def read_untagged(
    source: str, file_format: Literal["auto", "text", "conll", "jsonl"] = "auto", token_column: int = 0
) -> list[TaggedSentence]:
    """Read sentences to tag from a file or from standard input.

    Args:
        source: path of a file, or - for standard input.
        file_format: plain text, CoNLL columns (tags are ignored) or JSON lines with `tokens`; `"auto"`, the
            default, detects it from the name and the content.
        token_column: index of the token column in CoNLL columns, negative from the end; default 0.
    """
    path = Path("<standard input>" if source == "-" else source)
    lines = decode_lines(path, sys.stdin.buffer.read()) if source == "-" else read_lines(path)
    if file_format == "auto":
        file_format = detect_format(path, lines)
    if file_format == "text":
        return read_text(lines)
    if file_format == "jsonl":
        raw = json_sentences(path, lines, with_tags=False)
    else:
        raw = column_sentences(path, lines, token_column, tag_column=None)
    return convert_to_bio(path, list(raw), "BIO", strict=False).sentences


def detect_format(path: Path, lines: Sequence[str]) -> Literal["text", "conll", "jsonl"]:
    """Return jsonl if all lines start with a brace, conll for -DOCSTART- or tags at line ends, else text."""
    filled = [line for line in lines if line.strip()]
    if path.suffix in (".jsonl", ".json") or (filled and all(line.startswith("{") for line in filled)):
        return "jsonl"
    if any(line.startswith(DOCUMENT_MARK) for line in filled):
        return "conll"
    columns = [line.split() for line in filled]
    same = len({len(row) for row in columns}) == 1 and len(columns[0]) > 1
    return "conll" if same and all(re.fullmatch(r"O|[BIES]-\S+", row[-1]) for row in columns) else "text"


def _number_documents(lines: Iterable[list[Item]]) -> Iterator[tuple[int, list[Item]]]:
    """Yield the lines that have tokens with their document number; lines without tokens end documents."""
    document, is_new = -1, True
    for line in lines:
        if line:
            document, is_new = document + is_new, False
            yield document, line
        else:
            is_new = True


def _sentences(tokens: list[str], longest: int | None = None) -> Iterator[slice]:
    """Cut after an end mark before an upper-case letter, at the end, and after `longest` tokens."""
    start = 0
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        ends = not following or (token in _ENDS and following[:1].isupper())
        if ends or position + 1 - start == longest:
            yield slice(start, position + 1)
            start = position + 1
