"""Which types of entities are taken for which, or missed, or invented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.labels import Span
from gspen_ner.ner.metrics import Spans


@dataclass(frozen=True)
class Confusion:
    """Every gold entity is counted once, in the row of its type; what overlaps none, in `invented`.

    Args:
        types: of rows and columns.
        taken_for: entities of a type that were found with exactly their tokens and type (the diagonal) or
            with another type, whatever the tokens.
        boundaries: found with their type, but with other tokens.
        missed: of which no token was found.
        invented: predicted entities that overlap no gold entity which they could be counted with.
    """

    types: tuple[str, ...]
    taken_for: list[list[int]]
    boundaries: list[int]
    missed: list[int]
    invented: list[int]


def confusion(gold: Spans, predicted: Spans, types: Sequence[str]) -> Confusion:
    """Count the confusions of a prediction.

    Args:
        gold: entities of each sentence.
        predicted: likewise.
        types: all that occur, in the order wanted.

    Example:
        >>> gold = [[Span(0, 1, "LOC"), Span(2, 4, "PER")]]
        >>> found = confusion(gold, [[Span(0, 1, "PER"), Span(3, 4, "PER")]], ["LOC", "PER"])
        >>> found.taken_for, found.boundaries, found.missed, found.invented
        ([[0, 1], [0, 0]], [0, 1], [0, 0], [0, 0])
    """
    place = {kind: number for number, kind in enumerate(types)}
    table = [[0] * len(types) for _ in types]
    boundaries, missed, invented = [0] * len(types), [0] * len(types), [0] * len(types)
    for truth, found in zip(gold, predicted, strict=True):
        pairs = _matched(truth, found)
        for entity, match in pairs.items():
            if match is None:
                missed[place[entity.type]] += 1
            elif match.type == entity.type and match != entity:
                boundaries[place[entity.type]] += 1
            else:
                table[place[entity.type]][place[match.type]] += 1
        for entity in set(found) - set(pairs.values()):
            invented[place[entity.type]] += 1
    return Confusion(tuple(types), table, boundaries, missed, invented)


def _matched(gold: Sequence[Span], found: Sequence[Span]) -> dict[Span, Span | None]:
    """The predicted entity that each gold one is counted with: those that share most tokens first."""
    pairs = sorted(
        ((_shared(entity, other), entity, other) for entity in gold for other in found),
        key=lambda pair: (pair[1][:2] != pair[2][:2], -pair[0], pair[1:]),
    )
    matched: dict[Span, Span | None] = dict.fromkeys(gold)
    taken: set[Span] = set()
    for shared, entity, other in pairs:
        if shared and matched[entity] is None and other not in taken:
            matched[entity] = other
            taken.add(other)
    return matched


def _shared(one: Span, other: Span) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))
