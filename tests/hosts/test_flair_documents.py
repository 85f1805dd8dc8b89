"""Documents in Flair: who belongs together, batches that keep them together, and results that show it."""

import logging
import random
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("flair")

import flair
from flair.data import Sentence
from flair.splitter import NewlineSentenceSplitter
from flair.trainers.plugins import TrainerPlugin, TrainingInterrupt

from gspen_ner import DocumentConsistency, PaddedMLP
from gspen_ner.hosts.flair import DocumentBatches, GSPENTagger
from gspen_ner.hosts.flair.plugins import AnnealOnTrainLoss
from gspen_ner.hosts.flair.sentences import batches_of, context_of, document_numbers
from tests.tiny_flair import copies, make_crf, scores_of, spans_of, train

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def gold_documents(sentences):
    """Document numbers by the separators, of sentences in their order."""
    number, numbers = 0, []
    for sentence in sentences:
        number += sentence.to_original_text() == "-DOCSTART-"
        numbers.append(number)
    return numbers


def same_partition(first, second):
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


@pytest.fixture
def tagger(crf):
    """A tagger whose term pulls the mentions of a name to one tag."""
    tagger = GSPENTagger.from_sequence_tagger(crf, DocumentConsistency)
    with torch.no_grad():
        tagger.head.term.agreement.copy_(3.0 * torch.eye(len(tagger.view.names)))
    return tagger


def results(tagger, sentences, **options):
    """What is predicted for each sentence, whatever order they come in."""
    tagger.predict(sentences, label_name="found", **options)
    found = {}
    for sentence in sentences:
        found[id(sentence)] = spans_of([sentence], "found")[0], scores_of([sentence], "found")
        sentence.remove_labels("found")
    return found


def alike(first, second):
    return first.keys() == second.keys() and all(
        first[key][0] == second[key][0] and first[key][1] == pytest.approx(second[key][1], abs=1e-4)
        for key in first
    )


def words(context):
    """Numbers of words: those of the first relation."""
    return context.mentions[..., 0].flatten().tolist()


class TestNumbers:
    def test_sentences_belong_to_the_separator_before_them(self, news):
        for part in (news.train, news.dev, news.test):
            sentences = list(part)
            assert same_partition(document_numbers(sentences), gold_documents(sentences))

    def test_in_any_order_and_with_some_missing(self, news):
        sentences = list(news.train)
        pairs = list(zip(sentences, gold_documents(sentences), strict=True))
        random.Random(1).shuffle(pairs)
        some, expected = zip(*pairs[::2], strict=True)
        assert same_partition(document_numbers(some), expected)

    def test_sentences_of_several_parts_do_not_mix(self, news):
        sentences = [*news.dev, *news.test]
        numbers = document_numbers(sentences)
        assert not {*numbers[: len(news.dev)]} & {*numbers[len(news.dev) :]}

    def test_without_a_separator_each_stands_alone(self, news):
        sentences = copies(news.test)
        assert len(set(document_numbers(sentences))) == len(sentences)
        Sentence.set_context_for_sentences(sentences)
        assert len(set(document_numbers(sentences))) == len(sentences)
        split = NewlineSentenceSplitter().split("Halden won .\nHalden lost .")
        assert len(set(document_numbers(split))) == 2
        split[0].is_document_boundary = True
        assert len(set(document_numbers(split))) == 1

    def test_the_context_of_a_batch(self):
        sentences = [Sentence("Paris won"), Sentence("PARIS lost to Rome")]
        context = context_of(sentences, torch.ones(2, 4, dtype=torch.bool))
        assert context.documents.tolist() == [0, 1]
        assert len(set(words(context)) - {-1}) == 3
        Sentence.set_context_for_sentences(sentences)
        sentences[0].is_document_boundary = True
        context = context_of(sentences, torch.ones(2, 4, dtype=torch.bool))
        assert context.documents.tolist() == [0, 0]
        assert words(context)[0] == words(context)[4]
        assert len(set(words(context)) - {-1}) == 2

    @pytest.mark.parametrize("size", [1, 4, 20, 1000])
    def test_batches_cut_no_document(self, news, size):
        sentences = list(news.train)
        random.Random(2).shuffle(sentences)
        batches = batches_of(sentences, size, by_document=True)
        assert Counter(id(s) for batch in batches for s in batch) == Counter(map(id, sentences))
        seen = [set(document_numbers(list(news.train) + batch)[len(news.train) :]) for batch in batches]
        assert sum(map(len, seen)) == len(set.union(*seen))
        sizes = list(map(len, batches))
        assert all(len(batch) <= size or len(own) == 1 for batch, own in zip(batches, seen, strict=True))
        assert size < 1000 or sizes == [len(sentences)], "as large as they may be"


class TestPredict:
    def test_results_do_not_depend_on_order_or_batch_size(self, news, tagger):
        sentences = list(news.test)
        expected = results(tagger, sentences)
        assert sum(len(spans) for spans, _ in expected.values()) > 10
        for seed, size in enumerate((1, 3, 32, 1000)):
            random.Random(seed).shuffle(sentences)
            assert alike(results(tagger, sentences, mini_batch_size=size), expected)

    def test_a_document_matters(self, news, tagger):
        sentences, alone = list(news.test), copies(news.test)
        together = list(results(tagger, sentences).values())
        apart = list(results(tagger, alone).values())
        assert [spans for spans, _ in together] != [spans for spans, _ in apart]

    def test_sentences_without_a_document_are_documents_of_one(self, news, tagger):
        sentences = copies(news.test)
        together = results(tagger, sentences)
        assert alike({id(s): results(tagger, [s])[id(s)] for s in sentences}, together)

    def test_a_user_can_mark_documents(self, news, tagger):
        first = next(i for i, s in enumerate(news.test) if i and s.to_original_text() == "-DOCSTART-")
        original, marked = list(news.test)[1:first], copies(list(news.test)[1:first])
        marked[0].is_document_boundary = True
        expected = list(results(tagger, original).values())
        once, again = (list(results(tagger, marked, mini_batch_size=1).values()) for _ in range(2))
        for found in (once, again):
            assert [spans for spans, _ in found] == [spans for spans, _ in expected]
            for (_, ours), (_, theirs) in zip(found, expected, strict=True):
                assert ours == pytest.approx(theirs, abs=1e-4)

    def test_evaluation_cuts_no_document(self, news, tagger):
        scores = {tagger.evaluate(news.test, "ner", mini_batch_size=size).main_score for size in (1, 7, 64)}
        assert len(scores) == 1
        shuffled = list(news.test)
        random.Random(3).shuffle(shuffled)
        assert tagger.evaluate(shuffled, "ner").main_score == scores.pop()

    def test_the_loss_is_that_of_all_sentences(self, news, tagger, crf):
        loss, count = tagger.predict(list(news.test), 2, return_loss=True, label_name="found")
        expected, number = crf.predict(list(news.test), return_loss=True, label_name="found")
        assert (loss.item(), count) == (pytest.approx(expected.item(), rel=1e-4), number)

    def test_only_terms_that_couple_documents_keep_them_together(self, news, crf, tagger):
        plain = GSPENTagger.from_sequence_tagger(crf, PaddedMLP(len(tagger.view.names), 20, hidden=8))
        assert tagger.couples_documents
        assert not plain.couples_documents
        both = GSPENTagger.from_sequence_tagger(crf, tagger.head.term + plain.head.term)
        assert both.couples_documents
        sentences = list(news.test)
        assert alike(results(both, sentences), results(tagger, sentences)), "the other term is zero"

    def test_the_loss_does_not_depend_on_the_order(self, news, tagger):
        sentences = list(news.train)[:40]
        losses = []
        for seed in range(3):
            random.Random(seed).shuffle(sentences)
            losses.append(tagger.forward_loss(sentences)[0].item())
        assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)


class Batches(TrainerPlugin):
    """Writes down what the model is trained on."""

    def __init__(self):
        super().__init__()
        self.epochs = []

    @TrainerPlugin.hook
    def before_training_epoch(self, **kw):
        self.epochs.append([])

    @TrainerPlugin.hook
    def after_training_batch(self, batch, **kw):
        self.epochs[-1].append(list(batch))


def fresh_tagger(corpus, **options):
    return GSPENTagger.from_sequence_tagger(make_crf(corpus), DocumentConsistency, **options)


class TestDocumentBatches:
    def watch(self, news, folder, tagger=None, epochs=2, **options):
        witness = Batches()
        result = train(
            tagger or fresh_tagger(news, freeze="base"),
            news,
            folder,
            epochs=epochs,
            plugins=[DocumentBatches(options.pop("seed", 0)), witness],
            use_final_model_for_eval=True,
            **options,
        )
        return witness.epochs, result

    def test_every_sentence_is_given_once_and_no_document_is_cut(self, news, tmp_path):
        epochs, _ = self.watch(news, tmp_path)
        assert len(epochs) == 2
        for batches in epochs:
            assert Counter(id(s) for batch in batches for s in batch) == Counter(map(id, news.train))
            numbers = document_numbers([s for batch in batches for s in batch])
            owner = {}
            for place, batch in enumerate(batches):
                for _ in batch:
                    number = numbers.pop(0)
                    assert owner.setdefault(number, place) == place
            assert len(batches) == -(-len(news.train) // 16)
            assert max(map(len, batches)) <= 3 * 16

    def test_the_order_differs_between_epochs_and_seeds_but_not_between_runs(self, news, tmp_path):
        orders = []
        for run, seed in enumerate((0, 0, 1)):
            epochs, _ = self.watch(news, tmp_path / str(run), seed=seed)
            orders.append([[[id(s) for s in batch] for batch in batches] for batches in epochs])
        assert orders[0][0] != orders[0][1]
        assert orders[0] == orders[1] != orders[2]

    def test_training_on_dev_and_test_as_well(self, news, tmp_path):
        epochs, _ = self.watch(news, tmp_path, epochs=1, train_with_dev=True, train_with_test=True)
        given = Counter(id(sentence) for batch in epochs[0] for sentence in batch)
        assert given == Counter(map(id, [*news.train, *news.dev, *news.test]))

    def test_more_batches_than_documents(self, news, tmp_path):
        epochs, result = self.watch(news, tmp_path, epochs=1, mini_batch_size=2)
        assert [] in epochs[0]
        assert result["train_loss_history"][0] > 0

    def test_the_term_learns_with_it_and_predicts_better(self, news, crf, tmp_path):
        tagger = GSPENTagger.from_sequence_tagger(crf, DocumentConsistency, freeze="base")
        before = tagger.evaluate(news.train, "ner").main_score
        _, result = self.watch(news, tmp_path, tagger, epochs=4, learning_rate=0.05)
        losses = result["train_loss_history"]
        assert losses[-1] < losses[0]
        agreement = tagger.head.term.agreement[0]
        assert agreement.diagonal().mean() > agreement.mean(), "a word is rewarded for having one label"
        assert tagger.evaluate(news.train, "ner").main_score > before

    def test_all_parameters_learn_with_it(self, news, tmp_path):
        _, result = self.watch(news, tmp_path, fresh_tagger(news), epochs=3)
        losses = result["train_loss_history"]
        assert losses[-1] < losses[0]

    def test_a_plain_tagger_learns_with_it_too(self, news, tmp_path):
        _, result = self.watch(news, tmp_path, make_crf(news), epochs=2)
        assert result["train_loss_history"][1] < result["train_loss_history"][0]


class TestWarning:
    @pytest.fixture
    def warnings(self, caplog):
        log = logging.getLogger("flair")
        level = log.level
        log.setLevel(logging.WARNING)
        log.addHandler(caplog.handler)
        yield lambda: [record for record in caplog.records if "DocumentBatches" in record.getMessage()]
        log.removeHandler(caplog.handler)
        log.setLevel(level)

    def lone(self, news):
        """A training set of sentences that have lost their documents."""
        sentences = copies(news.train)
        for sentence, original in zip(sentences, news.train, strict=True):
            for label in original.get_labels("ner"):
                sentence[label.data_point[0].idx - 1 : label.data_point[-1].idx].add_label("ner", label.value)
        dataset = flair.datasets.FlairDatapointDataset(sentences)
        return flair.data.Corpus(train=dataset, dev=news.dev, test=news.test)

    def test_it_is_given_once_where_no_document_is_seen(self, news, tmp_path, warnings):
        train(fresh_tagger(news, freeze="base"), self.lone(news), tmp_path, epochs=2)
        assert len(warnings()) == 1
        assert 'document_separator_token="-DOCSTART-"' in warnings()[0].getMessage()

    def test_also_where_documents_are_torn_apart(self, news, tmp_path, warnings):
        train(fresh_tagger(news, freeze="base"), news, tmp_path, epochs=2, mini_batch_size=2)
        assert len(warnings()) == 1

    def test_it_is_not_given_with_the_plugin_or_without_such_a_term(self, news, crf, tmp_path, warnings):
        train(fresh_tagger(news), news, tmp_path / "a", epochs=1, plugins=[DocumentBatches()])
        plain = GSPENTagger.from_sequence_tagger(crf, freeze="base")
        train(plain, self.lone(news), tmp_path / "b", epochs=1)
        assert not warnings()


@pytest.mark.parametrize("option", [{"mini_batch_chunk_size": 4}, {"multi_gpu": True}])
def test_what_would_cut_or_double_documents_is_refused(option):
    with pytest.raises(ValueError, match="leave"):
        DocumentBatches().after_setup(train_with_dev=False, train_with_test=False, **option)


@pytest.mark.parametrize(
    ("patience", "losses", "rates"),
    [
        (1, [3.0, 2.0, 2.0, 2.5, 1.0, 1.5], [8, 8, 4, 2, 2]),
        (2, [3, 3, 2, 2, 4, 1, 1, 1, 1, 1], [8, 8, 8, 8, 4, 4, 4, 2, 2]),
    ],
)
def test_the_learning_rate_falls_when_the_training_loss_stalls(patience, losses, rates):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    plugin, found = AnnealOnTrainLoss(factor=0.5, patience=patience, smallest=1.5), []
    plugin._pluggable = SimpleNamespace(optimizer=optimizer)
    plugin.after_setup()
    for loss in losses[:-1]:
        plugin.before_training_epoch()
        plugin.collect(SimpleNamespace(name=("train", "batch_loss"), value=loss))
        plugin.after_training_epoch()
        found.append(optimizer.param_groups[0]["lr"])
    assert found == rates
    plugin.before_training_epoch()
    plugin.collect(SimpleNamespace(name=("train", "batch_loss"), value=losses[-1]))
    with pytest.raises(TrainingInterrupt, match="too small"):
        plugin.after_training_epoch()
