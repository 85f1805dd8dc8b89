"""Bootstrap intervals: they hold the measured F1, follow its definition, and draw what they say."""

import numpy as np
import pytest

from gspen_ner.labels import Span
from gspen_ner.ner.intervals import FEWEST_DOCUMENTS, Interval, f1_intervals
from gspen_ner.ner.metrics import span_f1

A, B, X = Span(0, 1, "PER"), Span(2, 4, "LOC"), Span(5, 6, "PER")


def noisy(rows, share, seed):
    """Entities of which some are missed and some invented."""
    random = np.random.default_rng(seed)
    return [
        [span for span in row if random.random() > share] + ([X] if random.random() < share else [])
        for row in rows
    ]


GOLD = [[A, B] if number % 3 else [A] for number in range(120)]
WORSE, BETTER = noisy(GOLD, 0.4, 1), noisy(GOLD, 0.1, 2)


def test_intervals_hold_the_f1_that_was_measured():
    compared = f1_intervals(GOLD, [WORSE, BETTER], None)
    for rows, intervals in zip((WORSE, BETTER), compared.systems, strict=True):
        score = span_f1(GOLD, rows, [6] * len(GOLD))
        for entity_type, f1 in {
            None: score.f1,
            "PER": score.types["PER"].f1,
            "LOC": score.types["LOC"].f1,
        }.items():
            assert intervals[entity_type].low < f1 < intervals[entity_type].high
    low, high = compared.difference[None]
    assert 0 < low < high
    assert compared.better == 1


def test_an_interval_is_about_as_wide_as_the_spread_over_samples():
    """F1 of many samples like this one varies as much as the draws say."""
    random = np.random.default_rng(0)
    f1 = []
    for _ in range(300):
        answers = [
            row if right else [] for row, right in zip(GOLD, random.random(len(GOLD)) < 0.7, strict=True)
        ]
        hits, total = (sum(map(len, rows)) for rows in (answers, GOLD))
        f1.append(2 * hits / (hits + total))
    low, high = np.quantile(f1, (0.025, 0.975))
    (interval,) = (f1_intervals(GOLD, [answers], None).systems[0][None],)
    assert interval.high - interval.low == pytest.approx(high - low, rel=0.25)


def test_equal_predictions_do_not_differ():
    compared = f1_intervals(GOLD, [WORSE, WORSE], None)
    assert compared.difference[None] == (0, 0)
    assert compared.better == 0
    alone = f1_intervals(GOLD, [WORSE], None)
    assert (alone.difference, alone.better) == ({}, None)
    assert alone.systems[0] == compared.systems[0], "always the same draws"


def test_whole_documents_are_drawn_where_there_are_enough():
    documents = [number // 4 for number in range(len(GOLD))]
    lucky = [row if document % 2 else [] for row, document in zip(GOLD, documents, strict=True)]
    by_document, by_sentence = (f1_intervals(GOLD, [lucky], given) for given in (documents, None))
    assert (by_document.unit, by_sentence.unit) == ("documents", "sentences")
    widths = [
        intervals_of.systems[0][None].high - intervals_of.systems[0][None].low
        for intervals_of in (by_document, by_sentence)
    ]
    assert widths[0] > 1.5 * widths[1], "sentences of a document stand and fall together"
    few = [number % (FEWEST_DOCUMENTS - 1) for number in range(len(GOLD))]
    assert f1_intervals(GOLD, [lucky], few).unit == "sentences"


def test_types_that_occur_in_few_draws_or_none():
    gold = [[Span(0, 1, "RARE")], *GOLD]
    assert f1_intervals(gold, [gold], None).systems[0]["RARE"] == (1, 1)
    nothing = f1_intervals([[], []], [[[], []]], None)
    assert nothing.systems == [{None: Interval(None, None)}]
