"""The bench `table`: what is timed, how times are scaled and compared. No time is asserted."""

import json

import pytest
import torch
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from gspen_ner.polytopes import LocalPolytope, Tree
from gspen_ner.training import Trained
from recipes.bench import table
from recipes.bench.commands import bench
from recipes.bench.table import (
    BY_MESSAGES,
    PAPER_SECONDS,
    UPDATES,
    TimedTask,
    as_table,
    time_task,
    timed_tasks,
)
from recipes.multilabel.__main__ import app
from tests.recipes.commands import run_command
from tests.recipes.multilabel.test_command import TINY as MULTILABEL

RUNNER = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


class MadeUp:
    """A contestant whose updates take as long as it says."""

    def __init__(self, name, times, batch_size=10):
        self.name, self.times = name, iter(times)
        self.training = type("Training", (), {"batch_size": batch_size})

    def train(self, updates):
        return Trained(0.0, updates, next(self.times) * updates, 3.5, 0.0)


def made_up(folder, rows):
    yield MadeUp("Struct", [9, 1, 2, 3])
    yield MadeUp(BY_MESSAGES, [9, 4, 4, 5])
    yield MadeUp("SPEN", [9, 30, 10, 5])
    yield MadeUp("GSPEN", [9, 50, 50, 50], batch_size=20)


@pytest.fixture
def rows():
    return time_task(TimedTask("Bibtex", "made up", 1000, made_up), rows=100, rounds=3)


def test_times_are_medians_of_rounds_but_the_first_scaled_to_an_epoch(rows):
    assert [row.system for row in rows] == ["Struct", BY_MESSAGES, "SPEN", "GSPEN"]
    assert [row.seconds for row in rows] == [200, 400, 1000, 2500]
    assert {row.steps for row in rows} == {3.5}


def test_ratios_to_both_structs_stand_beside_the_papers(rows):
    assert [row.times_struct for row in rows] == [None, 2, 5, 12.5]
    assert [row.times_messages for row in rows] == [0.5, None, 2.5, 6.25]
    assert [row.paper for row in rows] == [
        None,
        None,
        pytest.approx(32.64, abs=0.01),
        pytest.approx(38.53, abs=0.01),
    ]


def test_the_papers_ratios():
    def ratios(task):
        return {name: round(value / task["Struct"], 1) for name, value in task.items() if name != "Struct"}

    assert {task: ratios(seconds) for task, seconds in PAPER_SECONDS.items()} == {
        "OCR": {"SPEN": 1.5, "NLStruct": 171.4, "GSPEN": 21.0},
        "tagging": {"SPEN": 1.6, "NLStruct": 11.1, "GSPEN": 9.1},
        "Bibtex": {"SPEN": 32.6, "GSPEN": 38.5},
        "Bookmarks": {"SPEN": 15.6, "GSPEN": 38.7},
        "NER": {"GSPEN": 3.4},
    }


def test_a_ratio_above_the_papers_is_marked(rows):
    slow = time_task(
        TimedTask("tagging", "made up", 10, lambda *_: [MadeUp("Struct", [1, 1]), MadeUp("SPEN", [2, 2])]),
        10,
        1,
    )
    cells = list(as_table([*rows, *slow]).columns[5].cells)
    assert cells == ["", "2.00", "5.00", "12.50", "", "2.00 ABOVE"]


def test_without_the_data_generated_ones_of_the_published_size_are_timed(monkeypatch):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    sources = {task.name: (task.data, task.rows) for task in timed_tasks()}
    assert sources == {
        "OCR": ("letters drawn from fonts", 1000),
        "tagging": ("generated", 10_000),
        "Bibtex": ("generated", 3660),
        "Bookmarks": ("generated", 48_000),
    }


@pytest.mark.parametrize("name", ["tagging", "Bookmarks"])
def test_contestants_are_the_recipes_systems_a_little_trained(name, monkeypatch, tmp_path):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    monkeypatch.setattr(table, "UPDATES", dict.fromkeys(UPDATES, 1))
    (task,) = (task for task in timed_tasks() if task.name == name)
    timed = {contestant.name: contestant for contestant in task.contestants(tmp_path, 40)}
    assert list(timed)[:2] == ["Struct", BY_MESSAGES]
    assert {"SPEN", "GSPEN"} <= set(timed)
    exact, near = (timed[key].system.scorer.polytope(1) for key in ("Struct", BY_MESSAGES))
    assert isinstance(exact, Tree) or exact.oracle == "cut"
    assert isinstance(near, LocalPolytope)
    assert (near.oracle, near.max_sweeps) == ("messages", 100 if name == "tagging" else 5)
    struct = timed["Struct"].system.scorer
    before = {key: weight.clone() for key, weight in struct.pairs.named_parameters()}
    assert timed["GSPEN"].train(1).seconds_an_epoch > 0
    if name == "tagging":  # GSPEN stands on Struct's pairs
        assert all(torch.equal(weight, before[key]) for key, weight in struct.pairs.named_parameters())
    timed["Struct"].train(2)
    assert not all(torch.equal(weight, before[key]) for key, weight in struct.pairs.named_parameters())


def test_systems_of_a_run_are_timed_as_they_are(monkeypatch, tmp_path):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    (tmp_path / "bibtex.yaml").write_text(
        yaml.safe_dump(MULTILABEL | {"seeds": [4], "systems": ["struct", "spen"]})
    )
    run = tmp_path / "runs" / "bibtex"
    assert run_command(app, tmp_path / "bibtex.yaml", "--output", run).exit_code == 0
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    tasks = {task.name: task for task in timed_tasks(tmp_path / "runs")}
    assert [tasks[name].data for name in ("Bibtex", "Bookmarks")] == ["generated, trained", "generated"]
    timed = {one.name: one for one in tasks["Bibtex"].contestants(tmp_path / "unused", 50)}
    assert list(timed) == ["Struct", BY_MESSAGES, "SPEN"], "what the run has"
    for name in ("Struct", BY_MESSAGES, "SPEN"):
        weights = load_file(run / "seed-4" / name.partition(",")[0].lower() / "model.safetensors")
        learned = {
            key: weight for key, weight in timed[name].system.named_parameters() if weight.requires_grad
        }
        assert weights.keys() == learned.keys()
        assert all(torch.equal(weights[key], learned[key]) for key in weights)
        assert len(timed[name].examples) == 50
    timed["SPEN"].train(1)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_the_command_shows_a_table_and_writes_json(monkeypatch, tmp_path):
    monkeypatch.setattr(table, "timed_tasks", lambda runs: [TimedTask("Bibtex", "made up", 1000, made_up)])
    monkeypatch.setattr(table, "time_ner", None)
    result = RUNNER.invoke(bench, ["table", "--quick", "--json", str(tmp_path / "table.json")])
    assert result.exit_code == 0, result.output
    assert "times Struct by messages" in " ".join(result.output.split())
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [row["system"] for row in rows] == ["Struct", BY_MESSAGES, "SPEN", "GSPEN"]
