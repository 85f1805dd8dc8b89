"""One stage of training: the best model is kept, it stops when it should, and goes on where it was killed."""

import json
import shutil

import pytest
import torch
import transformers
from transformers import Trainer

from gspen_ner.hosts.huggingface import trainer as trainer_module
from gspen_ner.hosts.huggingface.data import as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer, last_checkpoint, train_stage
from gspen_ner.hosts.huggingface.two_stages import train_term, untrained_copy, usual_training
from gspen_ner.ner.metrics import ConllScore, Score, evaluate
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.recipe import TermTraining, Training
from gspen_ner.scorers import Vocabulary
from gspen_ner.training import CrossFit, Plain
from tests.tiny import SENTENCES, killed_at, make_model, same_weights, weights_of
from tests.tiny_transformer import make_transformer

EPOCHS = 4
TRAIN, DEV = SENTENCES[:24], generate_newswire(1, seed=2)
STEPS = len(TRAIN) // 8  # an epoch
CHECKPOINT_FILES = [
    "README.md",
    "average.safetensors",
    "config.json",
    "model.safetensors",
    "optimizer.pt",
    "rng_state.pth",
    "scheduler.pt",
    "trainer_state.json",
    "training_args.bin",
    "vocabulary.json",
]


def stage(folder, train=TRAIN, dev=DEV, **options):
    """Train a small model; a new one each time, as after a kill."""
    training = Training(epochs=EPOCHS, batch_size=8, learning_rate=0.02, **options)
    model = make_model("struct", dropout=0.3)
    data = StageData(as_dataset(train, model.bio), as_dataset(dev))
    return train_stage(model, training, folder / "stage", data, seed=3)


def history(folder, key="eval_f1"):
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [entry[key] for entry in entries if key in entry]


@pytest.fixture
def scripted(monkeypatch):
    """Let evaluations say what the test wants; gives the models that were evaluated."""
    seen = []

    def script(values):
        def span_f1(*args):
            value = values[len(seen)]
            seen.append(None)
            return ConllScore(Score(value, value, value, 1), {})

        original = StageTrainer.evaluate

        def evaluate(self, *args, **kwargs):
            with self.average.in_place(self.model):
                state = {name: weight.clone() for name, weight in self.model.state_dict().items()}
            result = original(self, *args, **kwargs)
            seen[-1] = state
            return result

        monkeypatch.setattr(trainer_module, "span_f1", span_f1)
        monkeypatch.setattr(StageTrainer, "evaluate", evaluate)
        return seen

    return script


class TestTheBestModel:
    @pytest.mark.parametrize("average", [0.0, 0.9])
    @pytest.mark.parametrize(
        ("values", "best"), [([0.1, 0.5, 0.3, 0.2], 1), ([0.4, 0.4, 0.1, 0.4], 0), ([0.0, 0.0, 0.0, 0.0], 0)]
    )
    def test_is_the_first_with_the_best_f1(self, values, best, average, scripted, tmp_path):
        seen = scripted(values)
        stage(tmp_path, average=average)
        assert len(seen) == EPOCHS
        assert same_weights(load_model(tmp_path / "stage" / "best").state_dict(), seen[best])
        others = [state for epoch, state in enumerate(seen) if epoch != best]
        assert not any(same_weights(state, seen[best]) for state in others), "they differ"

    def test_has_the_f1_that_was_reported(self, tmp_path):
        dev = SENTENCES[:30]
        stage(tmp_path, SENTENCES, dev, average=0.5)
        evaluation = evaluate(Tagger.load(tmp_path / "stage" / "best"), dev)
        assert evaluation.base.score.f1 == max(history(tmp_path)) > 0

    def test_is_written_as_a_model_without_pickles(self, tmp_path):
        stage(tmp_path)
        names = {file.name for file in (tmp_path / "stage" / "best").iterdir()}
        assert names == {"README.md", "config.json", "vocabulary.json", "model.safetensors"}


class TestEarlyStopping:
    def test_stops_after_so_many_epochs_without_a_better_f1(self, scripted, tmp_path):
        seen = scripted([0.5, 0.4, 0.5, 0.9])
        stage(tmp_path, patience=2)
        assert history(tmp_path) == [0.5, 0.4, 0.5]
        assert same_weights(load_model(tmp_path / "stage" / "best").state_dict(), seen[0])

    def test_goes_on_while_it_gets_better(self, scripted, tmp_path):
        scripted([0.1, 0.05, 0.2, 0.15])
        stage(tmp_path, patience=2)
        assert history(tmp_path) == [0.1, 0.05, 0.2, 0.15]

    def test_remembers_its_patience_over_a_kill(self, scripted, tmp_path):
        seen = scripted([0.5, 0.4, 0.3, 0.9])
        with killed_at(StageTrainer, "training_step", 2 * STEPS + 1):
            stage(tmp_path, patience=2)
        assert len(seen) == 2
        stage(tmp_path, patience=2)
        assert history(tmp_path) == [0.5, 0.4, 0.3]

    def test_a_kill_right_after_it_stopped_does_not_let_it_go_on(self, scripted, tmp_path):
        scripted([0.5, 0.4, 0.3, 0.9])
        with killed_at(trainer_module.statistics, "median"):  # after the last checkpoint
            stage(tmp_path, patience=2)
        stage(tmp_path, patience=2)
        assert history(tmp_path) == [0.5, 0.4, 0.3]


ROTATING = (StageTrainer, "_rotate_checkpoints")
if not hasattr(Trainer, "_rotate_checkpoints"):  # transformers 5
    ROTATING = (transformers.trainer, "rotate_checkpoints")
_rotate = getattr(*ROTATING)


def rotate_by_number(*args, **kwargs):
    """As Trainer does where it cannot rely on the times of files."""
    _rotate(*args, **kwargs | {"use_mtime": False})


class TestAKilledStage:
    @pytest.fixture(scope="class")
    @classmethod
    def unbroken(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("unbroken")
        stage(folder, average=0.9)
        return folder

    @pytest.fixture(scope="class")
    @classmethod
    def killed(cls, tmp_path_factory):
        """Killed in the last epoch, with two checkpoints."""
        folder = tmp_path_factory.mktemp("killed")
        with killed_at(StageTrainer, "training_step", 3 * STEPS + 2):
            stage(folder, average=0.9)
        return folder

    @pytest.fixture
    def folder(self, killed, tmp_path):
        return shutil.copytree(killed, tmp_path / "run")

    def ends_like(self, folder, unbroken):
        stage(folder, average=0.9)
        for key in ("eval_f1", "loss", "epoch"):
            assert history(folder, key)[:-1] == history(unbroken, key)[:-1]
        assert same_weights(weights_of(folder / "stage" / "best"), weights_of(unbroken / "stage" / "best"))

    @pytest.mark.parametrize("call", [1, 2, STEPS, STEPS + 1, 3 * STEPS])
    def test_ends_like_an_unbroken_one(self, call, unbroken, tmp_path):
        with killed_at(StageTrainer, "training_step", call):
            stage(tmp_path, average=0.9)
        self.ends_like(tmp_path, unbroken)

    @pytest.mark.parametrize(
        ("method", "call"),
        [
            ("evaluate", 1),
            ("evaluate", 3),
            ("_save_checkpoint", 3),
            ("_save_rng_state", 1),
            ("_save_rng_state", 3),
            (None, 3),
        ],
    )
    def test_ends_like_it_if_killed_between_epochs(self, method, call, unbroken, tmp_path):
        with killed_at(*((StageTrainer, method) if method else ROTATING), call):
            stage(tmp_path, average=0.9)
        self.ends_like(tmp_path, unbroken)

    def test_ends_like_it_if_killed_after_the_last_epoch(self, unbroken, tmp_path):
        with killed_at(trainer_module.statistics, "median"):  # after the last checkpoint
            stage(tmp_path, average=0.9)
        self.ends_like(tmp_path, unbroken)

    def test_leaves_checkpoints_of_these_files(self, killed):
        newest = last_checkpoint(killed / "stage" / "checkpoints", True)
        assert sorted(file.name for file in newest.iterdir()) == CHECKPOINT_FILES
        assert newest.name == f"checkpoint-{3 * STEPS}"

    @pytest.mark.parametrize("name", CHECKPOINT_FILES)
    def test_passes_over_a_torn_checkpoint(self, name, folder, unbroken, monkeypatch):
        monkeypatch.setattr(*ROTATING, rotate_by_number)
        checkpoints = folder / "stage" / "checkpoints"
        newest = last_checkpoint(checkpoints, True)
        content = (newest / name).read_bytes()
        read_again = name not in ("training_args.bin", "vocabulary.json", "README.md")
        for left in (b"", content[: len(content) // 2], content[:-2]):
            (newest / name).write_bytes(left)
            found = last_checkpoint(checkpoints, True)
            assert found is not None
            assert (found != newest) == read_again
        (newest / name).unlink()
        assert (last_checkpoint(checkpoints, True) != newest) == read_again
        (newest / name).write_bytes(content[: len(content) // 2])
        self.ends_like(folder, unbroken)

    def test_begins_anew_if_every_checkpoint_is_torn(self, folder, unbroken):
        checkpoints = folder / "stage" / "checkpoints"
        for checkpoint in checkpoints.glob("checkpoint-*"):
            (checkpoint / "optimizer.pt").write_bytes(b"torn")
        assert last_checkpoint(checkpoints, True) is None
        self.ends_like(folder, unbroken)

    def test_mends_a_best_model_that_was_being_replaced(self, folder, unbroken):
        best = folder / "stage" / "best"
        best.rename(best.with_name("best.old"))
        best.with_name("best.new").mkdir()
        self.ends_like(folder, unbroken)


def test_there_is_no_last_checkpoint_before_the_first(tmp_path):
    assert last_checkpoint(tmp_path / "none", False) is None
    (tmp_path / "checkpoint-7").mkdir()
    assert last_checkpoint(tmp_path, False) is None


def test_an_average_is_asked_for_only_if_there_is_one(tmp_path):
    stage(tmp_path)
    newest = last_checkpoint(tmp_path / "stage" / "checkpoints", False)
    assert newest.name == f"checkpoint-{EPOCHS * STEPS}"
    assert last_checkpoint(tmp_path / "stage" / "checkpoints", True) is None


def test_the_same_seed_trains_the_same_model(tmp_path):
    for name in ("first", "second"):
        torch.manual_seed(len(name))
        stage(tmp_path / name)
    assert same_weights(*(weights_of(tmp_path / name / "stage" / "best") for name in ("first", "second")))


@pytest.mark.parametrize(
    ("schedule", "optimizer"),
    [("constant", "sgd"), ("linear", "adam"), ("inverse_time", "sgd"), ("inverse_time", "adam")],
)
def test_learning_rates_follow_the_schedule(schedule, optimizer, tmp_path):
    stage(tmp_path, schedule=schedule, optimizer=optimizer, decay=0.5)
    updates = [STEPS * (epoch + 1) - 1 for epoch in range(EPOCHS)]  # the last of each epoch
    shares = {
        "constant": [1] * EPOCHS,
        "linear": [1 - update / (STEPS * EPOCHS) for update in updates],
        "inverse_time": [1 / (1 + 0.5 * epoch) for epoch in range(EPOCHS)],
    }
    found = history(tmp_path, "learning_rate")
    assert found == pytest.approx([0.02 * share for share in shares[schedule]])


def test_base_and_term_learn_at_their_own_rates(tmp_path):
    model = make_model("gspen", terms="convolution")
    data = StageData(as_dataset(TRAIN, model.bio), as_dataset(DEV))
    training = TermTraining(freeze="none", learning_rate=0.03, base_learning_rate=0.001)
    trainer = StageTrainer(model, training, tmp_path / "term", data, seed=1)
    rates = {
        name: group["lr"]
        for group in trainer.optimizer.param_groups
        for name, weight in model.named_parameters()
        if any(weight is other for other in group["params"])
    }
    assert {rate for name, rate in rates.items() if name.startswith("scorer.")} == {0.001}
    assert {rate for name, rate in rates.items() if name.startswith("head.")} == {0.03}
    assert len(rates) == sum(weight.requires_grad for weight in model.parameters())


class TestTrainTerm:
    QUICK = TermTraining(epochs=1, batch_size=8, learning_rate=0.05)

    def upgraded(self, model, folder, **options):
        rows, dev = as_dataset(TRAIN, model.bio), as_dataset(DEV, model.bio)
        return train_term(model, rows, dev, folder, **{"training": self.QUICK} | options)

    def test_cross_fits_a_bilstm_without_more_ado(self, tmp_path):
        model = make_model("struct", dropout=0.3)
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        quick = Training(epochs=2, batch_size=8, learning_rate=0.02)
        better = self.upgraded(model, tmp_path, base_training=quick)
        for fold in ("fold-1", "fold-2"):
            base = load_model(tmp_path / fold / "best")
            assert base.config.system == "struct"
            assert base.config.chain_labels == model.config.chain_labels
            assert base.scorer.input_dropout.p == 0.3
            assert base.reader.vocabulary.words != model.reader.vocabulary.words, "it knows its own rows only"
        after = better.state_dict()
        assert all(torch.equal(weight, after[name]) for name, weight in before.items())
        assert any(weight.abs().sum() > 0 for weight in better.head.parameters())
        tagger = Tagger(better)
        fitted = tagger.confidences
        tagger.calibrate(as_dataset(DEV, model.bio))
        assert tagger.confidences == fitted
        again = self.upgraded(model, tmp_path, base_training=quick)
        assert Tagger(again).confidences == fitted, "also of what is trained already"

    def test_cross_fits_a_transformer_at_its_rates(self, tmp_path):
        model, made = make_transformer(tmp_path), []

        def make_base(rows):
            made.append(len(rows))
            return make_transformer(tmp_path)

        self.upgraded(model, tmp_path / "run", make_base=make_base, scores=CrossFit(2, epochs=1))
        assert sum(made) == len(TRAIN)
        assert 0 < history(tmp_path / "run", "learning_rate")[0] <= 5e-5, "in a fold, which comes first"
        assert usual_training(model).transitions_learning_rate == 1e-2

    def test_a_transformer_needs_make_base(self, tmp_path):
        model = make_transformer(tmp_path)
        with pytest.raises(ValueError, match=r"the pretrained weights .* not known any more: give make_base"):
            self.upgraded(model, tmp_path / "run")
        assert not list((tmp_path / "run").iterdir()), "nothing is scored or trained before"

    def test_so_do_pretrained_word_vectors(self):
        words = Vocabulary.of_sentences([sentence.tokens for sentence in TRAIN], known=["zebra"])
        model = GSPENForTokenClassification.from_vocabulary(words, make_model().bio.names, hidden=4)
        with pytest.raises(ValueError, match=r"the pretrained word vectors .* give make_base"):
            untrained_copy(model, [["Ann"]])

    def test_a_document_term_needs_documents(self, tmp_path):
        model = make_model("struct")
        rows = as_dataset(TRAIN, model.bio).remove_columns(["document", "mentions"])
        with pytest.raises(ValueError, match=r"needs a column document.*it has .'tokens', 'tags', 'labels'"):
            train_term(model, rows, rows, tmp_path, scores=Plain(), training=self.QUICK)

    def test_the_term_of_a_base_model_is_replaced(self, tmp_path):
        plain, other = make_model("struct"), make_model("gspen", terms="convolution")
        other.scorer.load_state_dict(plain.scorer.state_dict())
        options = {"scores": Plain(), "terms": [{"name": "convolution", "hidden": 4}]}
        results = [
            self.upgraded(model, tmp_path / name, **options)
            for name, model in (("plain", plain), ("other", other))
        ]
        assert same_weights(*(model.state_dict() for model in results))

    def test_base_models_have_no_term(self, tmp_path):
        with pytest.raises(ValueError, match="without global terms from make_base, got a gspen model"):
            self.upgraded(make_model("struct"), tmp_path, make_base=lambda rows: make_model("gspen"))
