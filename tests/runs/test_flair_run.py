"""Recipes of the Flair host, by the command line, on generated news."""

import json

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("flair")

from gspen_ner.cli import app
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.recipe import load_recipe

RECIPE = """
extends: conll03_flair_offline
data: {train: "newswire:25:1", dev: "newswire:4:2", test: "newswire:4:3"}
embeddings: [{name: characters, size: 8, hidden: 8}]
tagger: {hidden_size: 16}
base_training: {epochs: 3, batch_size: 8, optimizer: adam, learning_rate: 0.02, anneal_on: train_loss}
term_training: {epochs: 2, learning_rate: 0.05}
"""
runner = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


def gspen_ner(*arguments, input=None):
    return runner.invoke(app, [str(argument) for argument in arguments], input=input)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    file.write_text(RECIPE)
    return file


@pytest.fixture(scope="module")
def run(recipe):
    folder = recipe.parent / "run"
    result = gspen_ner("train", recipe, "--output", folder)
    assert result.exit_code == 0, result.output
    assert "CRF + GSPEN" in result.output
    return folder


def test_the_folder_holds_what_any_run_holds(run):
    for name in ("recipe.yaml", "metrics.jsonl", "results.json", "log.txt", "model/model.pt"):
        assert (run / name).is_file(), name
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        ("base", 1), ("base", 2), ("base", 3), ("term", 1), ("term", 2),
    ]  # fmt: skip
    results = json.loads((run / "results.json").read_text())
    assert results["system"] == "gspen"
    assert results["test"]["full"]["score"]["micro"]["support"] > 0


def test_a_report_is_made_of_it(run, tmp_path):
    result = gspen_ner("report", run, "newswire:4:3", "-o", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report.html").read_text()
    for words in ("Learning curves", "Convergence of inference", "CRF + GSPEN", '"m":["', '"r":['):
        assert words in page


def test_evaluate_and_predict_take_it(run, tmp_path):
    file = tmp_path / "scores.json"
    result = gspen_ner("evaluate", run, "newswire:4:3", "--json", file)
    assert result.exit_code == 0, result.output
    recorded = json.loads((run / "results.json").read_text())["test"]
    assert json.loads(file.read_text())["full"] == recorded["full"]
    assert recorded["full"]["uncalibrated"] != recorded["full"]["calibration"]
    assert recorded["full"]["score"]["micro"]["f1"] > 0
    result = gspen_ner("predict", run, "-", "--format", "jsonl", "--k-best", "2", input="Halden won.\n")
    assert len(json.loads(result.output)["k_best"]) == 2


def test_probabilities_do_not_depend_on_the_batch(run):
    tagger = load_tagger(run)
    sentences = [["Halden", "won", "."], ["The", "town", "of", "Halden", "is", "quiet", "."], ["Rome"]]
    together = tagger.tag(sentences, [0, 0, 1])
    back = tagger.tag(sentences[::-1], [1, 0, 0])[::-1]
    for one, other in zip(together, back, strict=True):
        assert [e.span for e in one.entities] == [e.span for e in other.entities]
        assert [e.probability for e in one.entities] == pytest.approx(
            [e.probability for e in other.entities], abs=1e-4
        )


def test_a_stage_that_was_killed_is_not_pretended_to_go_on(recipe, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(load_recipe(recipe).as_yaml())
    (folder / "base").mkdir()
    result = gspen_ner("train", recipe, "--output", folder, "--resume")
    assert result.exit_code == 1
    assert "Flair's trainer cannot continue it" in result.output.replace("\n", " ")


def test_a_done_stage_is_kept(run, recipe):
    before = (run / "base" / "best" / "model.pt").read_bytes()
    result = gspen_ner("train", recipe, "--output", run, "--resume")
    assert result.exit_code == 0, result.output
    assert (run / "base" / "best" / "model.pt").read_bytes() == before


def test_a_base_of_another_run_serves(run, recipe, tmp_path):
    base = f"base={run / 'base' / 'best'}"
    result = gspen_ner("train", recipe, "--set", base, "--output", tmp_path / "second")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "second" / "base").exists()


def test_what_is_no_flair_file_gets_a_clear_error(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"nonsense")
    result = gspen_ner("evaluate", tmp_path, "newswire:1:1")
    assert result.exit_code == 1
    assert "not a Flair tagger" in result.output
    torch.save({"state_dict": {}}, tmp_path / "model.pt")
    assert "not a Flair tagger" in gspen_ner("evaluate", tmp_path, "newswire:1:1").output


def test_the_paper_s_recipe_is_the_appendix():
    recipe = load_recipe("conll03_flair")
    for training in (recipe.base_training, recipe.term_training):
        assert (training.optimizer, training.learning_rate, training.batch_size) == ("sgd", 0.1, 32)
        assert (training.anneal_on, training.anneal_factor, training.patience) == ("train_loss", 0.5, 3)
        assert (training.min_learning_rate, training.epochs) == (1e-4, 150)
    assert recipe.term_training.freeze == "none"
    assert [entry.name for entry in recipe.embeddings] == ["words", "flair", "flair", "characters"]
    assert recipe.inference.tolerance == 0.1
