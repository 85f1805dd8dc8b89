"""The commands of `python -m recipes.bench`, and the peers of `chain`."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from recipes.bench import chain, graph
from recipes.bench.chain import ChainProblem, FlairCRF, PytorchCRF, TorchLoop, TorchStruct
from recipes.bench.commands import bench
from recipes.bench.graph import GraphProblem
from tests.tiny import make_model

runner = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


def measure(*arguments):
    return runner.invoke(bench, arguments)


@pytest.mark.parametrize(
    "name", ["chain", "graph", "inference", "training", "flair", "table", "tag", "serve"]
)
def test_every_benchmark_explains_itself(name):
    result = measure(name, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output


@pytest.mark.parametrize("peer", [TorchLoop(), TorchStruct(), PytorchCRF(), FlairCRF()], ids=lambda p: p.name)
def test_peers_agree_with_ours(peer):
    if peer.missing():
        pytest.skip(peer.missing())
    for contest in peer.contests(ChainProblem(9, 12, 7)):
        contest.check()


def test_disagreement_stops_the_measurement():
    contest = next(TorchLoop().contests(ChainProblem(2, 5, 4)))
    wrong = dataclasses.replace(contest, results=lambda: ([[0.0, 1.0]], [[0.0, 2.0]]))
    with pytest.raises(AssertionError, match="result 0 differs by"):
        wrong.check()


def test_bench_chain_writes_a_table_and_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(chain, "MAIN", ChainProblem(8, 6, 5))
    monkeypatch.setattr(chain, "PEERS", (TorchLoop(), _Absent()))
    file = tmp_path / "rows.json"
    result = measure("chain", "--quick", "--seconds", "0", "--json", str(file))
    assert result.exit_code == 0, result.output
    assert "left out: nobody 1.0 is not installed" in result.output
    assert "torch loop" in result.output
    rows = json.loads(file.read_text())
    assert [row["what"] for row in rows] == ["marginals", "likelihood", "viterbi"]
    for row in rows:
        assert set(row) == {"case", "what", "ours_ms", "peer", "peer_ms", "ratio"}
        assert row["case"] == "(8, 6, 5)"
        assert row["ratio"] == pytest.approx(row["peer_ms"] / row["ours_ms"])
        assert row["ours_ms"] > 0


def test_bench_graph_writes_a_table_and_rows(monkeypatch, tmp_path):
    monkeypatch.delenv("GSPEN_PGMAX_PYTHON", raising=False)
    monkeypatch.setattr(graph, "MAIN", GraphProblem("star 4x2", 4, 2, ((0, 1), (0, 2), (0, 3)), 5))
    monkeypatch.setattr(graph.PGMax, "missing", lambda self: "PGMax is not here")
    file = tmp_path / "rows.json"
    result = measure("graph", "--quick", "--seconds", "0", "--json", str(file))
    assert result.exit_code == 0, result.output
    assert "left out: PGMax is not here" in result.output
    assert "star 4x2" in result.output
    rows = json.loads(file.read_text())
    assert [row["what"] for row in rows] == ["100 sweeps", "sum-product"]
    for row in rows:
        assert row["peer"].startswith("numpy loop, scaled up from ")
        assert row["ours_ms"] > 0
        assert row["peer_ms"] > 0


def test_bench_graph_refuses_an_interpreter_that_is_not_there(tmp_path):
    result = measure("graph", "--pgmax-python", str(tmp_path / "python"))
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_an_output_file_in_a_missing_folder_is_refused_at_once(tmp_path):
    result = measure("chain", "--json", str(tmp_path / "none" / "rows.json"))
    assert result.exit_code == 2
    assert "is not a directory" in result.output


@pytest.mark.slow
def test_bench_inference(tmp_path):
    file = tmp_path / "rows.json"
    result = measure("inference", "--seconds", "0", "--json", str(file))
    assert result.exit_code == 0, result.output
    assert "chain kernel" in result.output
    assert json.loads(file.read_text())[0]["what"] == "inference"


@pytest.mark.slow
def test_bench_chain_on_every_case():
    result = measure("chain", "--seconds", "0")
    assert result.exit_code == 0, result.output
    for text in ("(4, 4096, 9)", "half the length", "half the batch", "table per position"):
        assert text in result.output


@pytest.mark.slow
def test_bench_of_a_model_in_use(tmp_path):
    make_model().save_pretrained(tmp_path / "model")
    file = tmp_path / "runs.json"
    options = ("--sentences", "40", "--sentences", "80", "--workers", "1", "--json", str(file))
    result = measure("tag", str(tmp_path / "model"), *options)
    assert result.exit_code == 0, result.output
    small, large = json.loads(file.read_text())
    assert (small["sentences"], large["sentences"]) == (40, 80)
    assert large["seconds"] > 0
    assert large["peak_mb"] > 100
    options = ("--clients", "4", "--requests", "40", "--json", str(file))
    result = measure("serve", str(tmp_path / "model"), *options)
    assert result.exit_code == 0, result.output
    (served,) = json.loads(file.read_text())
    assert (served["clients"], served["requests"], served["lost"], served["wrong"]) == (4, 40, 0, 0)
    assert served["p99_ms"] >= served["median_ms"] > 0


class _Absent(TorchLoop):
    package, wanted_version = "nobody", "1.0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "options", "expected"),
    [
        ("training", ("--documents", "6"), "GSPEN (document), all trained"),
        ("flair", ("--sentences", "64"), "GSPENTagger, training epoch"),
    ],
)
def test_bench_of_whole_taggers(verb, options, expected, monkeypatch, tmp_path):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    file = tmp_path / "rows.json"
    result = measure(verb, *options, "--rounds", "1", "--json", str(file))
    assert result.exit_code == 0, result.output
    rows = {row["what"]: row for row in json.loads(file.read_text())}
    assert rows[expected]["ours_ms"] > 0
    assert rows[expected]["case"].startswith("newswire")
