"""Runs as a user starts them: what they leave behind, how they go on after a kill, what they refuse."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageTrainer
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.ner.calibration import calibrate
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import load_recipe
from tests.tiny import (
    BASES,
    content_of,
    gspen_ner,
    killed_at,
    metrics_of,
    results_of,
    same_weights,
    train,
    weights_of,
    write_conll,
    write_recipe,
)

MODEL_FILES = {"README.md", "config.json", "model.safetensors", "vocabulary.json"}


def files_of(folder):
    return {str(file) for file in content_of(folder)}


def stage_files(name):
    return {f"{name}/done.json", *(f"{name}/best/{file}" for file in MODEL_FILES)}


def scorer_weights(folder):
    return {name: weight for name, weight in weights_of(folder).items() if name.startswith("scorer.")}


def f1(folder, split="dev", stage="full"):
    return results_of(folder)[split][stage]["score"]["micro"]["f1"]


def assert_same_outcome(one, other):
    assert results_of(one) == results_of(other)
    assert metrics_of(one) == metrics_of(other)
    assert files_of(one) == files_of(other)
    for model in one.rglob("model.safetensors"):
        assert same_weights(weights_of(model.parent), weights_of(other / model.parent.relative_to(one))), (
            model
        )


class TestTheFolderOfARun:
    def test_holds_what_is_promised_and_nothing_else(self, trained):
        assert files_of(trained) == {
            "recipe.yaml", "metrics.jsonl", "results.json", "log.txt",
            "entities-dev.json", "entities-test.json",
            *(f"model/{file}" for file in MODEL_FILES), *stage_files("base"), *stage_files("term"),
        }  # fmt: skip

    def test_has_the_recipe_with_every_entry(self, trained):
        written = load_recipe(trained / "recipe.yaml")
        assert written == load_recipe(trained.with_suffix(".yaml"))
        assert "positive_part: true" in (trained / "recipe.yaml").read_text()

    def test_has_each_epoch_once_in_the_metrics(self, trained):
        entries = metrics_of(trained)
        for stage, epochs in (("base", 6), ("term", 2)):
            for key in ("loss", "eval_f1"):
                found = [entry["epoch"] for entry in entries if entry["stage"] == stage and key in entry]
                assert found == [1.0 + epoch for epoch in range(epochs)]
        terms = [entry for entry in entries if entry["stage"] == "term" and "loss" in entry]
        assert all({"negative_losses", "inference_steps"} <= entry.keys() for entry in terms)
        losses = [entry["loss"] for entry in entries if entry["stage"] == "base" and "loss" in entry]
        assert losses == sorted(losses, reverse=True), "it learns"

    def test_has_the_best_model_and_its_scores(self, trained):
        scores = {
            stage: max(e["eval_f1"] for e in metrics_of(trained) if e["stage"] == stage and "eval_f1" in e)
            for stage in ("base", "term")
        }
        assert f1(trained, stage="base") == scores["base"] > 0.2
        assert f1(trained, stage="full") == scores["term"] > 0.2
        assert same_weights(weights_of(trained / "model"), weights_of(trained / "term" / "best"))

    def test_has_a_model_that_is_calibrated_on_dev(self, trained):
        tagger = load_tagger(trained)
        fitted = tagger.confidences
        errors = calibrate(tagger, read_source("newswire:5:2").sentences)
        assert tagger.confidences == fitted
        results = results_of(trained)["dev"]
        for stage, error in zip(("base", "full"), errors, strict=True):
            assert results[stage]["uncalibrated"]["ece"] == pytest.approx(error.uncalibrated)
            assert results[stage]["calibration"]["ece"] < error.uncalibrated
            line = f"calibrated on its other half by {100 * error.held_out:.2f} %"
            assert line in (trained / "log.txt").read_text()

    def test_has_a_log_line_for_each_epoch(self, trained):
        lines = (trained / "log.txt").read_text().splitlines()
        assert sum("base, epoch" in line for line in lines) == 6
        assert sum("term, epoch 2/2: loss" in line for line in lines) == 1

    def test_has_times_of_both_stages(self, trained):
        seconds = json.loads((trained / "results.json").read_text())["seconds_an_epoch"]
        assert seconds.keys() == {"base", "term"}
        assert all(value > 0 for value in seconds.values())

    def test_has_counted_what_the_term_changed(self, trained):
        for split in ("dev", "test"):
            result = results_of(trained)[split]
            errors = {
                stage: round(
                    sum(
                        score["support"] * (1 - score["recall"])
                        for score in result[stage]["score"]["types"].values()
                    )
                )
                for stage in ("base", "full")
            }
            assert result["changes"]["fixed"] + result["changes"]["same"] >= errors["base"]
            assert result["changes"]["broken"] + result["changes"]["same"] >= errors["full"]


def test_another_seed_gives_another_run(tmp_path):
    one, two = train(tmp_path / "one", system="struct"), train(tmp_path / "two", system="struct", seed=4)
    assert not same_weights(weights_of(one / "model"), weights_of(two / "model"))


def test_the_written_recipe_gives_the_same_run_again(tmp_path):
    one = train(tmp_path / "one")
    result = gspen_ner("train", one / "recipe.yaml", "--output", tmp_path / "two")
    assert result.exit_code == 0, result.output
    assert_same_outcome(one, tmp_path / "two")


class TestAnOpenedFolder:
    def refused(self, folder, *options, message, **changes):
        before = content_of(folder)
        recipe = write_recipe(folder.with_suffix(".new.yaml"), **changes)
        result = gspen_ner("train", recipe, "--output", folder, *options)
        assert result.exit_code == 1
        assert message in result.output
        assert "Traceback" not in result.output
        assert content_of(folder) == before

    @pytest.fixture
    def done(self, tmp_path):
        return train(tmp_path / "run", system="unary", base_training={"epochs": 1})

    def test_with_a_run_needs_resume(self, done):
        changes = {"system": "unary", "base_training": {"epochs": 1}}
        self.refused(done, message="holds a run already: continue it with --resume", **changes)

    def test_of_another_recipe_is_refused(self, done):
        changes = {"system": "unary", "base_training": {"epochs": 2}}
        self.refused(done, "--resume", message="a run of another recipe", **changes)

    def test_with_other_files_is_refused(self, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("precious")
        self.refused(tmp_path / "mine", message="is not empty and holds no run")

    def test_without_a_run_cannot_be_resumed(self, tmp_path):
        self.refused(tmp_path / "none", "--resume", message="holds no run to resume")
        assert not (tmp_path / "none").exists()

    def test_that_is_empty_is_used(self, tmp_path):
        (tmp_path / "run").mkdir()
        train(tmp_path / "run", system="unary", base_training={"epochs": 1})

    def test_of_a_finished_run_resumed_changes_nothing(self, done):
        before = content_of(done)
        train(done, "--resume", system="unary", base_training={"epochs": 1})
        after = content_of(done)
        assert after.pop(Path("log.txt")).startswith(before.pop(Path("log.txt")))
        assert after == before


FULL = {
    "base_training": {"average": 0.5, "learning_rate": 0.06},
    "term_training": {"average": 0.5, "learning_rate": 0.3, "dropout_draws": 2},
}
FOLDS = {"term_training": {"folds": 2}}
STEPS = -(-len(generate_newswire(8, seed=1)) // 8)


class TestAResumedRun:
    @pytest.fixture(scope="class")
    @classmethod
    def unbroken(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("unbroken")
        runs = {name: train(folder / name, **changes) for name, changes in (("full", FULL), ("folds", FOLDS))}
        assert f1(runs["full"]) > 0, "or else the tests say little"
        return runs

    @pytest.mark.parametrize(
        ("name", "owner", "method", "call"),
        [
            pytest.param("full", StageTrainer, "training_step", STEPS + 3, id="in base epoch 2"),
            pytest.param("full", StageTrainer, "training_step", 2 * STEPS + 2, id="in term epoch 1"),
            pytest.param("full", StageTrainer, "evaluate", 4, id="after term epoch 2"),
            pytest.param("full", Tagger, "tag", 2, id="while testing"),
            pytest.param("folds", StageTrainer, "training_step", 4 * STEPS - 1, id="in a fold"),
        ],
    )
    def test_ends_like_an_unbroken_one(self, name, owner, method, call, unbroken, tmp_path):
        changes = {"full": FULL, "folds": FOLDS}[name]
        with killed_at(owner, method, call):
            train(tmp_path / "run", **changes)
        assert not (tmp_path / "run" / "results.json").exists()
        train(tmp_path / "run", "--resume", **changes)
        assert_same_outcome(tmp_path / "run", unbroken[name])

    def test_can_be_killed_again_and_again(self, unbroken, tmp_path):
        options = []
        for call in (2, STEPS + 2, 3, STEPS + 1, 2):
            with killed_at(StageTrainer, "training_step", call):
                train(tmp_path / "run", *options, **FULL)
            options = ["--resume"]
        train(tmp_path / "run", "--resume", **FULL)
        assert_same_outcome(tmp_path / "run", unbroken["full"])

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    def test_ends_like_an_unbroken_one_after_real_kills(self, tmp_path):
        changes = FULL | {
            "data": {"train": "newswire:20:1"},
            "base_training": FULL["base_training"] | {"epochs": 12},
            "term_training": FULL["term_training"] | {"epochs": 12},
        }
        recipe = write_recipe(tmp_path / "recipe.yaml", **changes)

        def start(folder, *options):
            arguments = [sys.executable, "-m", "gspen_ner.cli", "train", recipe, "--output", folder, *options]
            log = (tmp_path / "output.txt").open("a")
            return subprocess.Popen(
                arguments, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )

        def epochs(folder, stage):
            file = folder / "metrics.jsonl"
            text = file.read_text() if file.exists() else ""
            return sum(
                entry["stage"] == stage and "eval_f1" in entry for entry in map(json.loads, text.splitlines())
            )

        def kill_in(folder, stage, epoch, *options):
            process = start(folder, *options)
            while epochs(folder, stage) < epoch:
                assert process.poll() is None, (tmp_path / "output.txt").read_text()
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert epochs(folder, stage) < 12, "killed before the stage was over"
            assert not (folder / "results.json").exists()

        def finish(folder, *options):
            assert start(folder, *options).wait() == 0, (tmp_path / "output.txt").read_text()

        finish(tmp_path / "unbroken")
        kill_in(tmp_path / "twice", "base", 1)
        kill_in(tmp_path / "twice", "term", 1, "--resume")
        finish(tmp_path / "twice", "--resume")
        kill_in(tmp_path / "late", "term", 5)
        finish(tmp_path / "late", "--resume")
        for name in ("twice", "late"):
            assert_same_outcome(tmp_path / name, tmp_path / "unbroken")


class TestABaseOfItsOwn:
    @pytest.fixture(scope="class")
    @classmethod
    def bases(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bases")
        return {system: train(folder / system, system=system) for system in ("struct", "unary")}

    @pytest.mark.parametrize("system", BASES)
    def test_is_used_as_it_is(self, system, bases, tmp_path):
        base = bases[BASES[system]]
        folder = train(tmp_path / "run", system=system, base=str(base))
        assert not (folder / "base").exists()
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(base / "model"))
        assert results_of(folder)["test"]["base"] == results_of(base)["test"]["base"]
        assert {entry["stage"] for entry in metrics_of(folder)} == {"term"}

    def test_may_be_that_of_another_run_with_a_term(self, trained, tmp_path):
        changes = {"data": {"train": "newswire:40:1"}, "terms": [{"name": "convolution", "hidden": 8}]}
        folder = train(tmp_path / "run", base=str(trained / "base" / "best"), **changes)
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(trained / "model"))

    def refused(self, tmp_path, message, **changes):
        recipe = write_recipe(tmp_path / "recipe.yaml", **changes)
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert message in result.output
        assert "Traceback" not in result.output

    @pytest.mark.parametrize("system", BASES)
    def test_of_the_wrong_system_is_refused(self, system, bases, tmp_path):
        wrong = "struct" if system == "spen" else "unary"
        message = f"a {wrong} model; {system} starts from a {BASES[system]} one"
        self.refused(tmp_path, message, system=system, base=str(bases[wrong]))

    def test_with_a_term_already_is_refused(self, trained, tmp_path):
        message = "a gspen model; gspen starts from a struct one"
        self.refused(tmp_path, message, base=str(trained / "model"))

    def test_of_a_run_is_the_one_that_its_term_stands_on(self, trained, tmp_path):
        folder = train(tmp_path / "run", base=str(trained))
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(trained / "base" / "best"))

    def test_with_other_labels_is_refused(self, bases, tmp_path):
        one = TaggedSentence(("Rome", "won"), ("B-CITY", "O"), 0)
        data = write_conll(tmp_path / "cities.conll", [one] * 3)
        changes = {"base": str(bases["struct"]), "data": {"train": str(data), "dev": str(data), "test": None}}
        self.refused(tmp_path, "the training data has O, B-CITY", **changes)

    def test_that_does_not_exist_is_refused(self, tmp_path):
        self.refused(tmp_path, "no model here", base=str(tmp_path / "none"))

    def test_of_a_system_without_a_term_must_be_that_system(self, bases, tmp_path):
        self.refused(tmp_path, "unary", system="struct", base=str(bases["unary"]))


class TestFoldsOfAnotherRun:
    TRAINING = {"folds": 2, "fold_epochs": 1}  # noqa: RUF012

    @pytest.fixture(scope="class")
    @classmethod
    def folded(cls, tmp_path_factory):
        return train(tmp_path_factory.mktemp("folded") / "run", term_training=cls.TRAINING)

    def of(self, run, **changes):
        training = self.TRAINING | {"folds_of": str(run)} | changes.pop("term_training", {})
        return {"base": str(run), "term_training": training} | changes

    def test_train_the_same_term(self, folded, tmp_path):
        again = train(tmp_path / "run", **self.of(folded))
        assert {entry["stage"] for entry in metrics_of(again)} == {"term"}
        assert same_weights(weights_of(again / "model"), weights_of(folded / "model"))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"seed": 2}, "differs from this one in its seed"),
            ({"data": {"train": "newswire:9:1"}}, "differs from this one in its data"),
            ({"term_training": {"folds": 3}}, "expected the models of 3 folds"),
        ],
    )
    def test_that_do_not_fit_are_refused_before_anything_is_written(self, changes, message, folded, tmp_path):
        recipe = write_recipe(tmp_path / "recipe.yaml", **self.of(folded, **changes))
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert message in result.output
        assert not (tmp_path / "run").exists()

    def test_that_are_not_there_are_refused(self, trained, tmp_path):
        for run, message in ((trained, "expected the models of 2 folds"), (tmp_path / "none", "recipe.yaml")):
            changes = self.of(run) | {"base": None}
            result = gspen_ner("train", write_recipe(tmp_path / "recipe.yaml", **changes))
            assert result.exit_code == 1
            assert message in result.output


class TestTheDecoder:
    def probabilities(self, folder):
        tagger = Tagger.load(folder)
        tagger.confidences = None  # as the model has them, and with the decoder's default threshold
        tagged = tagger.tag([sentence.tokens for sentence in generate_newswire(40, seed=3)])
        return [entity.probability for prediction in tagged for entity in prediction.entities]

    def test_of_a_run_is_that_of_its_model(self, trained, tmp_path):
        folder = train(tmp_path / "run", base=str(trained), decoder="spans")
        assert min(self.probabilities(trained)) < 0.5 < min(self.probabilities(folder))
        before, after = (results_of(run)["test"]["base"]["score"] for run in (trained, folder))
        assert before["micro"]["precision"] < after["micro"]["precision"]  # of the base model too

    def test_can_be_changed_without_training(self, trained, tmp_path):
        folder = train(tmp_path / "run", system="struct", terms=[], base=str(trained), decoder="spans")
        assert min(self.probabilities(folder)) > 0.5

    def test_that_is_unknown_is_refused(self, tmp_path):
        recipe = write_recipe(tmp_path / "recipe.yaml", decoder="beam")
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert "decoder" in result.output
        assert "'viterbi' or 'spans'" in result.output


class TestEveryKindOfRun:
    @pytest.mark.parametrize("system", ["unary", "struct", "spen"])
    def test_the_other_systems(self, system, tmp_path):
        folder = train(tmp_path / "run", system=system)
        assert results_of(folder)["system"] == system
        assert (results_of(folder)["dev"]["full"] is None) == (system not in BASES)
        assert (folder / "term").exists() == (system in BASES)
        assert Tagger.load(folder).model.config.system == system

    @pytest.mark.parametrize(
        "terms",
        [
            [{"name": "padded_mlp", "hidden": 8}],
            [
                {
                    "name": "padded_mlp",
                    "hidden": 8,
                    "dropout": 0.3,
                    "edge_inputs": "positions",
                    "read_potentials": True,
                }
            ],
            [{"name": "padded_mlp", "hidden": 8, "edge_inputs": "counts", "max_length": 4}],
            [{"name": "convolution", "hidden": 8, "width": 3}],
            [{"name": "document"}, {"name": "padded_mlp", "hidden": 8}],
        ],
        ids=["padded_mlp", "padded_mlp with all", "padded_mlp with counts", "convolution", "sum"],
    )
    def test_every_term_learns_and_is_loaded_again(self, terms, tmp_path):
        folder = train(tmp_path / "run", terms=terms)
        tagger = Tagger.load(folder)
        assert [term["name"] for term in tagger.model.config.terms] == [term["name"] for term in terms]
        assert max(float(weight.abs().max()) for weight in tagger.model.head.term.parameters()) > 0
        losses = [e["loss"] for e in metrics_of(folder) if e["stage"] == "term" and "loss" in e]
        assert losses[1] < losses[0]

    def test_a_padded_mlp_is_as_long_as_the_longest_training_sentence(self, tmp_path):
        folder = train(tmp_path / "run", terms=[{"name": "padded_mlp", "hidden": 8}])
        longest = max(len(sentence.tokens) for sentence in generate_newswire(8, seed=1))
        assert Tagger.load(folder).model.config.terms[0]["max_length"] == longest

    @pytest.mark.parametrize("training", [{"dropout_draws": 2}, {"folds": 2}, {"freeze": "none"}])
    def test_transitions_that_depend_on_the_input(self, training, tmp_path):
        train(tmp_path / "run", scorer={"transitions": "bigram"}, term_training=training)

    def test_a_frozen_base_keeps_its_weights(self, trained):
        assert same_weights(scorer_weights(trained / "model"), scorer_weights(trained / "base" / "best"))

    def test_a_base_that_is_not_frozen_goes_on_learning(self, tmp_path):
        folder = train(tmp_path / "run", term_training={"freeze": "none"})
        before, after = scorer_weights(folder / "base" / "best"), scorer_weights(folder / "model")
        assert not torch.equal(before["scorer.emissions.weight"], after["scorer.emissions.weight"])
        assert not (folder / "potentials").exists()

    def test_dropout_draws_train_another_term(self, tmp_path):
        plain = train(tmp_path / "plain")
        draws = train(tmp_path / "draws", term_training={"dropout_draws": 2})
        assert same_weights(weights_of(plain / "base" / "best"), weights_of(draws / "base" / "best"))
        assert not same_weights(weights_of(plain / "model"), weights_of(draws / "model"))

    @pytest.mark.parametrize("system", BASES)
    def test_folds_train_base_models_of_their_own(self, system, tmp_path):
        folder = train(tmp_path / "run", system=system, term_training={"folds": 2})
        assert stage_files("fold-1") | stage_files("fold-2") < files_of(folder)
        folds = [weights_of(folder / name / "best") for name in ("base", "fold-1", "fold-2")]
        assert not any(same_weights(one, other) for one, other in pairwise(folds))
        assert same_weights(scorer_weights(folder / "model"), folds[0])
        assert {entry["stage"] for entry in metrics_of(folder)} == {"base", "fold-1", "fold-2", "term"}

    def test_folds_may_serve_a_base_that_is_there(self, trained, tmp_path):
        folder = train(tmp_path / "run", base=str(trained), term_training={"folds": 2})
        assert same_weights(scorer_weights(folder / "model"), scorer_weights(trained / "model"))
        assert {entry["stage"] for entry in metrics_of(folder)} == {"fold-1", "fold-2", "term"}

    def test_folds_may_learn_for_fewer_epochs(self, trained, tmp_path):
        training = {"folds": 2, "fold_epochs": 1}
        entries = metrics_of(train(tmp_path / "run", base=str(trained), term_training=training))
        assert [entry["stage"] for entry in entries if "loss" in entry][:3] == ["fold-1", "fold-2", "term"]

    def test_too_many_folds_are_refused(self, tmp_path):
        recipe = write_recipe(tmp_path / "recipe.yaml", term_training={"folds": 9})
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert "expected at least 9 training documents for 9 folds, got 8" in result.output

    def test_trials_have_their_own_seeds_and_the_worst_is_dropped(self, tmp_path):
        data = {"train": "newswire:16:1", "dev": "newswire:5:2"}
        recipe = write_recipe(tmp_path / "recipe.yaml", trials=3, drop_worst=1, data=data)
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 0, result.output
        places = [tmp_path / "run" / f"trial-{number}" for number in (1, 2, 3)]
        bases = [
            max(e["eval_f1"] for e in metrics_of(p) if e["stage"] == "base" and "eval_f1" in e)
            for p in places
        ]
        dropped = min(range(3), key=bases.__getitem__)
        assert len(set(bases)) == 3, "or else the test says nothing"
        for number, place in enumerate(places):
            assert (place / "base" / "done.json").exists()
            assert (place / "results.json").exists() == (place / "term").exists() == (number != dropped)
        seeds = [results_of(place)["seed"] for number, place in enumerate(places) if number != dropped]
        assert seeds == [3 + number for number in range(3) if number != dropped]
        assert f"seed {3 + dropped} is dropped" in (tmp_path / "run" / "log.txt").read_text()
        assert "all trials" in result.output
        assert "±" in result.output
        whole = json.loads((tmp_path / "run" / "results.json").read_text())
        assert [entry["seed"] for entry in whole] == seeds
        best = max(whole, key=lambda entry: entry["dev"]["full"]["score"]["micro"]["f1"])
        model = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
        assert model == (places[best["seed"] - 3] / "model" / "model.safetensors").read_bytes()

    def test_a_trial_is_the_run_with_its_seed(self, tmp_path):
        changes = {"system": "struct", "base_training": {"epochs": 1}}
        single = train(tmp_path / "single", seed=4, **changes)
        trials = train(tmp_path / "trials", trials=2, **changes)
        assert results_of(trials / "trial-2") == results_of(single)

    def test_trials_can_be_resumed(self, tmp_path):
        changes = {"trials": 2, "drop_worst": 1}
        unbroken = train(tmp_path / "unbroken", **changes)
        with killed_at(StageTrainer, "training_step", 3 * STEPS + 2):
            train(tmp_path / "run", **changes)
        train(tmp_path / "run", "--resume", **changes)
        assert files_of(tmp_path / "run") == files_of(unbroken)
        for file in unbroken.glob("trial-*/results.json"):
            assert_same_outcome(file.parent, tmp_path / "run" / file.parent.name)

    def test_a_part_of_the_training_documents(self, tmp_path):
        folder = train(tmp_path / "run", system="unary", data={"fraction": 0.25})
        whole = train(tmp_path / "whole", system="unary")
        words = [len(Tagger.load(run).model.reader.vocabulary.words) for run in (folder, whole)]
        assert words[0] < words[1] / 2

    def test_without_test_data(self, tmp_path):
        folder = train(tmp_path / "run", system="unary", data={"test": None})
        assert results_of(folder)["test"] is None


class TestUnusualData:
    def refused(self, tmp_path, message, **data):
        recipe = write_recipe(tmp_path / "recipe.yaml", data=data)
        result = gspen_ner("train", recipe, "--output", tmp_path / "run")
        assert result.exit_code == 1
        assert message in result.output
        assert "Traceback" not in result.output

    def test_training_data_without_entities_are_refused(self, tmp_path):
        data = write_conll(tmp_path / "dull.conll", [TaggedSentence(("it", "rains"), ("O", "O"), 0)] * 4)
        self.refused(tmp_path, f"data.train: {data} has no entities to learn from", train=str(data))

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    @pytest.mark.parametrize("content", ["", "\n\n", "-DOCSTART- O\n\n"])
    def test_files_without_sentences_are_refused(self, split, content, tmp_path):
        file = tmp_path / "empty.conll"
        file.write_text(content)
        self.refused(tmp_path, f"data.{split}: {file} has no sentences", **{split: str(file)})

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_files_that_are_malformed_are_refused_with_their_line(self, split, tmp_path):
        file = tmp_path / "bad.conll"
        file.write_text("Rome B-LOC\nwon\n")
        self.refused(tmp_path, f"{file}:2: expected 2 columns, got 1", **{split: str(file)})

    def test_after_a_mistake_in_the_data_the_folder_can_be_used(self, tmp_path):
        self.refused(tmp_path, "no such file", train=str(tmp_path / "none.conll"))
        train(tmp_path / "run", system="unary", base_training={"epochs": 1})

    def test_what_a_folder_held_before_a_mistake_is_still_there(self, tmp_path):
        data = write_conll(tmp_path / "train.conll", generate_newswire(4, seed=1))
        changes = {"data": {"train": str(data)}, "base_training": {"epochs": 1}, "system": "unary"}
        folder = train(tmp_path / "run", **changes)
        before = content_of(folder)
        data.write_text("")
        with pytest.raises(AssertionError, match="has no sentences"):
            train(folder, "--resume", **changes)
        after = content_of(folder)
        after.pop(Path("log.txt")), before.pop(Path("log.txt"))
        assert after == before

    def test_a_type_that_only_dev_and_test_have_counts_as_missed(self, tmp_path):
        dev = [
            TaggedSentence(s.tokens, tuple(tag.replace("PER", "ALIEN") for tag in s.tags), s.document)
            for s in generate_newswire(4, seed=2)
        ]
        file = str(write_conll(tmp_path / "dev.conll", dev))
        folder = train(tmp_path / "run", data={"dev": file, "test": file})
        for split in ("dev", "test"):
            types = results_of(folder)[split]["full"]["score"]["types"]
            assert types["ALIEN"]["recall"] == 0
            assert types["ALIEN"]["support"] > 0
        assert "ALIEN" not in Tagger.load(folder).labels.types

    @pytest.mark.parametrize(
        ("term", "transitions"),
        [
            ("document", "shared"),
            ("convolution", "bigram"),
            ("padded_mlp", "shared"),
            ("padded_mlp", "bigram"),
        ],
    )
    def test_sentences_of_one_token(self, term, transitions, tmp_path):
        words = [("Rome", "B-LOC"), ("won", "O"), ("Paris", "B-LOC"), (".", "O")]
        ones = [TaggedSentence((word,), (tag,), number // 2) for number, (word, tag) in enumerate(words * 3)]
        file = str(write_conll(tmp_path / "ones.conll", ones))
        terms = [{"name": term} if term == "document" else {"name": term, "hidden": 8}]
        folder = train(
            tmp_path / "run",
            data={"train": file, "dev": file, "test": file},
            terms=terms,
            scorer={"transitions": transitions},
        )
        assert results_of(folder)["test"]["sentences"] == len(ones)

    def test_one_sentence_is_enough_to_run(self, tmp_path):
        file = str(write_conll(tmp_path / "one.conll", [TaggedSentence(("Rome",), ("B-LOC",), 0)]))
        train(tmp_path / "run", data={"train": file, "dev": file, "test": file})

    @pytest.mark.parametrize(
        ("term", "companions"),
        [("document", 1), ("padded_mlp", 1), pytest.param("document", 10, marks=pytest.mark.slow)],
    )
    def test_a_sentence_of_5000_tokens_is_tagged_among_others(self, term, companions, tmp_path):
        usual = generate_newswire(companions, seed=4)
        many = generate_newswire(60, seed=5)
        tokens, tags = (
            [item for s in many for item in getattr(s, name)][:5000] for name in ("tokens", "tags")
        )
        long = TaggedSentence(tuple(tokens), tuple(tags), 99)
        assert len(long.tokens) == 5000
        file = write_conll(tmp_path / "long.conll", [*usual, long])
        start = time.monotonic()
        terms = [{"name": term} if term == "document" else {"name": term, "hidden": 8}]
        folder = train(tmp_path / "run", data={"test": str(file)}, terms=terms)
        assert time.monotonic() - start < 60
        assert results_of(folder)["test"]["sentences"] == len(usual) + 1
