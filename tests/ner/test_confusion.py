"""Confusion of types: every entity is counted, and counted once."""

from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.confusion import confusion

TYPES = ["LOC", "PER"]


def test_right_mistaken_cut_missed_and_invented():
    gold = [[Span(0, 1, "LOC"), Span(1, 2, "LOC"), Span(2, 4, "LOC"), Span(5, 6, "PER")]]
    answer = [[Span(0, 1, "LOC"), Span(1, 2, "PER"), Span(3, 4, "LOC"), Span(7, 8, "PER")]]
    counted = confusion(gold, answer, TYPES)
    assert counted.taken_for == [[1, 1], [0, 0]]
    assert counted.boundaries == [1, 0]
    assert counted.missed == [0, 1]
    assert counted.invented == [0, 1]


def test_exact_words_are_matched_first():
    gold = [[Span(0, 3, "LOC"), Span(3, 4, "PER")]]
    assert confusion(gold, [[Span(0, 1, "PER"), Span(1, 4, "LOC")]], TYPES).taken_for == [[0, 0], [0, 0]]
    counts = confusion([[Span(0, 1, "PER")]], [[Span(0, 1, "LOC")]], TYPES)
    assert counts.taken_for == [[0, 0], [1, 0]]


def test_one_prediction_over_two_entities_is_counted_with_one():
    counts = confusion([[Span(0, 1, "LOC"), Span(1, 3, "LOC")]], [[Span(0, 3, "LOC")]], TYPES)
    assert (counts.boundaries, counts.missed, counts.invented) == ([1, 0], [1, 0], [0, 0])


tags = st.lists(st.sampled_from(["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]), min_size=6, max_size=6)


@given(tags, tags)
def test_all_are_counted_once(gold, predicted):
    truth, answer = spans_of_tags(gold, "BIO"), spans_of_tags(predicted, "BIO")
    counts = confusion([truth], [answer], TYPES)
    for number, entity_type in enumerate(TYPES):
        row = sum(counts.taken_for[number]) + counts.boundaries[number] + counts.missed[number]
        assert row == sum(span.type == entity_type for span in truth)
    matched = sum(map(sum, counts.taken_for)) + sum(counts.boundaries)
    assert matched + sum(counts.invented) == len(answer)
    right = sum(counts.taken_for[number][number] for number in range(len(TYPES)))
    assert right == len(set(truth) & set(answer))
