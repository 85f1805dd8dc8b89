"""Runs with a transformer as a user starts them: what they leave, resumed, refused, in several processes."""

import json
import os
import re
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageTrainer
from gspen_ner.recipe import TransformerRecipe, load_recipe
from tests.runs.test_runs import assert_same_outcome, f1, files_of, scorer_weights
from tests.tiny import gspen_ner, killed_at, metrics_of, results_of, same_weights, weights_of
from tests.tiny_transformer import NAMES, save_classifier, save_encoder

TINY = {
    "data.train": "newswire:8:1",
    "data.dev": "newswire:3:2",
    "data.test": "newswire:2:3",
    "base_training.epochs": 2,
    "base_training.batch_size": 8,
    "base_training.learning_rate": 0.01,
    "base_training.output_learning_rate": 0.01,
    "base_training.transitions_learning_rate": 0.05,
    "term_training.epochs": 2,
    "term_training.batch_size": 16,
    "term_training.learning_rate": 0.03,
    "term_training.dropout_draws": 2,
}
STEPS = 10  # of an epoch of the base
CRF = {"system": "struct", "data.test": None}
FREE = {"term_training.freeze": "none", "term_training.dropout_draws": 0}
FOLDS = {"term_training.dropout_draws": 0, "term_training.folds": 2}
PADDED_MLP = {"terms": [{"name": "padded_mlp", "hidden": 8}]}


def settings(encoder, changes):
    entries = TINY | {"encoder": str(encoder)} | changes
    return [part for key, value in entries.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def start(folder, encoder, *options, **changes):
    return gspen_ner("train", "transformer", *settings(encoder, changes), "--output", folder, *options)


def train(folder, encoder, *options, **changes):
    result = start(folder, encoder, *options, **changes)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return folder


def refused(folder, encoder, message, **changes):
    """The command says in a line what is wrong, and leaves nothing."""
    result = start(folder, encoder, **changes)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert message in result.output
    assert "Traceback" not in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not folder.exists()


def losses(folder, stage="base"):
    return [entry["loss"] for entry in metrics_of(folder) if entry["stage"] == stage and "loss" in entry]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / "roberta", "roberta", dropout=0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory, encoder):
    """A CRF and a document term on top. Not to be changed."""
    return train(tmp_path_factory.mktemp("runs") / "run", encoder)


@pytest.fixture(scope="module")
def crf(tmp_path_factory, encoder):
    """A CRF that has learned something. Not to be changed."""
    changes = {"data.train": "newswire:16:1", "base_training.epochs": 8}
    return train(tmp_path_factory.mktemp("crfs") / "crf", encoder, **CRF | changes)


class TestTheFolderOfARun:
    def test_holds_what_is_promised_and_nothing_else(self, run):
        model = {file.name for file in (run / "model").iterdir()}
        assert {"config.json", "model.safetensors", "README.md", "tokenizer.json"} < model
        assert {name.rpartition(".")[2] for name in model} == {"json", "safetensors", "md"}
        assert files_of(run) == {
            "recipe.yaml", "metrics.jsonl", "results.json", "log.txt",
            "entities-dev.json", "entities-test.json", "base/done.json", "term/done.json",
            *(f"{folder}/{file}" for folder in ("model", "base/best", "term/best") for file in model),
        }  # fmt: skip

    def test_has_the_recipe_with_every_entry(self, run, encoder):
        recipe = load_recipe(run / "recipe.yaml")
        assert isinstance(recipe, TransformerRecipe)
        assert (recipe.encoder, recipe.start, recipe.scheme) == (str(encoder), "encoder", "BIOES")
        assert recipe.base_training.warmup == 0.1

    def test_has_each_epoch_once_and_it_learns(self, run):
        for stage in ("base", "term"):
            found = [e["epoch"] for e in metrics_of(run) if e["stage"] == stage and "eval_f1" in e]
            assert found == [1.0, 2.0]
        assert losses(run)[1] < losses(run)[0]
        assert not (run / "potentials").exists()

    def test_has_the_best_model_and_its_scores(self, run):
        assert same_weights(weights_of(run / "model"), weights_of(run / "term" / "best"))
        assert same_weights(scorer_weights(run / "model"), scorer_weights(run / "base" / "best"))
        for stage, part in (("base", "base"), ("term", "full")):
            best = max(e["eval_f1"] for e in metrics_of(run) if e["stage"] == stage and "eval_f1" in e)
            assert f1(run, stage=part) == best

    def test_has_a_card_with_data_and_scores(self, run):
        card = ModelCard.load(run / "model" / "README.md")
        for split, source in (("train", "newswire:8:1"), ("dev", "newswire:3:2"), ("test", "newswire:2:3")):
            assert f"- {split}: `{source}`" in card.text
        found = {(one.dataset_split, one.metric_type): one.metric_value for one in card.data.eval_results}
        for split in ("dev", "test"):
            micro = results_of(run)[split]["full"]["score"]["micro"]
            for name in ("precision", "recall", "f1"):
                assert found[split, name] == pytest.approx(micro[name])
        assert "a roberta encoder, a linear-chain CRF and a global score" in card.text

    def test_has_a_card_without_the_paths_of_this_machine(self, run, encoder):
        for name in ("README.md", "config.json", "tokenizer_config.json"):
            text = (run / "model" / name).read_text()
            assert str(run) not in text
            assert str(encoder.parent) not in text


class TestTheModelOfARun:
    def test_learns_entities(self, crf):
        assert f1(crf, stage="base") > 0.2
        assert losses(crf) == sorted(losses(crf), reverse=True)

    def test_is_evaluated_as_in_training(self, crf, tmp_path):
        result = gspen_ner("evaluate", crf, "newswire:3:2", "--json", tmp_path / "scores.json")
        assert result.exit_code == 0, result.output
        scores = json.loads((tmp_path / "scores.json").read_text())
        assert scores["base"]["score"]["micro"]["f1"] == f1(crf, stage="base")

    @pytest.mark.parametrize("kind", ["conll", "jsonl", "html"])
    def test_predicts(self, kind, run, tmp_path):
        text = "Ms. Anna Halden spoke in Graz.\n\nHalden left.\n"
        output = tmp_path / f"found.{kind}"
        result = gspen_ner("predict", run, "-", "--output", output, text=text)
        assert result.exit_code == 0, result.output
        written = output.read_text()
        assert all(word in written for word in ("Halden", "Graz", "left"))
        if kind == "jsonl":
            assert [len(json.loads(line)["tokens"]) for line in written.splitlines()] == [7, 3]
        if kind == "conll":
            lines = [line.split() for line in written.splitlines() if line]
            assert {line[0] for line in lines} >= {"Anna", "Halden"}
            assert all(line[-1] in NAMES for line in lines)
        if kind == "html":
            assert written.lstrip().lower().startswith("<!doctype html")

    def test_gives_probabilities(self, crf):
        entities = [
            e for p in Tagger.load(crf).tag([["Halden", "left", "Graz", "."]] * 2) for e in p.entities
        ]
        assert all(0 < entity.probability <= 1 for entity in entities)


class TestEveryKindOfRun:
    @pytest.mark.parametrize(
        "changes", [PADDED_MLP, PADDED_MLP | FREE, FREE], ids=["mlp", "free mlp", "free"]
    )
    def test_terms_learn_with_and_without_the_base(self, changes, encoder, tmp_path):
        folder = train(tmp_path / "run", encoder, **changes)
        model = Tagger.load(folder).model
        assert max(float(weight.detach().abs().max()) for weight in model.head.term.parameters()) > 0
        same = same_weights(scorer_weights(folder / "model"), scorer_weights(folder / "base" / "best"))
        assert same == ("term_training.freeze" not in changes)
        if "terms" in changes:
            assert model.config.terms[0]["max_length"] > 12, "the longest training sentence"

    def test_dropout_draws_train_another_term(self, run, encoder, tmp_path):
        plain = train(tmp_path / "plain", encoder, **{"term_training.dropout_draws": 0, "base": str(run)})
        assert same_weights(scorer_weights(plain / "model"), scorer_weights(run / "model"))
        assert not same_weights(weights_of(plain / "model"), weights_of(run / "model"))

    def test_folds_train_base_models_of_their_own(self, folds):
        parts = [weights_of(folds / name / "best") for name in ("base", "fold-1", "fold-2")]
        assert not any(same_weights(one, other) for one, other in pairwise(parts))
        assert {entry["stage"] for entry in metrics_of(folds)} == {"base", "fold-1", "fold-2", "term"}

    @pytest.fixture(scope="class")
    @classmethod
    def folds(cls, tmp_path_factory, encoder):
        return train(tmp_path_factory.mktemp("folds") / "run", encoder, **FOLDS)

    def test_other_systems_and_schemes(self, encoder, tmp_path):
        changes = CRF | {"system": "unary", "scheme": "BIO", "window": 24, "base_training.epochs": 1}
        model = Tagger.load(train(tmp_path / "run", encoder, **changes)).model
        assert (model.config.system, model.labels.scheme) == ("unary", "BIO")
        assert model.scorer.frame.size == 24

    def test_neighbouring_sentences_are_read_by_all_models_of_a_run(self, encoder, tmp_path):
        folder = train(tmp_path / "run", encoder, context_tokens=12, **FOLDS)
        for name in ("base/best", "fold-1/best", "fold-2/best", "term/best", "model"):
            assert json.loads((folder / name / "config.json").read_text())["scorer"]["context_tokens"] == 12
        result = gspen_ner("evaluate", folder, "newswire:2:3", "--json", tmp_path / "scores.json")
        assert result.exit_code == 0, result.output
        scores = json.loads((tmp_path / "scores.json").read_text())
        assert (
            scores["full"]["score"]["micro"]["f1"]
            == results_of(folder)["test"]["full"]["score"]["micro"]["f1"]
        )
        alone = train(tmp_path / "alone", encoder, **CRF)
        assert losses(folder) != losses(alone)

    def test_half_precision(self, encoder, tmp_path):
        changes = CRF | {"base_training.precision": "bf16"}
        folder = train(tmp_path / "run", encoder, **changes)
        assert losses(folder)[1] < losses(folder)[0]
        assert {
            weight.dtype for name, weight in weights_of(folder / "model").items() if "kinds" not in name
        } == {torch.float32}
        whole = train(tmp_path / "whole", encoder, **CRF)
        assert losses(folder) != losses(whole)
        assert losses(folder) == pytest.approx(losses(whole), rel=0.1)

    @pytest.mark.parametrize("kind", ["bert", "t5"])
    def test_other_encoders(self, kind, tmp_path):
        encoder = save_encoder(tmp_path / "encoder", kind)
        folder = train(tmp_path / "run", encoder, **CRF)
        assert losses(folder)[1] < losses(folder)[0]
        assert Tagger.load(folder).model.config.encoder["model_type"] == kind


class TestAClassifier:
    @pytest.fixture(scope="class")
    @classmethod
    def classifier(cls, tmp_path_factory):
        return save_classifier(tmp_path_factory.mktemp("classifier") / "roberta", "roberta")

    def test_is_what_training_starts_from(self, classifier, tmp_path):
        changes = {"start": "classifier", "base_training.epochs": 1}
        still = {
            f"base_training.{name}": 1e-12
            for name in ("learning_rate", "output_learning_rate", "transitions_learning_rate")
        }
        folder = train(tmp_path / "run", classifier, **CRF | changes | still)
        learned, given = weights_of(folder / "model"), weights_of(classifier)
        torch.testing.assert_close(learned["scorer.encoder.classifier.weight"], given["classifier.weight"])
        assert learned["scorer.crf.transitions"].abs().max() < 1e-6
        assert Tagger.load(folder).labels.scheme == "BIO"

    def test_is_fine_tuned_with_a_term(self, classifier, tmp_path):
        folder = train(tmp_path / "run", classifier, start="classifier")
        assert losses(folder)[1] < losses(folder)[0]
        assert Tagger.load(folder).model.config.system == "gspen"
        assert weights_of(folder / "model")["scorer.crf.transitions"].abs().max() > 1e-3

    def test_determines_its_context(self, classifier, tmp_path):
        result = start(tmp_path / "run", classifier, start="classifier", context_tokens=12)
        assert result.exit_code == 1
        assert "start: classifier determines scheme, window and context; remove them" in result.output

    def test_with_other_labels_is_refused(self, tmp_path):
        other = save_classifier(tmp_path / "other", names=["O", "B-CITY", "I-CITY"])
        result = start(tmp_path / "run", other, start="classifier")
        assert result.exit_code == 1
        assert "its labels are O, B-CITY, I-CITY; the training data has O, B-LOC" in result.output


class TestABaseOfAnotherRun:
    def test_is_used_as_it_is(self, crf, encoder, tmp_path):
        folder = train(tmp_path / "run", encoder, base=str(crf))
        assert not (folder / "base").exists()
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(crf / "model"))
        assert {entry["stage"] for entry in metrics_of(folder)} == {"term"}
        assert f1(folder, stage="base") == f1(crf, stage="base")

    def test_needs_no_encoder_any_more(self, crf, tmp_path):
        folder = train(tmp_path / "run", tmp_path / "gone", base=str(crf))
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(crf / "model"))

    def test_of_the_wrong_system_is_refused(self, crf, encoder, tmp_path):
        result = start(tmp_path / "run", encoder, base=str(crf), system="spen")
        assert result.exit_code == 1
        assert "a struct model; spen starts from a unary one" in result.output

    def test_with_another_context_is_refused(self, crf, encoder, tmp_path):
        result = start(tmp_path / "run", encoder, base=str(crf), context_tokens=12)
        assert result.exit_code == 1
        assert "its context_tokens are 0; the recipe has 12" in result.output


class TestAResumedRun:
    @pytest.mark.parametrize(
        ("owner", "method", "call"),
        [
            pytest.param(StageTrainer, "training_step", STEPS + 3, id="in base epoch 2"),
            pytest.param(StageTrainer, "training_step", 2 * STEPS + 2, id="in term epoch 1"),
            pytest.param(Tagger, "tag", 2, id="while testing"),
        ],
    )
    def test_ends_like_an_unbroken_one(self, owner, method, call, run, encoder, tmp_path):
        with killed_at(owner, method, call):
            train(tmp_path / "run", encoder)
        assert not (tmp_path / "run" / "results.json").exists()
        train(tmp_path / "run", encoder, "--resume")
        assert_same_outcome(tmp_path / "run", run)

    def test_that_trains_everything_does_too(self, encoder, tmp_path):
        unbroken = train(tmp_path / "unbroken", encoder, **FREE)
        with killed_at(StageTrainer, "evaluate", 4):
            train(tmp_path / "run", encoder, **FREE)
        train(tmp_path / "run", encoder, "--resume", **FREE)
        assert_same_outcome(tmp_path / "run", unbroken)


class TestAnEncoder:
    def test_must_be_named(self, tmp_path):
        result = gspen_ner("train", "transformer", "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert "encoder: name a folder or a model of the hub, as in --set encoder=" in result.output
        assert len(result.output.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()

    def test_must_exist(self, tmp_path):
        refused(tmp_path / "run", tmp_path / "none", f"encoder: {tmp_path / 'none'}: no such folder")

    def test_must_be_one(self, tmp_path):
        (tmp_path / "empty").mkdir()
        refused(
            tmp_path / "run",
            tmp_path / "empty",
            f"{tmp_path / 'empty'}: no model here (no config.json in it)",
        )


def test_flair_is_refused_in_several_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = gspen_ner("train", "conll03_flair", "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert "conll03_flair: this recipe trains in one process only: start it without torchrun" in result.output
    assert not (tmp_path / "run").exists()


TWO = {
    "data.train": "newswire:24:1",
    "data.dev": "newswire:8:2",
    "base_training.epochs": 6,
    "term_training.epochs": 3,
    "term_training.dropout_draws": 0,
}


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def launcher(name):
    """The start of a command that runs a module in two processes."""
    beside = str(Path(sys.executable).parent / name)
    if name == "torchrun":
        return [beside, "--nproc_per_node", "2", "--master_port", str(free_port())]
    plain = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    port = ["--main_process_port", str(free_port())]
    # On processors too: with --cpu it would start a single process, unless there is MPI.
    return [beside, "launch", "--multi_gpu", "--num_processes", "2", *plain, *port]


def in_two_processes(name, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ACCELERATE")}
    return subprocess.run(
        [*launcher(name), "-m", "gspen_ner.cli", *map(str, arguments)],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestTwoProcesses:
    @pytest.fixture(scope="class")
    @classmethod
    def still(cls, tmp_path_factory):
        """An encoder without dropout: with it, chance would tell the processes apart."""
        return save_encoder(tmp_path_factory.mktemp("still") / "roberta", "roberta")

    @pytest.fixture(scope="class")
    @classmethod
    def alone(cls, still, tmp_path_factory):
        return train(tmp_path_factory.mktemp("alone") / "run", still, **TWO)

    def arguments(self, folder, still, *options, **changes):
        return ["train", "transformer", *settings(still, TWO | changes), "--output", folder, *options]

    @pytest.mark.parametrize("name", ["torchrun", "accelerate"])
    def test_learn_what_one_learns(self, name, still, alone, tmp_path):
        done = in_two_processes(name, *self.arguments(tmp_path / "run", still))
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_of(tmp_path / "run") == files_of(alone)
        assert losses(tmp_path / "run") != losses(alone), "there were two"
        assert losses(tmp_path / "run") == pytest.approx(losses(alone), rel=0.03)
        assert f1(tmp_path / "run") == pytest.approx(f1(alone), abs=0.1)
        assert f1(alone) > 0.2, "or else the test says little"
        assert len(re.findall("The model is in", done.stdout)) == 1, "one of them speaks"

    def test_learn_the_same_term_on_the_same_base(self, still, alone, tmp_path):
        folder = tmp_path / "run"
        done = in_two_processes("torchrun", *self.arguments(folder, still, base=str(alone)))
        assert done.returncode == 0, done.stdout + done.stderr
        assert losses(folder, "term") != losses(alone, "term"), "there were two"
        assert losses(folder, "term") == pytest.approx(losses(alone, "term"), rel=0.05)  # other batches
        assert f1(folder, stage="base") == f1(alone, stage="base")
        assert f1(folder) == pytest.approx(f1(alone), abs=0.1)

    def test_that_were_stopped_go_on(self, still, alone, tmp_path):
        folder = tmp_path / "run"
        with killed_at(StageTrainer, "evaluate", 4):
            train(folder, still, **TWO)
        assert (folder / "base" / "checkpoints").is_dir()
        done = in_two_processes("torchrun", *self.arguments(folder, still, "--resume"))
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_of(folder) == files_of(alone)
        assert losses(folder)[:3] == losses(alone)[:3]
        assert losses(folder)[3:] != losses(alone)[3:], "there were two"
        assert losses(folder) == pytest.approx(losses(alone), rel=0.03)
        assert len(losses(folder)) == 6

    def test_cannot_share_too_few_documents(self, still, tmp_path):
        arguments = self.arguments(tmp_path / "run", still)
        done = in_two_processes("torchrun", *arguments, "--set", "data.train=newswire:1:1")
        assert done.returncode != 0
        assert "1 documents in batches of" in done.stdout + done.stderr
