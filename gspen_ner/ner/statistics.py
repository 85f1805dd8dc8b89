"""Counts of a tagged corpus, and problems that one should know about before training on it."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedFile, TaggedSentence
from gspen_ner.terms.mentions import RELATIONS, mention_numbers

LONG_SENTENCE = 250
FEW_ENTITIES = 20


@dataclass(frozen=True)
class TypeCounts:
    """Entities of one type: how many, how many different ones, and tokens of the longest."""

    entities: int
    distinct: int
    longest: int


@dataclass(frozen=True)
class Related:
    """Tokens and entities that a relation relates to other tokens of their document."""

    tokens: int
    entities: int


@dataclass(frozen=True)
class Description:
    """Counts of a corpus, and its problems.

    Args:
        source: name of the corpus.
        scheme: tagging scheme.
        sentences: number of sentences.
        tokens: number of tokens.
        documents: number of documents; None if the source marks none.
        lengths: shortest, median and longest sentence, in tokens.
        types: counts of each entity type.
        ambiguous: up to ten names that occur with several types, most frequent first, and their counts.
        related: for each relation of a document term, how many tokens and entities it relates to others of
            their document; empty if the source marks no documents.
        problems: one sentence for each problem.
    """

    source: str
    scheme: str
    sentences: int
    tokens: int
    documents: int | None
    lengths: tuple[int, float, int]
    types: dict[str, TypeCounts]
    ambiguous: list[tuple[str, str]]
    related: dict[str, Related]
    problems: list[str]


def describe(file: TaggedFile) -> Description:
    """Return the counts and the problems of a corpus.

    Example:
        >>> from gspen_ner.ner.sources import read_source
        >>> describe(read_source("newswire:50:0")).documents
        50
    """
    names: dict[str, Counter[str]] = defaultdict(Counter)
    longest: dict[str, int] = Counter()
    for sentence in file.sentences:
        for start, end, entity_type in spans_of_tags(sentence.tags, "BIO"):
            names[" ".join(sentence.tokens[start:end])][entity_type] += 1
            longest[entity_type] = max(longest[entity_type], end - start)
    types = {
        entity_type: TypeCounts(
            sum(counts[entity_type] for counts in names.values()),
            sum(entity_type in counts for counts in names.values()),
            length,
        )
        for entity_type, length in sorted(longest.items())
    }
    lengths = [len(sentence.tokens) for sentence in file.sentences]
    ambiguous = sorted((counts.total(), name) for name, counts in names.items() if len(counts) > 1)
    return Description(
        str(file.path),
        file.scheme,
        len(file.sentences),
        sum(lengths),
        len({sentence.document for sentence in file.sentences}) if file.has_documents else None,
        (min(lengths), statistics.median(lengths), max(lengths)) if lengths else (0, 0, 0),
        types,
        [
            (name, ", ".join(f"{entity_type} {count}" for entity_type, count in names[name].most_common()))
            for _, name in ambiguous[::-1][:10]
        ],
        related_tokens(file.sentences) if file.has_documents else {},
        _problems(file, types, lengths),
    )


def related_tokens(sentences: Sequence[TaggedSentence]) -> dict[str, Related]:
    """Return what each relation of a document term relates; an entity is related if one of its tokens is.

    Example:
        >>> sentences = [TaggedSentence((word, "won"), ("B-PER", "O"), document=0) for word in ("Ann", "ANN")]
        >>> related_tokens(sentences)["word"]
        Related(tokens=2, entities=2)
    """
    numbered = mention_numbers([s.tokens for s in sentences], [s.document for s in sentences])
    related = {}
    for column, relation in enumerate(RELATIONS):
        rows = [[numbers[column] for numbers in row] for row in numbered]
        sizes = Counter(number for row in rows for number in row if number >= 0)
        entities = (
            any(sizes[number] > 1 for number in row[span.start : span.end])
            for row, sentence in zip(rows, sentences, strict=True)
            for span in spans_of_tags(sentence.tags, "BIO")
        )
        related[relation] = Related(sum(size for size in sizes.values() if size > 1), sum(entities))
    return related


def _problems(file: TaggedFile, types: dict[str, TypeCounts], lengths: list[int]) -> list[str]:
    if not file.sentences:
        return ["no sentences"]
    problems = []
    if file.repaired:
        lines = ", ".join(map(str, file.repaired_lines))
        problems.append(
            f"{file.repaired} sentences are not legal {file.scheme} and were repaired; the first begin at "
            f"lines {lines}"
        )
    if not types:
        problems.append("no entities")
    if not file.has_documents:
        problems.append("no document boundaries: a document term has no other sentences to use")
    rare = [f"{name} ({counts.entities})" for name, counts in types.items() if counts.entities < FEW_ENTITIES]
    if rare:
        problems.append(f"types with fewer than {FEW_ENTITIES} entities: {', '.join(rare)}")
    if long := sum(length > LONG_SENTENCE for length in lengths):
        problems.append(f"{long} sentences have more than {LONG_SENTENCE} tokens")
    repeated = len(file.sentences) - len({sentence.tokens for sentence in file.sentences})
    if repeated:
        problems.append(f"{repeated} sentences repeat another sentence")
    return problems
