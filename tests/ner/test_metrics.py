"""Scores against counts by hand, strictness, and what two predictions and confidences are compared by."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Labels, Span
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import (
    Changes,
    assess,
    calibration,
    compare_errors,
    conll_f1,
    evaluate,
    span_f1,
)
from gspen_ner.ner.predictions import Prediction

TYPES = ("PER", "LOC", "MISC-2")


def entities(tags, scheme):
    """Every piece of a sentence whose tags are exactly those of an entity: no reading from left to right."""
    spans = set()
    for start in range(len(tags)):
        for end in range(start + 1, len(tags) + 1):
            for entity_type in TYPES:
                width = end - start
                if scheme == "BIO":
                    wanted = [f"B-{entity_type}"] + [f"I-{entity_type}"] * (width - 1)
                    goes_on = end < len(tags) and tags[end] == f"I-{entity_type}"
                else:
                    inner = [f"B-{entity_type}"] + [f"I-{entity_type}"] * (width - 2) + [f"E-{entity_type}"]
                    wanted = inner if width > 1 else [f"S-{entity_type}"]
                    goes_on = False
                if tags[start:end] == wanted and not goes_on:
                    spans.add((start, end, entity_type))
    return spans


def by_hand(gold, predicted, scheme, types):
    """Precision, recall, F1 and support of entities of these types."""
    right = claimed = true = 0
    for truth, guess in zip(gold, predicted, strict=True):
        wanted = {entity for entity in entities(truth, scheme) if entity[2] in types}
        answered = {entity for entity in entities(guess, scheme) if entity[2] in types}
        right, claimed, true = right + len(wanted & answered), claimed + len(answered), true + len(wanted)
    precision, recall = right / max(claimed, 1), right / max(true, 1)
    return precision, recall, 2 * right / max(claimed + true, 1), true


@st.composite
def tagged(draw, scheme):
    """Gold and predicted tags, mostly legal, often equal, sometimes not at all legal."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    prefixes = "BI" if scheme == "BIO" else "BIES"

    def sentence(length):
        tags = []
        while len(tags) < length:
            entity_type, width = chance.choice(TYPES), chance.choice([1, 1, 2, 3])
            pick = chance.random()
            if pick < 0.4:
                tags.append("O")
            elif pick < 0.55:
                tags.append(f"{chance.choice(prefixes)}-{entity_type}")
            elif scheme == "BIO":
                tags += [f"B-{entity_type}"] + [f"I-{entity_type}"] * (width - 1)
            else:
                inner = [f"B-{entity_type}"] + [f"I-{entity_type}"] * (width - 2) + [f"E-{entity_type}"]
                tags += inner if width > 1 else [f"S-{entity_type}"]
        return tags[:length]

    gold = [sentence(draw(st.integers(0, 8))) for _ in range(draw(st.integers(0, 5)))]
    predicted = [
        [tag if chance.random() < 0.8 else other for tag, other in zip(row, sentence(len(row)), strict=True)]
        for row in gold
    ]
    return gold, predicted


def as_tuple(score):
    return pytest.approx((score.precision, score.recall, score.f1, score.support))


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@given(data=st.data())
def test_scores_are_those_counted_by_hand(scheme, data):
    gold, predicted = data.draw(tagged(scheme))
    scores = conll_f1(gold, predicted, scheme)
    assert by_hand(gold, predicted, scheme, TYPES) == as_tuple(scores.micro)
    assert scores.f1 == scores.micro.f1
    occurring = {e[2] for rows in (gold, predicted) for row in rows for e in entities(row, scheme)}
    assert set(scores.types) == occurring
    for entity_type, score in scores.types.items():
        assert by_hand(gold, predicted, scheme, [entity_type]) == as_tuple(score)


def test_an_example_by_hand():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "B-LOC"]]
    score = conll_f1(gold, predicted)
    assert (score.micro.precision, score.micro.recall, score.micro.support) == (0.5, pytest.approx(2 / 3), 3)
    assert score.micro.f1 == pytest.approx(4 / 7)
    assert score.types["PER"].precision == 0.5
    assert score.types["PER"].recall == 1.0
    assert (score.types["LOC"].precision, score.types["LOC"].support) == (0.5, 2)


@pytest.mark.parametrize(
    ("scheme", "illegal"),
    [
        ("BIO", ["I-PER", "I-PER", "O"]),
        ("BIO", ["O", "I-PER", "O"]),
        ("BIOES", ["B-PER", "I-PER", "O"]),
        ("BIOES", ["E-PER", "I-PER", "O"]),
        ("BIOES", ["B-PER", "E-LOC", "O"]),
        ("BIOES", ["O", "O", "B-PER"]),
    ],
)
def test_illegal_tags_open_no_entity(scheme, illegal):
    plain = ["S-PER", "O", "O"] if scheme == "BIOES" else ["B-PER", "O", "O"]
    missed = conll_f1([plain], [illegal], scheme)
    assert (missed.micro.support, missed.f1, missed.micro.precision) == (1, 0, 0)
    assert conll_f1([plain, illegal], [plain, illegal], scheme).micro.support == 1
    assert conll_f1([illegal], [illegal], scheme).micro.support == 0


def test_an_entity_counts_only_whole_and_with_its_type():
    gold = [["B-PER", "I-PER", "I-PER"]]
    for predicted in (["B-PER", "I-PER", "O"], ["O", "B-PER", "I-PER"], ["B-LOC", "I-LOC", "I-LOC"]):
        assert conll_f1(gold, [predicted]).f1 == 0
    assert conll_f1(gold, gold).f1 == 1


@pytest.mark.parametrize("rows", [[], [[]], [["O"]], [["O", "O"], []]])
def test_without_entities_everything_is_zero(rows):
    score = conll_f1(rows, rows)
    assert (score.f1, score.micro.precision, score.micro.recall, score.micro.support) == (0, 0, 0, 0)
    assert score.types == {}


def test_one_side_without_entities():
    some, none = [["B-PER", "O"]], [["O", "O"]]
    assert conll_f1(some, none).micro.support == 1
    assert conll_f1(none, some).micro.support == 0
    assert conll_f1(some, none).f1 == conll_f1(none, some).f1 == 0


def test_types_that_nobody_predicts_give_no_warning(recwarn):
    conll_f1([["B-PER", "B-LOC"]], [["B-PER", "O"]])
    assert not recwarn.list


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [([["O"]], []), ([["O"]], [["O", "O"]]), ([["O"], ["O", "O"]], [["O", "O"], ["O"]]), ([], [["O"]])],
)
def test_tags_of_different_shape_are_refused(gold, predicted):
    with pytest.raises(ValueError, match="differ in shape"):
        conll_f1(gold, predicted)


@pytest.mark.parametrize("scheme", ["IOB1", "bio", ""])
def test_an_unknown_scheme_is_refused(scheme):
    with pytest.raises(ValueError, match=f"one of BIO, BIOES, got '{scheme}'"):
        conll_f1([["O"]], [["O"]], scheme)


def test_tags_may_be_tuples():
    assert conll_f1([("B-PER", "O")], [("B-PER", "O")]).f1 == 1


def test_spans_are_scored_like_their_tags():
    gold = [[Span(0, 2, "PER"), Span(2, 3, "PER")], []]
    predicted = [[Span(2, 3, "PER"), Span(0, 1, "PER")], [Span(0, 1, "LOC")]]
    tags = [["B-PER", "I-PER", "B-PER"], ["O"]], [["B-PER", "O", "B-PER"], ["B-LOC"]]
    assert span_f1(gold, predicted, [3, 1]) == conll_f1(*tags)


def test_spans_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        span_f1([[Span(0, 2, "PER")]], [[]], [1])
    with pytest.raises(ValueError, match="overlaps"):
        span_f1([[]], [[Span(0, 2, "PER"), Span(1, 2, "PER")]], [2])
    with pytest.raises(ValueError, match="zip"):
        span_f1([[]], [[]], [1, 2])


A, B, C, D = (
    Span(start, start + 1, entity_type) for start, entity_type in enumerate(["PER", "LOC", "ORG", "PER"])
)


def test_errors_are_fixed_broken_or_stay():
    # A: missed before, found after; B: found, then missed; C: missed by both; D: invented by both
    assert compare_errors([[A, B, C]], [[B, D]], [[A, D]]) == Changes(fixed=1, broken=1, same=2)
    assert compare_errors([[A], [B]], [[B], [B]], [[A], [B, C]]) == Changes(fixed=2, broken=1, same=0)
    assert compare_errors([], [], []) == Changes(0, 0, 0)


def test_the_same_entity_in_two_sentences_is_two_entities():
    assert compare_errors([[A], [A]], [[], []], [[A], []]) == Changes(fixed=1, broken=0, same=1)


sentences = st.lists(st.sets(st.sampled_from([A, B, C, D])), min_size=2, max_size=2)


@given(sentences, sentences, sentences)
def test_errors_add_up(gold, before, after):
    def errors(rows):
        return sum(len(truth ^ row) for truth, row in zip(gold, rows, strict=True))

    changes = compare_errors(*([sorted(row) for row in rows] for rows in (gold, before, after)))
    assert changes.fixed + changes.same == errors(before)
    assert changes.broken + changes.same == errors(after)
    assert compare_errors(gold, after, before) == Changes(changes.broken, changes.fixed, changes.same)


def scored(probability, right):
    return ([A], [ScoredSpan(A if right else B, probability)])


def calibrated(pairs, **options):
    rows = [scored(*pair) for pair in pairs]
    return calibration([gold for gold, _ in rows], [row for _, row in rows], **options)


def test_calibrated_confidences_have_no_error():
    pairs = [(0.75, k < 3) for k in range(4)] + [(0.25, k < 1) for k in range(4)] + [(1.0, True)] * 2
    result = calibrated(pairs)
    assert result.ece == 0
    assert result.bins == [(0.25, 0.25, 4), (0.75, 0.75, 4), (1.0, 1.0, 2)]


def test_the_error_is_the_mean_distance_of_confidence_and_accuracy():
    result = calibrated([(0.95, False), (0.95, True), (0.55, True), (0.55, True)])
    assert result.ece == pytest.approx(0.45)
    assert result.bins == [(0.55, 1.0, 2), (0.95, 0.5, 2)]
    assert calibrated([(1.0, False)]).ece == calibrated([(0.0, True)]).ece == 1


def test_zero_and_one_have_a_bin():
    assert calibrated([(0.0, False), (1.0, True)]).bins == [(0.0, 0.0, 1), (1.0, 1.0, 1)]
    assert calibrated([(1.0, True), (0.91, False)]).bins == [(pytest.approx(0.955), 0.5, 2)]
    assert calibrated([(0.0, True), (1.0, True)], bins=1).bins == [(0.5, 1.0, 2)]
    assert calibrated([(1.0000001, True)]).bins[0][2] == 1  # rounding in float32


def test_the_edge_of_a_bin_belongs_to_the_next():
    assert len(calibrated([(0.5, True), (0.49, True)], bins=2).bins) == 2
    assert len(calibrated([(0.5, True), (0.51, True)], bins=2).bins) == 1


def test_no_entities_are_calibrated():
    result = calibration([[A], []], [[], []])
    assert (result.ece, result.bins) == (0, [])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30), st.integers(1, 12))
def test_bins_hold_every_entity_once(pairs, bins):
    result = calibrated(pairs, bins=bins)
    assert sum(size for _, _, size in result.bins) == len(pairs)
    assert 0 <= result.ece <= 1
    assert [confidence for confidence, _, _ in result.bins] == sorted(c for c, _, _ in result.bins)


def test_an_assessment_contains_f1_exact_match_and_calibration():
    gold = [[A, B], [A], []]
    predicted = [[ScoredSpan(B, 0.9), ScoredSpan(A, 0.8)], [ScoredSpan(A, 0.5), ScoredSpan(C, 0.4)], []]
    assessment = assess(gold, predicted, [4, 4, 4])
    assert assessment.score.micro.precision == 0.75
    assert assessment.score.micro.recall == 1.0
    assert assessment.exact_match == pytest.approx(2 / 3)
    assert assessment.calibration.ece == pytest.approx((0.1 + 0.2 + 0.5 + 0.4) / 4)


def test_an_assessment_without_sentences():
    assessment = assess([], [], [])
    assert (assessment.score.f1, assessment.exact_match, assessment.calibration.ece) == (0, 0, 0)


class Constant:
    """A tagger that always says the same."""

    labels = Labels(("O", "B-X", "I-X"), "BIO")

    def __init__(self, system, entities, base_entities):
        self.system, self.answers = system, (entities, base_entities)

    def tag_sentences(self, sentences):
        return [Prediction(sentence.tokens, *self.answers, []) for sentence in sentences]


def test_the_base_model_is_scored_too_if_there_is_a_term():
    sentences = [TaggedSentence(("a",), ("B-X",), 0)]
    right = [ScoredSpan(Span(0, 1, "X"), 1.0)]
    alone = evaluate(Constant("struct", right, right), sentences)
    assert (alone.base.score.f1, alone.full, alone.changes) == (1, None, None)
    whole = evaluate(Constant("gspen", right, []), sentences)
    assert (whole.sentences, whole.base.score.f1, whole.full.score.f1) == (1, 0, 1)
    assert whole.changes == Changes(fixed=1, broken=0, same=0)


def test_invalid_tags_are_refused():
    with pytest.raises(ValueError, match="'X-PER' does not fit BIO"):
        conll_f1([["X-PER"]], [["B-PER"]], "BIO")


def test_a_type_may_have_the_name_of_an_average():
    assert set(conll_f1([["B-my avg"]], [["B-my avg"]]).types) == {"my avg"}
