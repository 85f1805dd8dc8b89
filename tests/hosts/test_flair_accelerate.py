"""Plain Flair taggers made faster: the same losses, tags and confidences, or true ones."""

import copy
import pickle

import pytest
import torch

pytest.importorskip("flair")

import flair
from flair.data import Sentence
from flair.embeddings import CharacterEmbeddings, StackedEmbeddings
from flair.models import SequenceTagger
from flair.nn import Classifier

from gspen_ner.hosts.flair import GSPENTagger, accelerate
from tests.tiny_flair import (
    characters_of,
    copies,
    kinds_of,
    make_crf,
    make_shapes_corpus,
    one_hot,
    predicted,
    scores_of,
    spans_of,
    train,
)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
PARTS = ("loss_function", "viterbi_decoder", "crf")


def batches_of(corpus, size=16):
    sentences = list(corpus.train)
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def loss_and_gradients(tagger, batch):
    tagger.eval().zero_grad()
    loss, count = tagger.forward_loss(batch)
    loss.backward()
    for sentence in batch:
        sentence.clear_embeddings()
    gradients = {name: weight.grad.clone() for name, weight in tagger.named_parameters()}
    return loss.item(), count, gradients


def all_classes(tagger, sentences):
    """Scores of all tags of all tokens, and the values that go with them."""
    fresh = copies(sentences)
    tagger.predict(fresh, return_probabilities_for_all_classes=True)
    rows = [token.get_tags_proba_dist("ner") for sentence in fresh for token in sentence]
    return [[label.value for label in row] for row in rows], torch.tensor(
        [[x.score for x in r] for r in rows]
    )


def with_characters(corpus, **options):
    flair.set_seed(1)
    characters = CharacterEmbeddings(characters_of(corpus), 8, 8)
    embeddings = StackedEmbeddings([one_hot(corpus), characters])
    return SequenceTagger(embeddings, kinds_of(corpus), "ner", hidden_size=20, **options)


MADE = {
    "bioes": make_crf,
    "bio": lambda corpus: make_crf(corpus, tag_format="BIO"),
    "two layers": lambda corpus: make_crf(corpus, rnn_layers=2),
    "gru": lambda corpus: make_crf(corpus, rnn_type="GRU"),
    "one direction": lambda corpus: make_crf(corpus, bidirectional=False),
    "no rnn": lambda corpus: make_crf(corpus, use_rnn=False),
    "characters": with_characters,
}


class TestSameResults:
    @pytest.mark.parametrize("made", MADE)
    def test_losses_and_gradients_are_equal(self, news, made):
        tagger = MADE[made](news)
        expected = [loss_and_gradients(tagger, batch) for batch in batches_of(news)[:4]]
        accelerate(tagger)
        for batch, (loss, count, gradients) in zip(batches_of(news)[:4], expected, strict=True):
            fast, number, fast_gradients = loss_and_gradients(tagger, batch)
            assert (fast, number) == (pytest.approx(loss, rel=1e-4), count)
            for name in gradients:
                scale = float(gradients[name].abs().max())
                torch.testing.assert_close(
                    fast_gradients[name], gradients[name], rtol=1e-3, atol=1e-4 * max(scale, 1e-3)
                )

    def test_also_of_a_trained_tagger_and_of_the_loss_that_predict_returns(self, news, crf):
        expected = loss_and_gradients(crf, batches_of(news)[0])[0]
        returned, count = crf.predict(list(news.test), return_loss=True, label_name="found")
        accelerate(crf)
        assert loss_and_gradients(crf, batches_of(news)[0])[0] == pytest.approx(expected, rel=1e-4)
        fast, number = crf.predict(list(news.test), return_loss=True, label_name="found")
        assert (fast.item(), number) == (pytest.approx(returned.item(), rel=1e-4), count)

    @pytest.mark.parametrize("made", MADE)
    def test_tags_and_confidences_are_equal(self, news, made):
        tagger = MADE[made](news).eval()
        expected, classes = predicted(tagger, news.test), all_classes(tagger, news.test)
        accelerate(tagger)
        spans, scores = predicted(tagger, news.test)
        assert spans == expected[0]
        assert scores == pytest.approx(expected[1], abs=1e-5)
        names, distributions = all_classes(tagger, news.test)
        assert names == classes[0]
        torch.testing.assert_close(distributions, classes[1], atol=1e-5, rtol=1e-4)

    def test_also_of_a_trained_tagger(self, news, crf):
        expected, classes = predicted(crf, news.test), all_classes(crf, news.test)
        assert len(expected[1]) > 10
        accelerate(crf)
        spans, scores = predicted(crf, news.test)
        assert spans == expected[0]
        assert scores == pytest.approx(expected[1], abs=1e-5)
        torch.testing.assert_close(all_classes(crf, news.test)[1], classes[1], atol=1e-5, rtol=1e-4)

    def test_also_of_tokens_and_of_single_and_empty_sentences(self, news, crf):
        texts = [*(sentence.to_tokenized_string() for sentence in news.train), "Lisbon", ""]
        rows = []
        for _ in range(2):
            sentences = [Sentence(text) for text in texts]
            crf.predict(sentences, force_token_predictions=True)
            rows.append([[(x.value, round(x.score, 4)) for x in t.labels] for s in sentences for t in s])
            if len(rows) == 1:
                accelerate(crf)
        assert rows[0] == rows[1]
        assert any(rows[0])

    def test_character_vectors_are_flairs_own(self, news):
        tagger = with_characters(news)
        text = "the mayor of the town of Ada met the mayor of Ada ."  # words that come again
        plain, fast = Sentence(text), Sentence(text)
        tagger.embeddings.embed([plain, *news.dev])
        expected = [token.embedding.clone() for sentence in (plain, *news.dev) for token in sentence]
        for sentence in news.dev:
            sentence.clear_embeddings()
        accelerate(tagger)
        tagger.embeddings.embed([fast, *news.dev])
        found = [token.embedding for sentence in (fast, *news.dev) for token in sentence]
        for sentence in news.dev:
            sentence.clear_embeddings()
        torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-4, atol=1e-5)

    def test_a_task_without_spans(self, tmp_path):
        corpus = make_shapes_corpus(tmp_path)
        flair.set_seed(1)
        kinds = kinds_of(corpus, "shape", add_unk=True)
        tagger = SequenceTagger(one_hot(corpus), kinds, "shape", hidden_size=16)
        train(tagger, corpus, tmp_path / "run", epochs=2)
        before = copies(corpus.test)
        tagger.predict(before)
        for confidences in ("flair", "marginal"):
            acceleration, after = accelerate(tagger, confidences), copies(corpus.test)
            tagger.predict(after)
            for one, other in zip(before, after, strict=True):
                assert [label.value for label in one.labels] == [label.value for label in other.labels]
            acceleration.undo()


class TestMarginals:
    def test_confidences_are_those_of_the_exact_tagger(self, news, crf):
        exact = GSPENTagger.from_sequence_tagger(copy.deepcopy(crf))
        spans, prefix_scores = predicted(crf, news.test)
        accelerate(crf, confidences="marginal")
        found, scores = predicted(crf, news.test)
        assert found == spans
        assert scores == pytest.approx(predicted(exact, news.test)[1], abs=1e-5)
        assert scores != pytest.approx(prefix_scores, abs=0.01)

    def test_all_classes_are_probabilities(self, news, crf):
        accelerate(crf, confidences="marginal")
        names, distributions = all_classes(crf, news.test)
        assert not {"<START>", "<STOP>"} & {name for row in names for name in row}
        torch.testing.assert_close(distributions.sum(1), torch.ones(len(distributions)), atol=1e-5, rtol=0)

    def test_tokens_that_are_asked_for_have_their_marginals(self, news, crf):
        accelerate(crf, confidences="marginal")
        sentences = copies(news.test)
        crf.predict(sentences, force_token_predictions=True, return_probabilities_for_all_classes=True)
        labelled = [token for sentence in sentences for token in sentence if token.get_labels("ner")]
        assert len(labelled) > 10
        for token in labelled:
            label = token.get_label("ner")
            marginals = {each.value: each.score for each in token.get_tags_proba_dist("ner")}
            assert label.score == marginals[label.value]
        crf.predict(sentences)
        assert (spans_of(sentences), scores_of(sentences)) == predicted(crf, news.test)

    def test_evaluation_is_the_same(self, news, crf):
        expected = crf.evaluate(news.test, "ner")
        accelerate(crf, confidences="marginal")
        found = crf.evaluate(news.test, "ner")
        assert found.main_score == expected.main_score
        assert found.loss == pytest.approx(expected.loss, rel=1e-4)


class TestUndo:
    @pytest.mark.parametrize("confidences", ["flair", "marginal"])
    def test_everything_is_as_it_was(self, news, confidences):
        tagger = with_characters(news).eval()
        expected, state = predicted(tagger, news.test), list(tagger.state_dict())
        before = {name: getattr(tagger, name) for name in PARTS}
        modules = (tagger, tagger.rnn, tagger.embeddings.embeddings[1])
        attributes = [set(vars(module)) for module in modules]
        acceleration = accelerate(tagger, confidences)
        assert list(tagger.state_dict()) == state
        assert all(getattr(tagger, name) is not part for name, part in before.items())
        acceleration.undo()
        assert all(getattr(tagger, name) is part for name, part in before.items())
        assert [set(vars(module)) for module in modules] == attributes
        assert predicted(tagger, news.test) == expected
        acceleration.undo()
        assert predicted(tagger, news.test) == expected
        accelerate(tagger)
        assert predicted(tagger, news.test)[0] == expected[0]

    def test_what_was_learned_meanwhile_stays(self, news, crf, tmp_path):
        acceleration = accelerate(crf)
        train(crf, news, tmp_path, epochs=1, use_final_model_for_eval=True)
        fast = predicted(crf, news.test)
        acceleration.undo()
        plain = predicted(crf, news.test)
        assert plain[0] == fast[0]
        assert plain[1] == pytest.approx(fast[1], abs=1e-5)


class TestTraining:
    def test_a_run_is_flairs_run(self, news, tmp_path):
        stock, fast = make_crf(news), make_crf(news)
        accelerate(fast)
        losses = [
            train(tagger, news, tmp_path / name, use_final_model_for_eval=True)["train_loss_history"]
            for name, tagger in (("stock", stock), ("fast", fast))
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
        assert losses[1][-1] < losses[1][0]

    @pytest.mark.parametrize("confidences", ["flair", "marginal"])
    @pytest.mark.parametrize("load", [SequenceTagger.load, Classifier.load])
    def test_the_file_is_that_of_a_plain_tagger(self, news, tmp_path, load, confidences):
        tagger = with_characters(news)
        accelerate(tagger, confidences)
        train(tagger, news, tmp_path, epochs=1, use_final_model_for_eval=True, save_final_model=True)
        loaded = load(tmp_path / "final-model.pt")
        assert type(loaded) is SequenceTagger
        assert type(loaded.crf) is flair.models.sequence_tagger_utils.crf.CRF
        assert predicted(loaded, news.test)[0] == predicted(tagger, news.test)[0]
        assert b"gspen_ner" not in (tmp_path / "final-model.pt").read_bytes()

    def test_the_best_model_comes_back_after_training(self, news, crf, tmp_path):
        accelerate(crf)
        train(crf, news, tmp_path, epochs=2)
        best = SequenceTagger.load(tmp_path / "best-model.pt")
        assert predicted(best, news.test)[0] == predicted(crf, news.test)[0]

    def test_in_mixed_precision(self, news, tmp_path):
        tagger = make_crf(news)
        accelerate(tagger)
        losses = train(tagger, news, tmp_path, method="fine_tune", use_amp=True)["train_loss_history"]
        assert losses[-1] < losses[0]


class TestWhatIsDone:
    def test_it_is_said(self, news):
        said = str(accelerate(with_characters(news)))
        assert "loss: compiled forward-backward, same values" in said
        assert "decoding: compiled Viterbi, same results" in said
        assert "LSTM: two padded directions" in said
        assert "character embeddings: a whole batch at once" in said
        assert "confidences are exact probabilities" in str(accelerate(make_crf(news), "marginal"))

    @pytest.mark.parametrize("made", ["two layers", "gru", "one direction", "no rnn"])
    def test_other_encoders_are_left_alone(self, news, made):
        tagger = MADE[made](news)
        said = str(accelerate(tagger))
        assert "LSTM" not in said
        assert not tagger.use_rnn or "forward" not in vars(tagger.rnn)

    def test_what_cannot_be_done_is_refused(self, news, crf):
        with pytest.raises(ValueError, match=r"no CRF.*train it with use_crf=True"):
            accelerate(make_crf(news, use_crf=False))
        with pytest.raises(ValueError, match='"flair" or "marginal", got \'exact\''):
            accelerate(crf, confidences="exact")
        accelerate(crf)
        with pytest.raises(ValueError, match="fast already"):
            accelerate(crf)
        with pytest.raises(ValueError, match="fast already"):
            accelerate(GSPENTagger.from_sequence_tagger(make_crf(news)))

    @pytest.mark.parametrize("confidences", ["flair", "marginal"])
    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda tagger: pickle.loads(pickle.dumps(tagger))])
    def test_a_clone_stands_on_its_own(self, news, clone, confidences):
        tagger = with_characters(news).eval()
        accelerate(tagger, confidences)
        expected = predicted(tagger, news.test)
        cloned = clone(tagger)
        assert predicted(cloned, news.test) == expected
        assert vars(cloned.rnn)["forward"].lstm is cloned.rnn
        with torch.no_grad():
            for weight in cloned.parameters():
                weight.add_(torch.randn_like(weight))
        assert predicted(cloned, news.test) != expected
        assert predicted(tagger, news.test) == expected
        loss_and_gradients(cloned, batches_of(news)[0])
        assert all(weight.grad is None for weight in tagger.parameters())
