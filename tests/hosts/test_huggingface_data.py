"""Sentences as rows, rows as batches, and a base model's scores kept on disk."""

from collections import Counter

import datasets
import numpy as np
import pytest
import torch

from gspen_ner.hosts.huggingface.config import BioView
from gspen_ner.hosts.huggingface.data import Collator, EpochBatches, as_dataset
from gspen_ner.hosts.huggingface.pieces import WordReader
from gspen_ner.hosts.huggingface.two_stages import with_potentials
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.scorers import Vocabulary
from gspen_ner.terms import RELATIONS
from gspen_ner.training.documents import prediction_batches
from tests.tiny import SENTENCES, make_batch, make_labels, make_model

DOCUMENTS = [sentence.document for sentence in SENTENCES]
LENGTHS = [len(sentence.tokens) for sentence in SENTENCES]
NAMES = [
    TaggedSentence(("Rome", "beat", "Paris"), ("B-ORG", "O", "B-ORG"), 7),
    TaggedSentence(("PARIS",), ("B-LOC",), 7),
    TaggedSentence(("In", "Rome"), ("O", "B-LOC"), 9),
]


class TestAsDataset:
    @pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
    def test_rows_hold_what_the_sentences_do(self, scheme):
        labels = make_labels(scheme)
        bio = BioView(labels)
        dataset = as_dataset(SENTENCES, bio)
        assert len(dataset) == len(SENTENCES)
        for row, sentence in zip(dataset, SENTENCES, strict=True):
            assert tuple(row["tokens"]) == sentence.tokens
            assert tuple(row["tags"]) == sentence.tags
            assert row["document"] == sentence.document
            assert tuple(bio.names[number] for number in row["labels"]) == sentence.tags

    def test_without_labels_types_need_not_be_known(self):
        dataset = as_dataset([TaggedSentence(("x",), ("B-NEVER",), 0)])
        assert "labels" not in dataset.column_names
        with pytest.raises(KeyError, match="NEVER"):
            as_dataset([TaggedSentence(("x",), ("B-NEVER",), 0)], BioView(make_labels()))

    def test_no_sentences_are_a_dataset_without_rows(self):
        assert len(as_dataset([], BioView(make_labels()))) == 0

    def test_mentions_are_the_same_word_in_the_same_document(self):
        mentions = [row[:: len(RELATIONS)] for row in as_dataset(NAMES)[:]["mentions"]]  # by words
        assert mentions[0][1] == -1, "no upper-case letter"
        assert mentions[0][2] == mentions[1][0]
        assert len({mentions[0][0], mentions[0][2], mentions[2][0], mentions[2][1]}) == 4


class TestCollator:
    def test_rows_are_padded_to_the_longest(self):
        model = make_model("struct")
        batch = make_batch(model)
        longest = max(LENGTHS)
        assert batch["lengths"].tolist() == LENGTHS
        assert batch["documents"].tolist() == DOCUMENTS
        for name in ("words", "spelling_at", "mentions", "labels"):
            assert batch[name].shape[:2] == (len(SENTENCES), longest)
            assert batch[name].dtype == torch.long
        for row, length in enumerate(LENGTHS):
            words = model.reader.vocabulary.word_numbers(SENTENCES[row].tokens)
            assert batch["words"][row].tolist() == words + [0] * (longest - length)
            assert (batch["mentions"][row, length:] == -1).all()

    def test_spellings_are_those_of_the_tokens(self):
        model = make_model("struct")
        batch = make_batch(model)
        for row, sentence in enumerate(SENTENCES):
            for position, token in enumerate(sentence.tokens):
                spelling = batch["spellings"][batch["spelling_at"][row, position]].tolist()
                expected = model.reader.vocabulary.spelling(token)
                assert spelling == expected + [0] * (len(spelling) - len(expected))

    @pytest.mark.parametrize("rows", [slice(None), slice(5, 20), slice(3, 4)])
    def test_mentions_are_renumbered_and_stay_equal_or_different(self, rows):
        model = make_model("struct")
        dataset = as_dataset(SENTENCES)
        given = [(at % len(RELATIONS), n) for row in dataset[rows]["mentions"] for at, n in enumerate(row)]
        batch = Collator.of(model)(dataset.select(range(len(SENTENCES))[rows]).to_list())
        found = [
            number
            for row, length in zip(batch["mentions"].tolist(), batch["lengths"].tolist(), strict=True)
            for numbers in row[:length]
            for number in enumerate(numbers)
        ]
        pairs = set(zip(given, found, strict=True))
        assert len(pairs) == len(set(given)) == len(set(found)), "one to one"
        assert ((0, -1), (0, -1)) in pairs
        assert max(number for _, number in found) < len(set(found)), "no larger than needed"

    def test_a_batch_in_which_every_token_is_a_mention(self):
        model = make_model("struct")
        rows = as_dataset([NAMES[1], NAMES[1]]).to_list()
        assert Collator.of(model)(rows)["mentions"][..., 0].tolist() == [[0], [0]]
        none = as_dataset([TaggedSentence(("a", "b"), ("O", "O"), 0)]).to_list()
        assert Collator.of(model)(none)["mentions"][..., 0].tolist() == [[-1, -1]]

    def test_a_batch_without_rows_is_refused(self):
        with pytest.raises(ValueError, match="at least one sentence"):
            Collator.of(make_model("struct"))([])


def counted(batches):
    return Counter(row for batch in batches for row in batch)


@pytest.mark.parametrize("groups", [None, DOCUMENTS], ids=["sentences", "documents"])
class TestEpochBatches:
    def test_every_row_comes_once_an_epoch(self, groups):
        batches = EpochBatches(groups, LENGTHS, 8)
        for epoch in range(4):
            batches.set_epoch(epoch)
            assert counted(batches) == Counter(range(len(LENGTHS)))

    def test_the_order_depends_on_seed_and_epoch_alone(self, groups):
        def order(seed, epoch):
            batches = EpochBatches(groups, LENGTHS, 8, seed)
            batches.set_epoch(epoch)
            return list(batches)

        assert order(1, 3) == order(1, 3)
        assert len({repr(order(seed, epoch)) for seed in range(2) for epoch in range(3)}) == 6
        batches = EpochBatches(groups, LENGTHS, 8, 1)
        list(batches)
        batches.set_epoch(3)
        assert list(batches) == order(1, 3), "what came before does not matter"

    @pytest.mark.parametrize("batch_size", [1, 7, 8, 1000])
    def test_every_epoch_has_as_many_batches_as_it_says(self, groups, batch_size):
        batches = EpochBatches(groups, LENGTHS, batch_size)
        for epoch in range(5):
            batches.set_epoch(epoch)
            found = list(batches)
            assert len(found) == len(batches)
            assert all(found), "none is empty"

    def test_each_epoch_takes_the_next_draw(self, groups):
        rows = len(LENGTHS)
        batches, single = (EpochBatches(groups, LENGTHS, 8, versions=draws) for draws in (3, 1))
        for epoch in range(7):
            batches.set_epoch(epoch)
            single.set_epoch(epoch)
            first = rows * (epoch % 3)
            assert list(batches) == [[first + row for row in batch] for batch in single]

    def test_prediction_sees_every_row_once(self, groups):
        for batch_size in (1, 8, 1000):
            assert counted(prediction_batches(groups, LENGTHS, batch_size)) == Counter(range(len(LENGTHS)))
        assert prediction_batches(None if groups is None else [], [], 8) == []


def test_documents_are_never_split():
    scattered = [DOCUMENTS[(7 * row) % len(DOCUMENTS)] for row in range(len(DOCUMENTS))]
    for groups in (DOCUMENTS, scattered):
        batches = EpochBatches(groups, LENGTHS, 8)
        for epoch in range(4):
            batches.set_epoch(epoch)
            found = [{groups[row] for row in batch} for batch in batches]
            assert sum(map(len, found)) == len(set(groups))
        found = [{groups[row] for row in batch} for batch in prediction_batches(groups, LENGTHS, 8)]
        assert sum(map(len, found)) == len(set(groups))


def test_batches_of_documents_are_of_similar_size():
    groups = [row // 9 for row in range(900)]
    sizes = [len(batch) for batch in EpochBatches(groups, [5] * 900, 18)]
    assert set(sizes) == {18}


def test_sentences_of_similar_length_share_a_batch():
    def padding(batches):
        return sum(max(LENGTHS[row] for row in batch) - LENGTHS[row] for batch in batches for row in batch)

    plain = [list(range(start, min(start + 8, len(LENGTHS)))) for start in range(0, len(LENGTHS), 8)]
    assert padding(EpochBatches(None, LENGTHS, 8)) < padding(plain) / 3
    assert padding(prediction_batches(None, LENGTHS, 8)) <= padding(EpochBatches(None, LENGTHS, 8))


class Counted:
    """A scorer's forward that counts."""

    def __init__(self, scorer):
        self.forward, self.calls = scorer.forward, 0
        scorer.forward = self

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.forward(*args, **kwargs)


def potentials(model, batch):
    with torch.no_grad():
        return model.eval().score(batch)


def scores_only(batch):
    return {name: batch[name] for name in ("nodes", "edges", "lengths") if name in batch}


class TestWithPotentials:
    @pytest.mark.parametrize("own_transitions", [False, True])
    @pytest.mark.parametrize(
        ("system", "transitions"), [("unary", "none"), ("struct", "shared"), ("struct", "bigram")]
    )
    def test_cached_scores_are_the_scorers_in_use(self, system, transitions, own_transitions, tmp_path):
        model = make_model(system, transitions, dropout=0.5).train()
        dataset = with_potentials(
            as_dataset(SENTENCES, model.bio), model, tmp_path, own_transitions=own_transitions
        )
        assert model.scorer.training, "as it was before"
        assert "tokens" not in dataset.column_names
        rows = list(range(3, 30))
        batch = Collator.of(model)(dataset.__getitems__(rows))
        assert "words" not in batch
        assert ("edges" in batch) == (transitions == "bigram" or (own_transitions and system == "struct"))
        plain = Collator.of(model)(as_dataset(SENTENCES, model.bio).select(rows).to_list())
        direct, polytope, _ = potentials(model, plain)
        reader = make_model(system, transitions, seed=99)  # whose own transitions are others
        cached, same, _ = potentials(
            reader if own_transitions or "edges" in batch else model, scores_only(batch)
        )
        assert type(polytope) is type(same)
        torch.testing.assert_close(
            same.log_partition(cached), polytope.log_partition(direct), atol=1e-4, rtol=1e-5
        )
        for row, length in enumerate(plain["lengths"].tolist()):
            torch.testing.assert_close(cached.nodes[row, :length], direct.nodes[row, :length])
        for name in ("lengths", "documents", "mentions", "labels"):
            assert torch.equal(batch[name], plain[name])

    def test_a_model_sees_cached_scores_as_it_sees_sentences(self, tmp_path):
        model = make_model("gspen")
        dataset = with_potentials(as_dataset(SENTENCES, model.bio), model, tmp_path)
        batch = Collator.of(model)(dataset.__getitems__(list(range(len(dataset)))))
        torch.testing.assert_close(model(**batch).loss, model(**make_batch(model)).loss)

    def test_draws_differ_and_can_be_repeated(self, tmp_path):
        model = make_model("struct", dropout=0.5)
        rows = as_dataset(SENTENCES)

        def nodes(draw, folder):
            return np.concatenate(with_potentials(rows, model, tmp_path / folder, draw)[:]["nodes"])

        found = [nodes(draw, "first") for draw in (None, 0, 1, 2)]
        for number, one in enumerate(found):
            for other in found[:number]:
                finite = np.isfinite(one)
                assert np.abs(one[finite] - other[finite]).mean() > 0.01
        torch.rand(5)  # whatever else was drawn in between
        np.testing.assert_array_equal(nodes(1, "second"), found[2])

    def test_drawing_does_not_touch_the_chance_of_others(self, tmp_path):
        model = make_model("struct", dropout=0.5)
        torch.manual_seed(11)
        expected = torch.rand(3)
        torch.manual_seed(11)
        with_potentials(as_dataset(SENTENCES[:3]), model, tmp_path, draw=0)
        assert torch.equal(torch.rand(3), expected)

    def test_the_scorer_runs_once_for_the_same_model_and_sentences(self, tmp_path):
        model = make_model("struct", dropout=0.5)
        rows = as_dataset(SENTENCES)
        counter = Counted(model.scorer)
        first = with_potentials(rows, model, tmp_path, draw=0)
        calls = counter.calls
        assert calls > 0
        second = with_potentials(as_dataset(SENTENCES), model, tmp_path, draw=0)
        assert counter.calls == calls
        for one, other in zip(first[:]["nodes"], second[:]["nodes"], strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(list(tmp_path.glob("*.arrow"))) == 1

    @pytest.mark.parametrize("change", ["weights", "sentences", "draw", "transitions"])
    def test_anything_else_gets_a_file_of_its_own(self, change, tmp_path):
        model = make_model("struct", dropout=0.5)
        with_potentials(as_dataset(SENTENCES), model, tmp_path)
        counter = Counted(model.scorer)
        sentences = SENTENCES[:-1] if change == "sentences" else SENTENCES
        if change == "weights":
            with torch.no_grad():
                model.scorer.emissions.bias[3] += 1e-3
        with_potentials(
            as_dataset(sentences),
            model,
            tmp_path,
            draw=0 if change == "draw" else None,
            own_transitions=change == "transitions",
        )
        assert counter.calls > 0
        assert len(list(tmp_path.glob("*.arrow"))) == 2

    @pytest.mark.parametrize("transitions", ["shared", "bigram"])
    def test_sentences_of_one_token(self, transitions, tmp_path):
        model = make_model("struct", transitions)
        ones = [TaggedSentence((word,), ("O",), number) for number, word in enumerate(["Rome", "won", "."])]
        dataset = with_potentials(as_dataset(ones, model.bio), model, tmp_path, own_transitions=True)
        batch = Collator.of(model)(dataset.__getitems__([0, 1, 2]))
        torch.testing.assert_close(model(**batch).loss, model(**make_batch(model, ones)).loss)

    def test_joined_draws_lie_one_behind_the_other(self, tmp_path):
        model = make_model("struct", dropout=0.5)
        rows = as_dataset(SENTENCES, model.bio)
        parts = [with_potentials(rows, model, tmp_path, draw) for draw in range(3)]
        whole = datasets.concatenate_datasets(parts)
        assert len(whole) == 3 * len(SENTENCES)
        for draw, part in enumerate(parts):
            np.testing.assert_array_equal(whole[draw * len(SENTENCES) + 4]["nodes"], part[4]["nodes"])
            assert whole[draw * len(SENTENCES) + 4]["tags"] == part[4]["tags"]
        assert isinstance(whole[0]["nodes"], np.ndarray), "reads fast"


def test_mentions_of_different_documents_are_never_one_whatever_their_numbers():
    first, second = (as_dataset([TaggedSentence(("Ann", "won"), ("O", "O"), number)]) for number in (0, 1))
    rows = [first[0], second[0]]
    assert rows[0]["mentions"] == rows[1]["mentions"]
    batch = Collator(WordReader(Vocabulary.of_sentences([["Ann"]])), 3)(rows)
    different = (batch["mentions"][0, 0] != batch["mentions"][1, 0]).tolist()
    names = [name for name, numbers in zip(RELATIONS, different, strict=True) if not numbers]
    unrelated = ["previous_and_word", "previous_and_content_word", "abbreviation"]
    assert names == unrelated, "nothing is before Ann, and nothing abbreviates it"
    assert (batch["mentions"][:, 1, 0] == -1).all()
