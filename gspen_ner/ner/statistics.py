"""What a corpus holds, and what one should know about it before training."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass

from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedFile

LONG_SENTENCE = 250
FEW = 20


@dataclass(frozen=True)
class TypeCounts:
    """Entities of one type."""

    entities: int
    distinct: int
    longest: int


@dataclass(frozen=True)
class Description:
    """Counts of a corpus and the problems found in it."""

    source: str
    scheme: str
    sentences: int
    tokens: int
    documents: int | None
    """None if the source does not say where documents begin."""
    lengths: tuple[int, float, int]
    """Shortest, median and longest sentence, in tokens."""
    types: dict[str, TypeCounts]
    ambiguous: list[tuple[str, str]]
    """Names that occur with several types, and how often with which; the most frequent ones."""
    problems: list[str]


def describe(file: TaggedFile) -> Description:
    """Look through a corpus.

    Example:
        >>> from gspen_ner.ner.sources import read_source
        >>> describe(read_source("newswire:50:0")).documents
        50
    """
    names: dict[str, Counter[str]] = defaultdict(Counter)
    widths: dict[str, int] = Counter()
    for sentence in file.sentences:
        for start, end, kind in spans_of_tags(sentence.tags, "BIO"):
            names[" ".join(sentence.tokens[start:end])][kind] += 1
            widths[kind] = max(widths[kind], end - start)
    types = {
        kind: TypeCounts(
            sum(kinds[kind] for kinds in names.values()),
            sum(kind in kinds for kinds in names.values()),
            width,
        )
        for kind, width in sorted(widths.items())
    }
    lengths = [len(sentence.tokens) for sentence in file.sentences]
    several = sorted((kinds.total(), name) for name, kinds in names.items() if len(kinds) > 1)
    ambiguous = [
        (name, ", ".join(f"{kind} {count}" for kind, count in names[name].most_common()))
        for _, name in several[::-1][:10]
    ]
    return Description(
        str(file.path),
        file.scheme,
        len(file.sentences),
        sum(lengths),
        len({sentence.document for sentence in file.sentences}) if file.has_documents else None,
        (min(lengths), statistics.median(lengths), max(lengths)) if lengths else (0, 0, 0),
        types,
        ambiguous,
        list(_problems(file, types, lengths)),
    )


def _problems(file: TaggedFile, types: dict[str, TypeCounts], lengths: list[int]) -> list[str]:
    found = []
    if not file.sentences:
        return ["no sentences"]
    if file.repaired:
        lines = ", ".join(map(str, file.repaired_lines))
        found.append(f"{file.repaired} sentences are not legal {file.scheme} and were repaired; at {lines}")
    if not types:
        found.append("no entities")
    if not file.has_documents:
        found.append("no documents are marked: a document term has nothing to work with")
    rare = [f"{kind} ({counts.entities})" for kind, counts in types.items() if counts.entities < FEW]
    if rare:
        found.append(f"types with fewer than {FEW} entities: {', '.join(rare)}")
    if long := sum(length > LONG_SENTENCE for length in lengths):
        found.append(f"{long} sentences have more than {LONG_SENTENCE} tokens")
    doubled = len(file.sentences) - len({sentence.tokens for sentence in file.sentences})
    if doubled:
        found.append(f"{doubled} sentences repeat another one")
    return found
