"""Confidence intervals of F1 by the bootstrap over documents, or over sentences.

The entities of one document are not independent of each other (least of all under a document term), so whole
documents are drawn with replacement; the 95 % interval is the middle 95 % of the F1 over the draws. Several
systems are scored on the same draws, which gives an interval for the difference between them (paired).
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
FEWEST_DOCUMENTS = 20  # with fewer documents, their bootstrap interval would be too narrow to be reliable
_DRAWS_PER_BLOCK = 200


class Interval(NamedTuple):
    """A 95 % interval; both ends are None if no draw has a defined F1."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Intervals:
    """Intervals of F1 by entity type; the key None stands for all types.

    Args:
        unit: what was drawn: `"documents"` or `"sentences"`.
        draws: number of draws.
        systems: intervals of the F1 of each system.
        difference: intervals of the last system's F1 minus the first's; empty for a single system.
        better: share of draws in which the last system's F1 over all types is higher than the first's; None
            for a single system.
    """

    unit: str
    draws: int
    systems: list[dict[str | None, Interval]]
    difference: dict[str | None, Interval]
    better: float | None


def f1_intervals(
    gold: Spans, predictions: Sequence[Spans], documents: Sequence[int] | None, draws: int = DRAWS
) -> Intervals:
    """Return the F1 intervals of one or more systems on the same sentences.

    Args:
        gold: gold entities of each sentence.
        predictions: for each system, the predicted entities of each sentence.
        documents: document number of each sentence; None if the data do not mark documents.
        draws: number of draws; default 2,000.

    Example:
        >>> gold = [[Span(0, 1, "LOC")]] * 30
        >>> intervals = f1_intervals(gold, [gold[:15] + [[]] * 15, gold], None)
        >>> intervals.systems[1][None], intervals.better
        (Interval(low=1.0, high=1.0), 1.0)
    """
    if documents is None or len(set(documents)) < FEWEST_DOCUMENTS:
        unit, numbers = "sentences", np.arange(len(gold))
    else:
        unit, numbers = "documents", np.unique(documents, return_inverse=True)[1]
    types: list[str] = sorted({span.type for rows in (gold, *predictions) for row in rows for span in row})
    counts = np.stack([_counts(gold, rows, types, numbers) for rows in predictions])
    f1 = _f1_of_draws(counts, draws)
    keys: list[str | None] = [*types, None]
    difference: dict[str | None, Interval] = {}
    better = None
    if len(predictions) > 1:
        gains = f1[-1] - f1[0]
        difference = {key: _interval(gains[:, column]) for column, key in enumerate(keys)}
        better = float((gains[:, -1] > 0).mean())
    systems = [{key: _interval(rows[:, column]) for column, key in enumerate(keys)} for rows in f1]
    return Intervals(unit, draws, systems, difference, better)


class Gain(NamedTuple):
    """Gain of one system's F1 over another's: its interval, and the share of draws with a positive gain."""

    interval: Interval
    better: float


def paired_gain(gold: Spans, before: Sequence[Spans], after: Sequence[Spans], draws: int = DRAWS) -> Gain:
    """Return the gain in mean F1 over seeds, by a paired bootstrap over sentences.

    Args:
        gold: gold entities of each sentence.
        before: for each seed, the entities of each sentence that one system predicts.
        after: the same for the system it is compared with, for the same seeds.
        draws: number of draws; default 2,000.

    Example:
        >>> gold = [[Span(0, 1, "LOC")]] * 30
        >>> paired_gain(gold, [[[]] * 30], [gold])
        Gain(interval=Interval(low=1.0, high=1.0), better=1.0)
    """
    types = sorted({span.type for rows in (gold, *before, *after) for row in rows for span in row})
    units = np.arange(len(gold))
    counts = np.stack([_counts(gold, rows, types, units)[:, -1:] for rows in (*before, *after)])
    f1 = np.nan_to_num(_f1_of_draws(counts, draws)[..., 0])
    gains = f1[len(before) :].mean(0) - f1[: len(before)].mean(0)
    return Gain(_interval(gains), float((gains > 0).mean()))


def _counts(
    gold: Spans, predicted: Spans, types: Sequence[str], units: Int[np.ndarray, " S"]
) -> Int[np.ndarray, "U K 2"]:
    """Return counts by unit and type (last: all types) of correct and of gold plus predicted entities."""
    counts = np.zeros((int(units.max(initial=-1)) + 1, len(types) + 1, 2), dtype=np.int64)
    index = {entity_type: number for number, entity_type in enumerate(types)}

    def add(unit: int, spans: Sequence[Span] | set[Span], column: int) -> None:
        for span in spans:
            counts[unit, [index[span.type], -1], column] += 1

    for unit, gold_row, predicted_row in zip(units.tolist(), gold, predicted, strict=True):
        add(unit, set(gold_row) & set(predicted_row), 0)
        add(unit, gold_row, 1)
        add(unit, predicted_row, 1)
    return counts


def _f1_of_draws(counts: Int[np.ndarray, "P U K 2"], draws: int) -> Float[np.ndarray, "P D K"]:
    """Return the F1 of each system in each draw; NaN where a draw has no entities."""
    units, random = counts.shape[1], np.random.default_rng(0)
    flat = counts.astype(np.float64).transpose(1, 0, 2, 3).reshape(units, -1)
    sums = np.concatenate(
        [
            random.multinomial(units, np.full(units, 1 / units), size=min(_DRAWS_PER_BLOCK, draws - first))
            @ flat
            for first in range(0, draws, _DRAWS_PER_BLOCK)
        ]
    ).reshape(draws, *counts.shape[:1], *counts.shape[2:])
    correct, both = sums[..., 0], sums[..., 1]
    with np.errstate(invalid="ignore"):
        return (2 * correct / both).transpose(1, 0, 2)


def _interval(values: Float[np.ndarray, " D"]) -> Interval:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return Interval(None, None)
    low, high = np.quantile(defined, (0.025, 0.975))
    return Interval(float(low), float(high))
