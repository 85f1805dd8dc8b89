"""Document consistency against its formula, written out slowly, and which tokens it ties."""

import itertools
import math
from typing import get_args

import pytest
import torch

from gspen_ner import Context, DocumentConsistency, Parts, match_mentions
from gspen_ner.terms import RELATIONS
from gspen_ner.terms.document import pair_classes
from gspen_ner.terms.mentions import Relation, find_long_forms
from tests.terms.batches import awake, make_batch, make_documents


def document_by_hand(term, nodes, context, symmetric=True):
    """The header's formula by a double loop over tokens: the share of each sentence."""
    scores = [nodes.new_zeros(()) for _ in nodes]
    for name, agreement, support in zip(term.relations, term.agreement, term.support, strict=True):
        if symmetric:
            agreement, support = 0.5 * (agreement + agreement.T), 0.5 * (support + support.T)
        mentions = context.mentions[..., list(RELATIONS).index(name)]
        places = [(b, t) for b, t in context.mask.nonzero().tolist() if mentions[b, t] >= 0]
        for b, t in places:
            others = [nodes[c, u] for c, u in places if (c, u) != (b, t) and mentions[c, u] == mentions[b, t]]
            if others:
                k, total = len(others), torch.stack(others).sum(0)
                share = nodes[b, t] @ agreement @ (total / k) + nodes[b, t] @ support @ (total / math.sqrt(k))
                scores[b] = scores[b] + 0.5 * share
    return torch.stack(scores)


def with_mentions(context, mentions):
    return Context(context.mask, context.documents, mentions)


@pytest.mark.parametrize("relations", [["word"], ["shape", "word"], tuple(RELATIONS)])
def test_the_score_is_its_formula(relations):
    _, marginals, context = make_documents()
    term = awake(DocumentConsistency(3, relations))
    expected = document_by_hand(term, marginals.nodes, context)
    assert (expected != 0).all()
    torch.testing.assert_close(term(marginals, marginals, context), expected)


def test_symmetrising_changes_no_documents_score():
    term, marginals, context = make_documents()
    plain = document_by_hand(term, marginals.nodes, context, symmetric=False)
    scores = term(marginals, marginals, context)
    for document in (0, 4):
        rows = context.documents == document
        torch.testing.assert_close(scores[rows].sum(), plain[rows].sum())


def test_the_gradient_is_that_of_the_formula():
    term, marginals, context = make_documents()
    nodes = marginals.nodes.clone().requires_grad_()
    inputs, weights = [nodes, term.agreement, term.support], torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5])
    scores = term(Parts(nodes), Parts(nodes), context)
    expected = document_by_hand(term, nodes, context)
    actual = torch.autograd.grad((scores * weights).sum(), inputs)
    torch.testing.assert_close(actual, torch.autograd.grad((expected * weights).sum(), inputs))


def test_the_closed_form_of_the_gradient_is_the_gradient():
    term, marginals, context = make_documents()
    value, slope = term.value_and_grad(marginals, marginals, context)
    expected_value, expected = super(DocumentConsistency, term).value_and_grad(marginals, marginals, context)
    torch.testing.assert_close(value, expected_value)
    torch.testing.assert_close(slope.nodes, expected.nodes)
    assert slope.edges is None


def test_tokens_that_nothing_ties_score_zero():
    term, marginals, context = make_documents()
    alone = torch.arange(35 * len(RELATIONS)).reshape(5, 7, -1)
    alone = alone.masked_fill(torch.rand(alone.shape) < 0.3, -1)
    assert term(marginals, marginals, with_mentions(context, alone)).tolist() == [0.0] * 5


def test_no_mentions_score_zero():
    term, marginals, context = make_documents()
    context = with_mentions(context, torch.full_like(context.mentions, -1))
    assert term(marginals, marginals, context).tolist() == [0.0] * 5
    assert not term.value_and_grad(marginals, marginals, context)[1].nodes.any()


def test_the_order_of_sentences_does_not_matter():
    term, marginals, context = make_documents()
    order = torch.tensor([3, 0, 4, 2, 1])
    scores = term(marginals, marginals, context)
    moved = term(marginals.select(order), marginals.select(order), context.select(order))
    torch.testing.assert_close(moved, scores[order])


def test_other_documents_of_the_batch_do_not_matter():
    term, marginals, context = make_documents()
    scores = term(marginals, marginals, context)
    for document in (0, 4):
        rows = (context.documents == document).nonzero().flatten()
        few = marginals.select(rows)
        torch.testing.assert_close(term(few, few, context.select(rows)), scores[rows])


def test_the_numbers_of_mentions_only_tell_them_apart():
    term, marginals, context = make_documents()
    renamed = torch.where(context.mentions < 0, -1, 100 - 3 * context.mentions)
    other = with_mentions(context, renamed)
    torch.testing.assert_close(term(marginals, marginals, other), term(marginals, marginals, context))


def test_the_sentences_of_a_document_are_coupled():
    term, _, context = make_documents()
    assert torch.equal(term.groups(context), context.documents)
    assert term.groups(Context(context.mask)) is None


def test_a_context_without_mentions_is_refused():
    term, marginals, context = make_documents()
    with pytest.raises(ValueError, match="match_mentions"):
        term(marginals, marginals, Context(context.mask, context.documents))


LABELS = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"]


class TestSharedMatrices:
    def test_the_score_is_that_of_free_matrices_with_equal_entries(self):
        _, _, context = make_documents()
        marginals = Parts(make_batch(labels=len(LABELS))[1].nodes)
        shared = awake(DocumentConsistency(LABELS, matrices="shared"))
        free = awake(DocumentConsistency(len(LABELS)))
        for name in ("agreement", "support"):
            numbers, matrices = getattr(shared, name).data, getattr(free, name).data
            for row, column in itertools.product(range(len(LABELS)), repeat=2):
                matrices[:, row, column] = numbers[:, self.pair_class(LABELS[row], LABELS[column])]
        torch.testing.assert_close(shared(marginals, marginals, context), free(marginals, marginals, context))
        value, slope = shared.value_and_grad(marginals, marginals, context)
        expected_value, expected = super(DocumentConsistency, shared).value_and_grad(
            marginals, marginals, context
        )
        torch.testing.assert_close(value, expected_value)
        torch.testing.assert_close(slope.nodes, expected.nodes)

    @staticmethod
    def pair_class(one, other):
        """The class's number, counted out in the order of the header."""
        classes = ["O O", *(f"O {prefix}" for prefix in "BIES")]
        pairs = ["BB", "BI", "BE", "BS", "II", "IE", "IS", "EE", "ES", "SS"]
        classes += [f"same {pair}" for pair in pairs] + [f"two {pair}" for pair in pairs]
        if "O" in (one, other):
            name = " ".join(["O", max(one[0], other[0], key=lambda prefix: prefix != "O")])
        else:
            types = "same" if one[2:] == other[2:] else "two"
            name = f"{types} {''.join(sorted((one[0], other[0]), key='BIES'.index))}"
        return classes.index(name)

    def test_there_are_25_numbers_whatever_the_types(self):
        for labels in (["O", "B-A", "I-A"], LABELS):
            assert DocumentConsistency(labels, matrices="shared").agreement.shape == (8, 25)

    def test_other_names_of_types_change_nothing(self):
        renamed = [name.replace("PER", "Chemical").replace("LOC", "Disease") for name in LABELS]
        assert pair_classes(renamed) == pair_classes(LABELS)

    def test_labels_that_are_no_tags_get_no_evidence(self):
        _, _, context = make_documents()
        marginals = Parts(make_batch(labels=4)[1].nodes)
        term = awake(DocumentConsistency(["<unk>", "O", "B-PER", "I-PER"], matrices="shared"))
        slope = term.value_and_grad(marginals, marginals, context)[1].nodes
        assert not slope[..., 0].any()
        assert slope[..., 1:].any()

    def test_they_need_names(self):
        with pytest.raises(ValueError, match="names of the labels, got 3"):
            DocumentConsistency(3, matrices="shared")


@pytest.mark.parametrize("words", [["aspirin", "helps"], ["Aspirin", "helps"], ["東京", "1"]])
def test_the_default_relates_words_in_any_case_and_script(words):
    mentions = match_mentions([words, words], [0, 0])
    default = [list(RELATIONS).index(name) for name in DocumentConsistency(3).relations]
    assert (mentions[0, 0, default] >= 0).any()
    assert mentions[0, 0, default].equal(mentions[1, 0, default])


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ([], r"at least one relation, each once, got \[\]"),
        (["word", "word"], "at least one relation, each once, got .*'word', 'word'"),
        (["words"], 'relations must be "word", .* or "abbreviation", got \'words\''),
    ],
)
def test_bad_relations_are_refused(relations, message):
    with pytest.raises(ValueError, match=message):
        DocumentConsistency(3, relations)


def test_recipes_know_all_relations():
    assert get_args(Relation) == tuple(RELATIONS)


def test_inside_inference_mode():
    """As servers call it; the solver goes on with the gradient outside."""
    term, (_, marginals, mask) = awake(DocumentConsistency(3)), make_batch()
    with torch.inference_mode():
        context = Context(mask.mask, torch.zeros(5).long(), torch.zeros(5, 7, len(RELATIONS)).long())
        slope = term.value_and_grad(marginals, marginals, context)[1]
    assert not slope.nodes.is_inference()


# Which tokens are tied


def tied(relation, sentences, documents=None):
    """Groups of at least two tokens, as (sentence, place)."""
    documents = [0] * len(sentences) if documents is None else documents
    numbers = match_mentions(sentences, documents)[..., list(RELATIONS).index(relation)]
    groups = {}
    for row, place in (numbers >= 0).nonzero().tolist():
        groups.setdefault(int(numbers[row, place]), []).append((row, place))
    return sorted(group for group in groups.values() if len(group) > 1)


@pytest.mark.parametrize("documents", [[0, 0, 1], torch.tensor([0, 0, 1])])
def test_words_are_matched_without_case_by_document(documents):
    sentences = [["Paris", "beat", "eBay", "in", "PARIS", "."], ["paris", "Ebay", "3"], ["Paris", "U.N."]]
    mentions = match_mentions(sentences, documents)
    assert mentions.dtype == torch.int64
    assert mentions.shape == (3, 6, len(RELATIONS))
    assert tied("word", sentences, documents) == [[(0, 0), (0, 4)], [(0, 2), (1, 1)]]
    assert mentions[1, 0, 0] == -1
    assert (mentions[1, 3:] == -1).all()


def test_content_words_are_matched_also_without_an_upper_case_letter():
    sentences = [["Aspirin", "of", "mg", "aspirin"], ["ASPIRIN", "of", "mg", "12"]]
    assert tied("content_word", sentences) == [[(0, 0), (0, 3), (1, 0)]]
    assert tied("word", sentences) == [[(0, 0), (1, 0)]]
    assert tied("content_word_and_next", [["lung", "cancer", "of"], ["a", "lung", "cancer"]]) == [
        [(0, 0), (1, 1)]
    ]
    assert tied("previous_and_content_word", [["lung", "cancer"], ["a", "lung", "cancer"]]) == [
        [(0, 1), (1, 2)]
    ]


@pytest.mark.parametrize("word", ["東京", "京", "القاهرة", "ราชา"])
def test_scripts_without_case(word):
    assert tied("content_word", [[word, "1"], ["1", word]]) == [[(0, 0), (1, 1)]]
    assert tied("word", [[word], [word]]) == []


def test_words_with_the_same_stem():
    sentences = [["Tumours", "of", "the", "liver"], ["tumour", "livers", "live"]]
    assert tied("stem", sentences) == [[(0, 0), (1, 0)], [(0, 3), (1, 1)]]


def test_an_abbreviation_and_its_long_form():
    sentences = [
        ["chronic", "kidney", "disease", "(", "CKD", ")"],
        ["CKD", "is", "a", "disease"],
        ["ckd", "kidney"],
    ]
    assert tied("abbreviation", sentences) == [[(0, 0), (0, 1), (0, 2), (0, 4), (1, 0), (2, 0)]]
    assert tied("abbreviation", sentences, [0, 1, 2]) == [[(0, 0), (0, 1), (0, 2), (0, 4)]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acute heart failure ( AHF )", {0: "ahf", 1: "ahf", 2: "ahf"}),
        ("the heart rate ( HR ) rose", {1: "hr", 2: "hr"}),
        ("acetaminophen ( APAP )", {}),  # the letters have to occur in their order
        ("bright failure ( GF )", {}),  # the first letter has to begin a word
        ("inhibition of uptake ( IU )", {0: "iu", 2: "iu"}),  # "of" is no content word
        ("a long way ( see below )", {}),
        ("( CKD )", {}),
        ("chronic disease ( CD", {}),
    ],
)
def test_long_forms(text, expected):
    assert find_long_forms(text.split()) == expected


def test_words_with_the_same_neighbour():
    sentences = [["New", "York", "won"], ["In", "new", "York"], ["NEW", "york", "won"], ["York", "won"]]
    assert tied("word_and_next", sentences) == [[(0, 0), (2, 0)], [(0, 1), (3, 0)]]
    assert tied("previous_and_word", sentences) == [[(0, 1), (1, 2)]]


def test_rows_of_a_table_have_the_same_slots():
    sentences = [["1.", "Ajax", "31"], ["2.", "Vitesse", "9"], ["3.", "PSV", "25"], ["Ajax", "won"]]
    assert tied("slot", sentences) == [[(0, 1), (1, 1)]]
    assert tied("shape", sentences) == [[(0, 1), (1, 1), (3, 0)]]


def test_a_wide_slot_looks_further():
    sentences = [["at", "1", "Ajax", "0"], ["at", "2", "Vitesse", "9"], ["on", "3", "Utrecht", "5"]]
    assert tied("slot", sentences) == [[(0, 2), (1, 2), (2, 2)]]
    assert tied("wide_slot", sentences) == [[(0, 2), (1, 2)]]


@pytest.mark.parametrize("relation", RELATIONS)
def test_other_documents_have_other_numbers(relation):
    sentences = [["Rome", "Rome"], ["Rome", "Rome"], ["Rome", "Rome"]]
    for group in tied(relation, sentences, [1, 0, 1]):
        assert {row for row, _ in group} in ({0, 2}, {1})


def test_mentions_for_another_number_of_documents_are_refused():
    with pytest.raises(ValueError, match="each of 2 sentences, got 3"):
        match_mentions([["Rome"], ["Paris"]], [0, 0, 1])


def test_no_sentences():
    assert match_mentions([], []).shape == (0, 0, len(RELATIONS))
