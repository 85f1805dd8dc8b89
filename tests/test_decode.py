"""Span probabilities and span decoding against enumeration of all labellings and all sets of spans."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gspen_ner import Chain, Labels, Parts
from gspen_ner.decode import (
    ScoredSpan,
    best_non_overlapping,
    decode_spans,
    label_lists,
    likely_spans,
    path_probability,
    scored_entities,
    span_probabilities,
    wide_marginals,
)
from gspen_ner.labels import Span
from tests.oracle import enumerate_row
from tests.strategies import chain_batches

on_each_backend = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)

# Labels by their number; in many sets some label of a type is missing, or "O" is.
LABELS = {
    1: [Labels(("O",), "BIO"), Labels(("B-X",), "BIO"), Labels(("S-X",), "BIOES")],
    2: [Labels(("I-X", "B-X"), "BIO"), Labels(("O", "B-X"), "BIO"), Labels(("B-X", "E-X"), "BIOES")],
    3: [
        Labels(("O", "B-X", "I-X"), "BIO"),
        Labels(("B-Y", "O", "B-X"), "BIO"),
        Labels(("E-X", "I-X", "B-X"), "BIOES"),
        Labels(("O", "S-X", "S-Y"), "BIOES"),
    ],
    4: [
        Labels(("B-X", "I-X", "B-Y", "I-Y"), "BIO"),
        Labels(("I-X", "O", "B-X", "B-Y"), "BIO"),
        Labels(("I-Y", "B-X", "I-X", "O"), "BIO"),
        Labels(("S-X", "E-X", "I-X", "B-X"), "BIOES"),
        Labels(("O", "B-X", "E-X", "S-Y"), "BIOES"),
    ],
}
BIO = Labels(("O", "B-X", "I-X"), "BIO")
BIO2 = Labels(("O", "B-X", "I-X", "B-Y", "I-Y"), "BIO")
BIOES = Labels(("O", "B-X", "I-X", "E-X", "S-X"), "BIOES")


def all_spans(length, types):
    ends = itertools.combinations(range(length + 1), 2)
    return [Span(start, end, type) for start, end in ends for type in types]


def true_probabilities(theta, lengths, labels):
    """For each row: every span that fits into it, with its probability by enumeration."""

    @cache
    def spans(path):
        return set(labels.spans_of_indices(path))

    result = []
    for row in range(len(lengths)):
        truth = enumerate_row(theta, lengths, row)
        fitting = all_spans(int(lengths[row]), labels.types)
        result.append({s: truth.probability_of(lambda y, s=s: s in spans(tuple(y))) for s in fitting})
    return result


@st.composite
def labelled_chains(draw):
    """Unconstrained chains, or with random things forbidden, with labels to match."""
    batch = draw(chain_batches(max_batch=3, max_length=4, scale=draw(st.sampled_from([0.5, 3.0]))))
    return batch, draw(st.sampled_from(LABELS[batch.theta.nodes.shape[2]]))


@st.composite
def lawful_chains(draw, labels):
    """Chains that obey the scheme, with start and end; ragged, with NaN in the padding."""
    batch, length = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    chain = Chain(torch.randint(1, length + 1, (batch,), generator=random))
    nodes = 2 * torch.randn(batch, length, len(labels.names), generator=random, dtype=torch.float64)
    nodes[~chain.mask(length)] = torch.nan
    start, table, end = (torch.where(allowed, 0.0, -torch.inf).double() for allowed in labels.legal)
    return chain.potentials(nodes, table, start, end), chain


def assert_probabilities_are_true(theta, chain, labels):
    truth = true_probabilities(theta, chain.lengths, labels)
    actual = span_probabilities(theta, chain, labels, [list(row) for row in truth])
    for probabilities, row in zip(actual, truth, strict=True):
        assert probabilities == pytest.approx(list(row.values()), abs=1e-9)


@given(labelled_chains())
@on_each_backend
def test_span_probabilities_of_chains_that_may_break_the_scheme(backend, drawn):
    batch, labels = drawn
    assert_probabilities_are_true(batch.theta, batch.chain, labels)


@pytest.mark.parametrize("labels", [BIO, BIOES], ids=["BIO", "BIOES"])
@given(data=st.data())
@on_each_backend
def test_span_probabilities_of_chains_that_obey_the_scheme(labels, data):
    assert_probabilities_are_true(*data.draw(lawful_chains(labels)), labels)


def test_span_probabilities_without_edges():
    theta, chain = Parts(torch.randn(2, 3, 3).double()), Chain(torch.tensor([3, 2]))
    assert_probabilities_are_true(theta, chain, BIO)


def test_span_probabilities_of_single_precision_scores():
    theta, chain = Parts(2 * torch.randn(3, 4, 5), torch.randn(5, 5)), Chain(torch.tensor([4, 1, 3]))
    truth = true_probabilities(theta, chain.lengths, BIO2)
    actual = span_probabilities(theta, chain, BIO2, [list(row) for row in truth])
    for probabilities, row in zip(actual, truth, strict=True):
        assert probabilities == pytest.approx(list(row.values()), abs=1e-6)


def test_a_span_to_the_end_of_the_sentence_needs_no_next_tag():
    """Behind a short row's end there are scores that would let the span go on."""
    nodes = torch.zeros(2, 4, 3, dtype=torch.float64)
    nodes[:, 2:, 2] = 50.0
    theta, chain = Parts(nodes, torch.zeros(3, 3, dtype=torch.float64)), Chain(torch.tensor([2, 4]))
    short, long = span_probabilities(theta, chain, BIO, [[Span(0, 2, "X")], [Span(0, 2, "X")]])
    assert short == pytest.approx([1 / 9])
    assert long == pytest.approx([0.0], abs=1e-9)


def test_probabilities_come_in_the_order_of_the_spans():
    theta, chain = Parts(torch.randn(2, 4, 5).double()), Chain(torch.tensor([4, 4]))
    truth = true_probabilities(theta, chain.lengths, BIO2)
    spans = [list(truth[0])[::-1], [Span(2, 4, "Y"), Span(0, 1, "X"), Span(2, 4, "Y")]]
    actual = span_probabilities(theta, chain, BIO2, spans)
    for row in range(2):
        assert actual[row] == pytest.approx([truth[row][span] for span in spans[row]])


@given(chain_batches(max_batch=2, max_length=4), st.data())
def test_a_path_has_its_probability_whatever_its_labels_mean(batch, data):
    nodes, edges = wide_marginals(batch.theta, Chain(batch.lengths))
    label = st.integers(0, nodes.shape[2] - 1)
    for row, length in enumerate(batch.lengths.tolist()):
        start = data.draw(st.integers(0, length - 1))
        path = data.draw(st.lists(label, min_size=1, max_size=length - start))
        before, after = (data.draw(st.lists(label, unique=True)) for _ in range(2))
        end = start + len(path)

        def occurs(y, start=start, end=end, path=path, before=before, after=after, length=length):
            continued = (start and y[start - 1] in before) or (end < length and y[end] in after)
            return list(y[start:end]) == path and not continued

        truth = enumerate_row(batch.theta, batch.lengths, row).probability_of(occurs)
        sentence = nodes[row, :length], edges[row, : length - 1]
        actual = path_probability(*sentence, start, path, before, after)
        assert actual == pytest.approx(truth, abs=1e-6)


def test_an_unknown_type_has_probability_zero():
    theta, chain = Parts(torch.zeros(1, 2, 3)), Chain(torch.tensor([2]))
    assert span_probabilities(theta, chain, BIO, [[Span(0, 1, "ORG")]]) == [[0.0]]


def test_no_spans_have_no_probabilities():
    assert span_probabilities(Parts(torch.zeros(2, 2, 3)), Chain(torch.tensor([2, 2])), BIO, [[], []]) == [
        [],
        [],
    ]


@pytest.mark.parametrize("span", [Span(0, 3, "X"), Span(2, 3, "X"), Span(1, 1, "X"), Span(-1, 1, "X")])
def test_a_span_that_does_not_fit_its_row_is_refused(span):
    theta, chain = Parts(torch.zeros(2, 4, 3)), Chain(torch.tensor([4, 2]))
    with pytest.raises(ValueError, match=r"row 1: .* does not fit into 2 tokens"):
        span_probabilities(theta, chain, BIO, [[Span(0, 4, "X")], [span]])


def test_spans_for_another_number_of_sentences_are_refused():
    with pytest.raises(ValueError, match="spans must be given for 2 sentences, got 1"):
        span_probabilities(Parts(torch.zeros(2, 2, 3)), Chain(torch.tensor([2, 2])), BIO, [[]])


@given(labelled_chains(), st.floats(1e-3, 1.0))
@on_each_backend
def test_likely_spans_are_all_that_are_likely_enough(backend, drawn, minimum):
    batch, labels = drawn
    truth = true_probabilities(batch.theta, batch.lengths, labels)
    # also the hardest minimum for each row's likeliest long spans: one that they just reach
    reached = [p - 1e-6 for row in truth for span, p in row.items() if span.end - span.start > 1 and p > 0.01]
    for least in (minimum, *sorted(reached)[-3:]):
        actual = likely_spans(batch.theta, batch.chain, labels, least)
        assert len(actual) == len(truth)
        for row, spans in zip(truth, actual, strict=True):
            assert {span for span, p in row.items() if p >= least + 1e-9} <= {span for span, _ in spans}
            assert len({span for span, _ in spans}) == len(spans)
            for span, probability in spans:
                assert probability == pytest.approx(row[span], abs=1e-9)
                assert probability >= least


@pytest.mark.parametrize(("labels", "path"), [(BIO, [1, 2, 2, 2, 0]), (BIOES, [1, 2, 2, 3, 0])])
def test_a_long_span_is_found_though_no_shorter_one_is_likely(labels, path):
    nodes = 20 * torch.nn.functional.one_hot(torch.tensor([path]), len(labels.names)).double()
    ((actual,),) = likely_spans(Parts(nodes), Chain(torch.tensor([5])), labels, 0.9)
    assert actual.span == Span(0, 4, "X")
    assert actual.probability == pytest.approx(1.0, abs=1e-6)


def test_without_a_minimum_all_spans_that_fit_are_found():
    theta = Parts(torch.randn(2, 4, 3).double(), torch.randn(3, 3).double())
    chain = Chain(torch.tensor([4, 2]))
    for length, spans in zip((4, 2), likely_spans(theta, chain, BIO, 0.0), strict=True):
        assert sorted(span for span, _ in spans) == sorted(all_spans(length, ["X"]))


def test_the_probabilities_of_all_spans_sum_to_the_expected_number_of_openings():
    chain = Chain(torch.tensor([40, 23, 1]))
    theta = Parts(torch.randn(3, 40, 5).double(), torch.randn(5, 5).double())
    opened = chain.marginals(theta).nodes[:, :, [1, 3]].sum((1, 2))
    spans = likely_spans(theta, chain, BIO2, 1e-12)
    assert [sum(p for _, p in row) for row in spans] == pytest.approx(opened.tolist(), abs=1e-6)


@st.composite
def candidate_lists(draw):
    narrow = [span for span in all_spans(8, ["X", "Y"]) if span.end - span.start <= 4]
    spans = draw(st.lists(st.sampled_from(narrow), min_size=4, max_size=8, unique=True))
    return [ScoredSpan(span, draw(st.integers(1, 40)) / 40) for span in spans]


def overlap(first, second):
    return first.start < second.end and second.start < first.end


def non_overlapping_subsets(candidates):
    for size in range(len(candidates) + 1):
        for subset in itertools.combinations(candidates, size):
            if not any(overlap(a.span, b.span) for a, b in itertools.combinations(subset, 2)):
                yield subset


@given(candidate_lists(), st.floats(0, 0.6))
def test_the_best_spans_without_overlap_are_best_among_all_subsets(candidates, threshold):
    def gain(spans):
        return sum(probability - threshold for _, probability in spans)

    chosen = best_non_overlapping(candidates, threshold)
    assert set(chosen) <= set(candidates)
    assert not any(overlap(a.span, b.span) for a, b in itertools.combinations(chosen, 2))
    assert chosen == sorted(chosen)  # as they stand in the sentence
    assert all(probability > threshold for _, probability in chosen)
    assert gain(chosen) == pytest.approx(max(map(gain, non_overlapping_subsets(candidates))), abs=1e-12)


@given(data=st.data(), threshold=st.floats(0.02, 0.9))
@on_each_backend
def test_decoding_at_a_threshold_is_best_among_all_spans(data, threshold):
    theta, chain = data.draw(lawful_chains(BIOES))
    truth = true_probabilities(theta, chain.lengths, BIOES)
    for row, chosen in zip(truth, decode_spans(theta, chain, BIOES, threshold), strict=True):
        best = best_non_overlapping([ScoredSpan(span, p) for span, p in row.items()], threshold)
        gain = sum(row[span] - threshold for span, _ in chosen)
        assert gain == pytest.approx(sum(p - threshold for _, p in best), abs=1e-9)
        assert [p for _, p in chosen] == pytest.approx([row[span] for span, _ in chosen], abs=1e-9)


def expected_f1(chosen, truth):
    """By enumeration: chosen spans and true probabilities, a list and a dict for each row."""
    hits = sum(row[span] for spans, row in zip(chosen, truth, strict=True) for span, _ in spans)
    predicted, gold = sum(map(len, chosen)), sum(p for row in truth for p in row.values())
    return 2 * hits / (predicted + gold)


@pytest.mark.parametrize("labels", [BIO, BIOES], ids=["BIO", "BIOES"])
@given(data=st.data())
@settings(max_examples=20)
def test_no_threshold_beats_the_one_that_is_found(labels, data):
    theta, chain = data.draw(lawful_chains(labels))
    truth = true_probabilities(theta, chain.lengths, labels)
    reached = expected_f1(decode_spans(theta, chain, labels), truth)
    for threshold in np.linspace(0.05, 0.95, 19):
        assert reached >= expected_f1(decode_spans(theta, chain, labels, float(threshold)), truth) - 1e-9


def test_no_threshold_beats_the_one_that_is_found_on_an_unconstrained_chain():
    theta = Parts(1.5 * torch.randn(5, 4, 5).double(), torch.randn(5, 5).double())
    chain = Chain(torch.tensor([4, 2, 1, 3, 4]))
    truth = true_probabilities(theta, chain.lengths, BIO2)
    reached = expected_f1(decode_spans(theta, chain, BIO2), truth)
    scores = [expected_f1(decode_spans(theta, chain, BIO2, x / 100), truth) for x in range(5, 100)]
    assert reached >= max(scores) - 1e-9
    assert max(scores) > min(scores) + 0.1  # the threshold matters here


@pytest.mark.parametrize("seed", range(5))
def test_no_set_of_spans_has_a_higher_expected_f1(seed):
    random = torch.Generator().manual_seed(seed)
    theta = Parts(2 * torch.randn(1, 4, 3, generator=random).double())
    chain = Chain(torch.tensor([4]))
    truth = true_probabilities(theta, chain.lengths, BIO)
    candidates = [ScoredSpan(span, p) for span, p in truth[0].items()]
    best = max(expected_f1([subset], truth) for subset in non_overlapping_subsets(candidates))
    assert best > 0.1
    assert expected_f1(decode_spans(theta, chain, BIO), truth) == pytest.approx(best)


def test_two_good_spans_beat_a_better_one_across_both():
    first, second = ScoredSpan(Span(0, 2, "X"), 0.6), ScoredSpan(Span(2, 3, "Y"), 0.5)
    across = ScoredSpan(Span(1, 3, "X"), 0.65)
    assert best_non_overlapping([second, across, first], 0.3) == [first, second]
    assert best_non_overlapping([second, across, first], 0.49) == [across]
    assert best_non_overlapping([second, across, first], 0.65) == []
    assert best_non_overlapping([], 0.3) == []


def test_sentences_without_likely_spans_get_none():
    theta, chain = Parts(torch.tensor([20.0, 0.0, 0.0]).expand(2, 3, 3)), Chain(torch.tensor([3, 2]))
    assert decode_spans(theta, chain, BIO) == [[], []]
    assert decode_spans(theta, chain, BIO, 0.5) == [[], []]


@pytest.mark.parametrize("labels", [BIO, BIOES], ids=["BIO", "BIOES"])
@given(data=st.data())
@on_each_backend
def test_entities_are_those_of_the_likeliest_labelling(labels, data):
    theta, chain = data.draw(lawful_chains(labels))
    truth = true_probabilities(theta, chain.lengths, labels)
    for number, (row, entities) in enumerate(zip(truth, scored_entities(theta, chain, labels), strict=True)):
        labellings = enumerate_row(theta, chain.lengths, number)
        best = labellings.paths[labellings.scores.argmax()].tolist()
        assert [span for span, _ in entities] == labels.spans_of_indices(best)
        assert [p for _, p in entities] == pytest.approx([row[span] for span, _ in entities], abs=1e-9)


@given(labelled_chains())
@on_each_backend
def test_or_all_that_are_likelier_than_not(drawn):
    batch, labels = drawn
    truth = true_probabilities(batch.theta, batch.lengths, labels)
    found_in = scored_entities(batch.theta, batch.chain, labels, "spans")
    for row, entities in zip(truth, found_in, strict=True):
        actual = {span for span, _ in entities}
        assert actual >= {span for span, p in row.items() if p > 0.5 + 1e-6}
        assert actual <= {span for span, p in row.items() if p > 0.5 - 1e-6}
        places = [place for span in actual for place in range(span.start, span.end)]
        assert len(set(places)) == len(places)  # none overlap


def test_label_lists_leave_out_the_padding():
    labels = torch.tensor([[2, 0, 1], [1, -1, -1], [-1, -1, -1], [0, 0, -1]])
    assert label_lists(labels) == [[2, 0, 1], [1], [], [0, 0]]


def test_label_lists_of_a_decoded_batch_have_its_lengths():
    chain = Chain(torch.tensor([3, 1, 4]))
    theta = Parts(torch.randn(3, 4, 3), torch.randn(3, 3))
    best, lists = chain.argmax(theta), label_lists(chain.argmax(theta))
    assert [len(row) for row in lists] == [3, 1, 4]
    assert all(row == best[n, : len(row)].tolist() for n, row in enumerate(lists))
