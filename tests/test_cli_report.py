"""`gspen-ner report` as a user meets it."""

import json
import re
from pathlib import Path

import pytest

from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.recipe import load_recipe
from tests.report.test_report_page import Page
from tests.test_cli_ner import refused, run
from tests.tiny import content_of, train


@pytest.fixture(scope="module")
def written(trained, tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.html"
    output = run("report", trained, "newswire:5:3", "--output", file).output
    return file, output


def test_it_says_what_it_wrote(written):
    file, output = written
    assert re.search(rf"wrote \S*{file.name} \(\d\.\d MB\): open it in a browser", output.replace("\n", ""))
    assert [entry.name for entry in file.parent.iterdir()] == ["report.html"]


def test_the_page_has_the_figures_of_evaluate(written, trained):
    page = Page(written[0].read_text())
    results = json.loads((trained / "results.json").read_text())["test"]
    for system in ("base", "full"):
        assert f"{100 * results[system]['score']['micro']['f1']:.2f}" in page.text
    assert "Learning curves" in page.text
    assert "Convergence of inference" in page.text
    assert page.data["labels"] == list(Tagger.load(trained).labels.names)
    assert all(len(entry["m"]) == 2 and entry["r"] for entry in page.data["sentences"])


def test_it_is_report_html_if_not_told_where(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("report", trained / "model", "newswire:2:3")
    page = Page((tmp_path / "report.html").read_text())
    assert "Learning curves" not in page.text, "a model alone does not know how it was trained"


def test_a_run_is_reported_on_its_own_test_data(trained, tmp_path):
    named = load_recipe(trained / "recipe.yaml").data.test
    for name, data in (("own.html", []), ("named.html", [named])):
        run("report", trained, *data, "-o", tmp_path / name)
    assert (tmp_path / "own.html").read_text() == (tmp_path / "named.html").read_text()


def test_a_model_has_no_data_of_its_own(trained, tmp_path):
    message = "model: not a run's folder (no recipe.yaml): give the DATA argument"
    refused("report", trained / "model", "-o", tmp_path / "x.html", message=message)
    assert not list(tmp_path.iterdir())


def test_a_plain_crf(tmp_path):
    folder = train(tmp_path / "run", system="struct", terms=[], base_training={"epochs": 1})
    run("report", folder, "newswire:2:3", "-o", tmp_path / "x.html")
    page = Page((tmp_path / "x.html").read_text())
    assert "GSPEN" not in page.text
    assert page.data["names"] == ["CRF"]


def test_what_users_type_is_escaped(trained, tmp_path):
    tokens = ["<script>alert(1)</script>", "Graz"]
    data = tmp_path / "<b>.jsonl"
    data.write_text(json.dumps({"tokens": tokens, "tags": ["B-<i>", "B-LOC"]}))
    output = run("report", trained, data, "-o", tmp_path / "x.html").output
    assert "types the model does not know count as missed: <i>" in output
    page = Page((tmp_path / "x.html").read_text())
    assert f"on {data}" in page.text
    assert "i" not in page.tags
    assert page.tags.count("script") == 2
    assert page.data["sentences"][0]["t"] == tokens


@pytest.mark.parametrize(
    ("data", "message"),
    [("none.conll", "none.conll: no such file"), ("newswire:0:1", "no sentences to evaluate on")],
)
def test_bad_data_are_refused(data, message, trained, tmp_path):
    refused("report", trained, data, "-o", tmp_path / "x.html", message=message)
    assert not list(tmp_path.iterdir())


def test_a_torn_log_is_refused(trained, tmp_path):
    for name, content in content_of(trained).items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content[:-20] if name.name == "metrics.jsonl" else content)
    refused("report", tmp_path / "run", "newswire:1:1", "-o", tmp_path / "x.html", message="not JSON")
    assert not (tmp_path / "x.html").exists()


def test_places_that_cannot_be_written_are_refused_at_once(trained, tmp_path):
    file = tmp_path / "none" / "x.html"
    refused("report", trained, "newswire:1:1", "-o", file, message="is not a directory", code=2)
    refused("report", trained, "newswire:1:1", "-o", tmp_path, message="is a directory", code=2)


def test_an_error_while_writing_leaves_the_old_page(trained, tmp_path, monkeypatch):
    (tmp_path / "x.html").write_text("old")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    refused("report", trained, "newswire:1:1", "-o", tmp_path / "x.html", message="No space left")
    assert content_of(tmp_path) == {Path("x.html"): b"old"}
