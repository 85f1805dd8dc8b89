"""Confidence intervals of F1: the bootstrap over documents, or over sentences.

Entities of one document are not independent of each other (least of all under a document term), so whole
documents are drawn, with replacement; the interval holds the middle 95 % of the F1 of the draws. Two
predictions are scored on the same draws, so that their difference has an interval of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gspen_ner.labels import Span
from gspen_ner.ner.metrics import Spans

DRAWS = 2000
FEWEST_DOCUMENTS = 20  # with fewer, an interval over documents would be too narrow to be believed
_AT_ONCE = 200  # draws


class Interval(NamedTuple):
    """The middle 95 %; both None where no draw has an F1."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Intervals:
    """Intervals of F1, of each type and, under None, over all.

    Args:
        unit: what was drawn: `"documents"` or `"sentences"`.
        draws: how often.
        systems: of each prediction.
        difference: of the last prediction's F1 less the first's; empty if there is only one.
        better: in which share of the draws the last prediction's F1 over all was higher; None likewise.
    """

    unit: str
    draws: int
    systems: list[dict[str | None, Interval]]
    difference: dict[str | None, Interval]
    better: float | None


def f1_intervals(
    gold: Spans, predictions: Sequence[Spans], documents: Sequence[int] | None, draws: int = DRAWS
) -> Intervals:
    """Intervals of the F1 of one or several predictions of the same sentences.

    Args:
        gold: entities of each sentence.
        predictions: entities of each sentence, by each system.
        documents: equal numbers for sentences of one document; None if the data do not tell.
        draws: how many.

    Example:
        >>> gold = [[Span(0, 1, "LOC")]] * 30
        >>> found = f1_intervals(gold, [gold[:15] + [[]] * 15, gold], None)
        >>> found.systems[1][None], found.better
        (Interval(low=1.0, high=1.0), 1.0)
    """
    if documents is None or len(set(documents)) < FEWEST_DOCUMENTS:
        unit, numbers = "sentences", np.arange(len(gold))
    else:
        unit, numbers = "documents", np.unique(documents, return_inverse=True)[1]
    types: list[str] = sorted({span.type for rows in (gold, *predictions) for row in rows for span in row})
    counts = np.stack([_counts(gold, rows, types, numbers) for rows in predictions])
    f1 = _drawn(counts, draws)
    keys: list[str | None] = [*types, None]
    difference: dict[str | None, Interval] = {}
    better = None
    if len(predictions) > 1:
        gains = f1[-1] - f1[0]
        difference = {key: _interval(gains[:, place]) for place, key in enumerate(keys)}
        better = float((gains[:, -1] > 0).mean())
    systems = [{key: _interval(rows[:, place]) for place, key in enumerate(keys)} for rows in f1]
    return Intervals(unit, draws, systems, difference, better)


class Gain(NamedTuple):
    """How much higher the F1 of one system is than another's, over sentences drawn with replacement."""

    interval: Interval
    better: float
    """In which share of the draws it is higher at all."""


def paired_gain(gold: Spans, before: Sequence[Spans], after: Sequence[Spans], draws: int = DRAWS) -> Gain:
    """The paired bootstrap over sentences of a difference of mean F1.

    Args:
        gold: entities of each sentence.
        before: entities of each sentence by one system, for each of its seeds.
        after: likewise by another, for the same seeds.
        draws: how many.

    Example:
        >>> gold = [[Span(0, 1, "LOC")]] * 30
        >>> paired_gain(gold, [[[]] * 30], [gold])
        Gain(interval=Interval(low=1.0, high=1.0), better=1.0)
    """
    types = sorted({span.type for rows in (gold, *before, *after) for row in rows for span in row})
    units = np.arange(len(gold))
    counts = np.stack([_counts(gold, rows, types, units)[:, -1:] for rows in (*before, *after)])
    f1 = np.nan_to_num(_drawn(counts, draws)[..., 0])
    gains = f1[len(before) :].mean(0) - f1[: len(before)].mean(0)
    return Gain(_interval(gains), float((gains > 0).mean()))


def _counts(
    gold: Spans, predicted: Spans, types: Sequence[str], units: Int[np.ndarray, " S"]
) -> Int[np.ndarray, "U K 2"]:
    """Of each unit and type, then of all types: right entities, and gold plus predicted ones."""
    counts = np.zeros((int(units.max(initial=-1)) + 1, len(types) + 1, 2), dtype=np.int64)
    place = {kind: number for number, kind in enumerate(types)}

    def add(unit: int, spans: Sequence[Span] | set[Span], column: int) -> None:
        for span in spans:
            counts[unit, [place[span.type], -1], column] += 1

    for unit, truth, found in zip(units.tolist(), gold, predicted, strict=True):
        add(unit, set(truth) & set(found), 0)
        add(unit, truth, 1)
        add(unit, found, 1)
    return counts


def _drawn(counts: Int[np.ndarray, "P U K 2"], draws: int) -> Float[np.ndarray, "P D K"]:
    """F1 of each prediction in each draw; not a number where there is nothing to score."""
    units, random = counts.shape[1], np.random.default_rng(0)
    flat = counts.astype(np.float64).transpose(1, 0, 2, 3).reshape(units, -1)
    sums = np.concatenate(
        [
            random.multinomial(units, np.full(units, 1 / units), size=min(_AT_ONCE, draws - first)) @ flat
            for first in range(0, draws, _AT_ONCE)
        ]
    ).reshape(draws, *counts.shape[:1], *counts.shape[2:])
    right, both = sums[..., 0], sums[..., 1]
    with np.errstate(invalid="ignore"):
        return (2 * right / both).transpose(1, 0, 2)


def _interval(values: Float[np.ndarray, " D"]) -> Interval:
    known = values[~np.isnan(values)]
    if not len(known):
        return Interval(None, None)
    low, high = np.quantile(known, (0.025, 0.975))
    return Interval(float(low), float(high))
