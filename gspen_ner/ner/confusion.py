"""Confusion of entity types: which types are predicted for which, which entities are missed or spurious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.labels import Span
from gspen_ner.ner.metrics import Spans


@dataclass(frozen=True)
class Confusion:
    """Counts of matched and unmatched entities; each gold entity is counted once, in the row of its type.

    Args:
        types: entity types of the rows and columns.
        taken_for: [gold type][predicted type] counts. The diagonal counts exact matches; other cells count
            entities that were predicted with another type, with the same tokens or only some of them.
        boundaries: entities predicted with the right type but other tokens, by type.
        missed: gold entities of which no token was predicted, by type.
        invented: predicted entities that match no gold entity, by type.
    """

    types: tuple[str, ...]
    taken_for: list[list[int]]
    boundaries: list[int]
    missed: list[int]
    invented: list[int]


def confusion(gold: Spans, predicted: Spans, types: Sequence[str]) -> Confusion:
    """Count the confusions of predicted entities.

    Args:
        gold: gold entities of each sentence.
        predicted: predicted entities of each sentence.
        types: all entity types that occur, in the order of rows and columns.

    Example:
        >>> gold = [[Span(0, 1, "LOC"), Span(2, 4, "PER")]]
        >>> counts = confusion(gold, [[Span(0, 1, "PER"), Span(3, 4, "PER")]], ["LOC", "PER"])
        >>> counts.taken_for, counts.boundaries, counts.missed, counts.invented
        ([[0, 1], [0, 0]], [0, 1], [0, 0], [0, 0])
    """
    index = {entity_type: number for number, entity_type in enumerate(types)}
    table = [[0] * len(types) for _ in types]
    boundaries, missed, invented = [0] * len(types), [0] * len(types), [0] * len(types)
    for gold_row, predicted_row in zip(gold, predicted, strict=True):
        matches = _match(gold_row, predicted_row)
        for entity, match in matches.items():
            if match is None:
                missed[index[entity.type]] += 1
            elif match.type == entity.type and match != entity:
                boundaries[index[entity.type]] += 1
            else:
                table[index[entity.type]][index[match.type]] += 1
        for entity in set(predicted_row) - set(matches.values()):
            invented[index[entity.type]] += 1
    return Confusion(tuple(types), table, boundaries, missed, invented)


def _match(gold: Sequence[Span], predicted: Sequence[Span]) -> dict[Span, Span | None]:
    """Return the predicted entity matched with each gold entity: same tokens first, then most overlap."""
    pairs = sorted(
        ((_overlap(entity, other), entity, other) for entity in gold for other in predicted),
        key=lambda pair: (pair[1][:2] != pair[2][:2], -pair[0], pair[1:]),
    )
    matches: dict[Span, Span | None] = dict.fromkeys(gold)
    used: set[Span] = set()
    for overlap, entity, other in pairs:
        if overlap and matches[entity] is None and other not in used:
            matches[entity] = other
            used.add(other)
    return matches


def _overlap(first: Span, second: Span) -> int:
    """Return the number of tokens that two entities share."""
    return max(0, min(first.end, second.end) - max(first.start, second.start))
