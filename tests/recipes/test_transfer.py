"""The transfer study and the picture of gains, on a small run of generated news."""

import json

import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from recipes import recurrence
from recipes.transfer.__main__ import app
from tests.tiny import train, write_recipe
from tests.tiny_transformer import NAMES, save_classifier

pytest.importorskip("flair")
RUNNER = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})
CROSS_FIT = {"scores": {"name": "cross_fit", "folds": 2, "epochs": 1}}


def transfer(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "news-1", term_training=CROSS_FIT)


def test_learn_and_compare(run, tmp_path, monkeypatch):
    monkeypatch.setattr("recipes.transfer.learning.STEPS", 6)
    term = tmp_path / "term.safetensors"
    learned = transfer("learn", run, run, "--output", term, "--cache", tmp_path / "cache")
    assert learned.exit_code == 0, learned.output
    with safe_open(term, "pt") as file:
        assert file.metadata()["learned_on"] == "news-1 news-1"
        assert file.get_tensor("agreement").abs().sum() > 0
    classifier = save_classifier(tmp_path / "classifier", names=NAMES)
    recipe, figures = write_recipe(tmp_path / "recipe.yaml"), tmp_path / "figures.json"
    compared = transfer("compare", classifier, recipe, "--term", term, "--split", "test", "--json", figures)
    assert compared.exit_code == 0, compared.output
    result = json.loads(figures.read_text())
    assert {"0.25", "1.0", str(result["suited"])} <= result["upgraded"].keys()
    assert 0 <= result["contradiction"] <= 1


def test_base_models_of_flair(tmp_path, monkeypatch):
    recipe = write_recipe(tmp_path / "recipe.yaml", data={"train": "newswire:2:1", "dev": "newswire:1:2"})
    trained = transfer("base", recipe, tmp_path / "flair", "--library", "flair")
    assert trained.exit_code == 0, trained.output
    compared = transfer("compare", tmp_path / "flair", recipe)
    assert compared.exit_code == 0, compared.output
    assert "(suited)" in compared.output


def test_transformers_needs_an_encoder(tmp_path):
    refused = transfer("base", "quickstart", tmp_path / "base", "--library", "transformers")
    assert refused.exit_code == 1


def test_recurrence(run, tmp_path):
    pytest.importorskip("matplotlib")
    recurrence.main([run], output=tmp_path / "picture")
    figures = json.loads((tmp_path / "picture.json").read_text())
    (corpus,) = figures.values()
    assert 0 < corpus["recurrence"] < 1
    assert corpus["seeds"].keys() == {"3"}
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
