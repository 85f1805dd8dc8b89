"""Tag schemes: spans <-> tags, strict reading, legal transitions, and what is refused."""

import itertools

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner import Labels, spans_of_tags
from gspen_ner.labels import Span, follows, tags_of_spans

TYPES = ("PER", "LOC", "MISC-2")
PREFIXES = {"BIO": "BI", "BIOES": "BIES"}
schemes = pytest.mark.parametrize("scheme", ["BIO", "BIOES"])


def all_names(scheme, types=TYPES):
    return ("O", *(f"{prefix}-{type}" for type in types for prefix in PREFIXES[scheme]))


@st.composite
def span_lists(draw):
    """Spans without overlaps, often side by side, and the length of their sentence."""
    segments = st.tuples(st.integers(1, 4), st.sampled_from([None, *TYPES]))
    spans, at = [], 0
    for width, type in draw(st.lists(segments, max_size=6)):
        if type is not None:
            spans.append(Span(at, at + width, type))
        at += width
    return spans, at


@st.composite
def nearly_legal(draw, scheme):
    """Spans, their sentence's length, and a few tags to put in: random tags are hardly ever legal."""
    spans, length = draw(span_lists())
    if not length:
        return spans, length, {}
    positions, tags = st.integers(0, length - 1), st.sampled_from(all_names(scheme))
    return spans, length, draw(st.dictionaries(positions, tags, max_size=3))


def tags_with_changes(drawn, scheme):
    spans, length, changes = drawn
    return [changes.get(at, tag) for at, tag in enumerate(tags_of_spans(spans, length, scheme))]


@pytest.fixture
def unchecked():
    """The package as its users have it: without the shape checks that only the tests switch on."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@schemes
@given(sentence=span_lists())
def test_spans_survive_being_written_as_tags(scheme, sentence):
    spans, length = sentence
    tags = tags_of_spans(spans, length, scheme)
    assert len(tags) == length
    assert set(tags) <= set(all_names(scheme))
    assert spans_of_tags(tags, scheme) == spans


@schemes
@given(sentence=span_lists(), shuffle=st.randoms(use_true_random=False))
def test_spans_may_be_given_in_any_order(scheme, sentence, shuffle):
    spans, length = sentence
    shuffled = shuffle.sample(spans, len(spans))
    assert tags_of_spans(shuffled, length, scheme) == tags_of_spans(spans, length, scheme)


def test_the_tags_of_each_scheme():
    spans = [Span(0, 1, "PER"), Span(1, 3, "PER"), Span(4, 7, "LOC")]
    assert tags_of_spans(spans, 7, "BIO") == ["B-PER", "B-PER", "I-PER", "O", "B-LOC", "I-LOC", "I-LOC"]
    assert tags_of_spans(spans, 7, "BIOES") == ["S-PER", "B-PER", "E-PER", "O", "B-LOC", "I-LOC", "E-LOC"]


@pytest.mark.parametrize(
    ("scheme", "tags", "spans"),
    [
        ("BIO", [], []),
        ("BIO", ["I-PER", "I-PER"], []),
        ("BIO", ["B-PER", "I-LOC"], [Span(0, 1, "PER")]),
        ("BIO", ["B-PER", "I-LOC", "I-PER"], [Span(0, 1, "PER")]),
        ("BIO", ["B-PER", "B-PER", "I-PER"], [Span(0, 1, "PER"), Span(1, 3, "PER")]),
        ("BIOES", ["B-PER", "I-PER"], []),
        ("BIOES", ["B-PER", "I-PER", "E-LOC"], []),
        ("BIOES", ["B-PER", "O", "E-PER"], []),
        ("BIOES", ["I-PER", "E-PER"], []),
        ("BIOES", ["S-PER", "E-PER"], [Span(0, 1, "PER")]),
        ("BIOES", ["B-PER", "E-PER", "I-PER", "E-PER"], [Span(0, 2, "PER")]),
        ("BIOES", ["B-PER", "B-PER", "E-PER"], [Span(1, 3, "PER")]),
        ("BIOES", ["B-PER", "S-PER"], [Span(1, 2, "PER")]),
    ],
)
def test_strict_reading_of_what_a_scheme_does_not_allow(scheme, tags, spans):
    assert spans_of_tags(tags, scheme) == spans


def spans_by_seqeval(tags, scheme):
    seqeval = pytest.importorskip("seqeval.scheme")
    actual = seqeval.Entities([list(tags)], {"BIO": seqeval.IOB2, "BIOES": seqeval.IOBES}[scheme])
    return [(entity.start, entity.end, entity.tag) for entity in actual.entities[0]]


@schemes
def test_all_short_tag_sequences_are_read_as_by_strict_seqeval(scheme):
    names = all_names(scheme, ("PER", "LOC"))
    for length in range(4):
        for tags in itertools.product(names, repeat=length):
            assert spans_of_tags(tags, scheme) == spans_by_seqeval(tags, scheme), tags


@schemes
@given(data=st.data())
def test_long_tag_sequences_are_read_as_by_strict_seqeval(scheme, data):
    for tags in (
        tags_with_changes(data.draw(nearly_legal(scheme)), scheme),
        data.draw(st.lists(st.sampled_from(all_names(scheme)), max_size=20)),
    ):
        assert spans_of_tags(tags, scheme) == spans_by_seqeval(tags, scheme)


def is_legal(labels, tags):
    at = [labels.names.index(tag) for tag in tags]
    steps = all(labels.legal.table[before, after] for before, after in itertools.pairwise(at))
    return not at or bool(labels.legal.start[at[0]] and steps and labels.legal.end[at[-1]])


def is_read_back(tags, scheme):
    return tags_of_spans(spans_of_tags(tags, scheme), len(tags), scheme) == list(tags)


@schemes
def test_short_tags_are_legal_exactly_if_their_spans_give_them_back(scheme):
    labels = Labels(all_names(scheme, ("PER", "LOC")), scheme)
    for length in range(4):
        for tags in itertools.product(labels.names, repeat=length):
            assert is_legal(labels, tags) == is_read_back(tags, scheme), tags


@schemes
@given(data=st.data())
def test_long_tags_are_legal_exactly_if_their_spans_give_them_back(scheme, data):
    labels, drawn = Labels(all_names(scheme), scheme), data.draw(nearly_legal(scheme))
    tags = tags_with_changes(drawn, scheme)
    assert is_legal(labels, tags) == is_read_back(tags, scheme)


@schemes
def test_the_tables_say_what_follows_says(scheme):
    names = all_names(scheme)[::-1]  # the order of the labels is the caller's
    start, table, end = Labels(names, scheme).legal
    assert start.dtype == table.dtype == end.dtype == torch.bool
    for row, before in enumerate(names):
        assert start[row] == follows("O", before, scheme)
        assert end[row] == follows(before, "O", scheme)
        for column, after in enumerate(names):
            assert table[row, column] == follows(before, after, scheme)


@pytest.mark.parametrize(
    ("before", "after", "bio", "bioes"),
    [
        ("O", "O", True, True),
        ("O", "B-PER", True, True),
        ("O", "I-PER", False, False),
        ("B-PER", "I-PER", True, True),
        ("B-PER", "I-LOC", False, False),
        ("B-PER", "O", True, False),
        ("B-PER", "B-PER", True, False),
        ("I-PER", "I-PER", True, True),
        ("I-PER", "B-LOC", True, False),
    ],
)
def test_what_may_follow_what(before, after, bio, bioes):
    assert follows(before, after, "BIO") == bio
    assert follows(before, after, "BIOES") == bioes


def test_labels_know_their_types_and_numbers():
    labels = Labels(("B-LOC", "O", "I-PER", "B-PER", "I-LOC"), "BIO")
    assert labels.types == ("LOC", "PER")
    assert labels.index("B", "PER") == 3
    assert labels.index("E", "PER") is None
    assert labels.index("B", "ORG") is None
    assert labels.spans_of_indices([3, 2, 1, 0]) == [Span(0, 2, "PER"), Span(3, 4, "LOC")]
    assert labels.spans(["B-PER", "I-PER", "O", "B-LOC"]) == [Span(0, 2, "PER"), Span(3, 4, "LOC")]


@pytest.mark.parametrize("name", ["E-PER", "S-PER", "X-PER", "PER", "B", "B-", "BPER", "b-PER", "", "O-PER"])
def test_a_label_that_does_not_fit_bio_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"label '{name}' does not fit BIO"):
        Labels(("O", "B-PER", name), "BIO")


def test_bioes_takes_its_own_prefixes_only():
    assert Labels(("E-PER", "S-PER"), "BIOES").types == ("PER",)
    with pytest.raises(ValueError, match="label 'L-PER' does not fit BIOES"):
        Labels(("O", "L-PER"), "BIOES")


@pytest.mark.parametrize("names", [("O", "B-PER", "O"), ("B-PER", "B-PER"), ()])
def test_doubled_or_missing_labels_are_refused(names):
    with pytest.raises(ValueError, match="distinct"):
        Labels(names, "BIO")


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="'IOB1'"):
        Labels(("O", "B-PER"), "IOB1")


@schemes
@pytest.mark.parametrize(
    "other", [Span(1, 2, "PER"), Span(2, 4, "LOC"), Span(0, 5, "LOC"), Span(1, 3, "PER")]
)
def test_overlapping_spans_are_refused(scheme, other):
    for spans in itertools.permutations([Span(1, 3, "PER"), other]):
        with pytest.raises(ValueError, match="overlaps"):
            tags_of_spans(spans, 6, scheme)


@schemes
@pytest.mark.parametrize(
    "span", [Span(-1, 1, "PER"), Span(2, 4, "PER"), Span(1, 1, "PER"), Span(2, 1, "PER")]
)
def test_a_span_outside_the_sentence_is_refused(scheme, span):
    with pytest.raises(ValueError, match="does not fit into a sentence of 3 tokens"):
        tags_of_spans([span], 3, scheme)
