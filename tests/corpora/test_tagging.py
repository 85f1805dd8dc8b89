"""`gspen-ner tag` as a user meets it: all corpus formats and taggers, kills, resumed runs, bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from gspen_ner.corpora import tagging
from gspen_ner.corpora.worker import PartTagger
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.ner.predictions import as_json_lines
from tests.tiny import content_of, gspen_ner, killed_at, make_model, stir
from tests.tiny_transformer import make_transformer

SENTENCES = generate_newswire(12, seed=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model whose document term has something to say."""
    folder = tmp_path_factory.mktemp("model") / "model"
    stir(make_model(), 3.0).save_pretrained(folder)
    return folder


@pytest.fixture
def corpus(tmp_path):
    """Tokens of documents as JSON lines, with something else beside them."""
    file = tmp_path / "corpus.jsonl"
    rows = [
        {"id": f"é{n}", "tokens": s.tokens, "document": f"d{s.document}"} for n, s in enumerate(SENTENCES)
    ]
    file.write_text("".join(json.dumps(row, ensure_ascii=n % 2 == 0) + "\n" for n, row in enumerate(rows)))
    return file


def run(*arguments):
    result = gspen_ner("tag", *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments, message):
    result = gspen_ner("tag", *arguments)
    assert result.exit_code == 1, result.output
    assert message in result.output
    assert "Traceback" not in result.output


def lines_of(folder):
    return [line for file in sorted(folder.glob("part-*")) for line in file.read_text().splitlines()]


def expected_entities(model):
    """What `gspen-ner predict` says of the sentences."""
    documents = [sentence.document for sentence in SENTENCES]
    predictions = Tagger.load(model).tag([sentence.tokens for sentence in SENTENCES], documents)
    rows = [json.loads(line) for line in as_json_lines(predictions, documents).splitlines()]
    return [
        [
            (e["start"], e["end"], e["type"], e["text"], pytest.approx(e["probability"], abs=1e-5))
            for e in row["entities"]
        ]
        for row in rows
    ]


def test_rows_stay_unchanged_and_get_the_predicted_entities(model, corpus, tmp_path):
    output = run(model, corpus, tmp_path / "out", "--part-rows", 10)
    assert f"{len(SENTENCES)} rows: {len(SENTENCES)} sentences" in output
    lines, before = lines_of(tmp_path / "out"), corpus.read_text().splitlines()
    assert len(list((tmp_path / "out").glob("part-*"))) > 3
    assert all(line.startswith(old[:-1]) for line, old in zip(lines, before, strict=True))
    predicted = [[tuple(entity.values()) for entity in json.loads(line)["entities"]] for line in lines]
    assert predicted == expected_entities(model)
    assert sum(map(len, predicted)) > 10


def test_parquet_keeps_its_schema(model, tmp_path):
    columns = {
        "body": pa.array([" ".join(s.tokens) for s in SENTENCES], pa.large_string()),
        "n": pa.array(range(len(SENTENCES)), pa.uint8()),
        "url": [f"http://{s.document}" for s in SENTENCES],
    }
    table = pa.table(columns).replace_schema_metadata({"written": "today"})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=7)
    options = (
        "--column",
        "body",
        "--document-column",
        "url",
        "--entities-column",
        "predicted",
        "--part-rows",
        9,
    )
    run(model, tmp_path / "in.parquet", tmp_path / "out", *options)
    run(model, tmp_path / "in.parquet", tmp_path / "one.parquet", *options)
    one, parts = pq.read_table(tmp_path / "one.parquet"), pyarrow.dataset.dataset(tmp_path / "out").to_table()
    assert one.equals(parts)
    assert one.drop_columns(["predicted"]).equals(table)
    assert one.schema.metadata == {b"written": b"today"}
    for body, predicted in zip(one["body"].to_pylist(), one["predicted"].to_pylist(), strict=True):
        assert all(body[entity["start"] : entity["end"]] == entity["text"] for entity in predicted)
    assert len([entity for predicted in one["predicted"].to_pylist() for entity in predicted]) > 10
    assert not (tmp_path / "one.parquet.parts").exists()


def test_plain_text_becomes_json_lines(model, tmp_path):
    (tmp_path / "a.txt").write_text("Ms. Anna Halden spoke. Halden left.\n\n Graz\n")
    run(model, tmp_path / "a.txt", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["document"], row["line"], row["text"]) for row in rows] == [
        (0, 1, "Ms. Anna Halden spoke. Halden left."),
        (1, 3, " Graz"),
    ]


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "parquet"])
def test_an_empty_input_gives_an_empty_output(model, tmp_path, suffix):
    file, output = (
        tmp_path / f"in.{suffix}",
        tmp_path / f"out.{'parquet' if suffix == 'parquet' else 'jsonl'}",
    )
    if suffix == "parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), file)
    else:
        file.write_text("")
    assert "0 rows" in run(model, file, output)
    if suffix == "parquet":
        assert pq.read_table(output).schema.names == ["text", "entities"]
    else:
        assert output.read_text() == ""


def test_other_taggers(tmp_path, corpus):
    make_transformer(tmp_path).save_pretrained(tmp_path / "model")
    run(tmp_path / "model", corpus, tmp_path / "out.jsonl")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(SENTENCES)


def test_a_flair_tagger(tmp_path, corpus):
    from tests.tiny_flair import make_corpus, make_crf

    (tmp_path / "news").mkdir()
    (tmp_path / "model").mkdir()
    make_crf(make_corpus(tmp_path / "news")).save(tmp_path / "model" / "model.pt")
    run(tmp_path / "model", corpus, tmp_path / "out.jsonl")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(SENTENCES)


class TestResume:
    @pytest.mark.slow
    def test_after_a_kill_the_rows_are_the_same(self, model, corpus, tmp_path):
        """Killed with -9, workers and all, somewhere in the middle."""
        options = [model, corpus, tmp_path / "out", "--part-rows", 10]
        command = [sys.executable, "-c", SLOWLY, "tag", *map(str, options), "--workers", "2"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            wait_for(lambda: len(list((tmp_path / "out").glob("part-*"))) >= 2)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        wait_for(lambda: not alive(process.pid))  # the workers notice, and end too
        before = content_of(tmp_path / "out")
        run(model, corpus, tmp_path / "whole", "--part-rows", 10)
        refused(*options, message="contains an earlier run; continue it with --resume")
        assert "of an earlier run" in run(*options, "--resume")
        assert lines_of(tmp_path / "out") == lines_of(tmp_path / "whole")
        parts = [name for name in before if name.name.startswith("part-") and name.suffix == ".jsonl"]
        assert 2 <= len(parts) < len(list((tmp_path / "whole").glob("part-*")))
        assert all(before[name] == content_of(tmp_path / "out")[name] for name in parts)

    def test_a_kill_before_parts_are_joined(self, model, corpus, tmp_path):
        options = (model, corpus, tmp_path / "out.jsonl")
        with killed_at(tagging.CorpusJob, "_join"):
            gspen_ner("tag", *options)
        assert "0 rows, after" in run(*options, "--resume")
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(SENTENCES)
        assert not (tmp_path / "out.jsonl.parts").exists()

    @pytest.mark.parametrize("left", ["all parts", "some parts", "no part"])
    def test_a_kill_when_parts_are_joined_and_not_yet_removed(self, model, corpus, tmp_path, left):
        options = (model, corpus, tmp_path / "out.jsonl", "--part-rows", 10)
        with killed_at(tagging, "_remove"):
            gspen_ner("tag", *options)
        joined = (tmp_path / "out.jsonl").read_bytes()
        assert len(joined.splitlines()) == len(SENTENCES)
        parts = sorted((tmp_path / "out.jsonl.parts").glob("part-*"))
        for part in {"all parts": [], "some parts": parts[1:], "no part": parts}[left]:
            part.unlink()
        refused(*options, message="exists already")
        assert f"0 rows, after {len(SENTENCES)}" in run(*options, "--resume")
        assert content_of(tmp_path) == {Path("corpus.jsonl"): corpus.read_bytes(), Path("out.jsonl"): joined}

    def test_resume_without_an_earlier_run_starts_one(self, model, corpus, tmp_path):
        run(model, corpus, tmp_path / "out", "--resume")
        assert "0 rows, after" in run(model, corpus, tmp_path / "out", "--resume")

    @pytest.mark.parametrize("part", [[1, [0, 1, 0], 9, 9], [0, [0, 1], 9, 9], [0, ["0", 1, 0], 9, 9], 7])
    def test_a_broken_manifest_is_refused(self, model, corpus, tmp_path, part):
        run(model, corpus, tmp_path / "out")
        file = tmp_path / "out" / "_manifest.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"parts": [part]}))
        refused(model, corpus, tmp_path / "out", "--resume", message=f"{file}: not a readable manifest")

    def test_resume_with_other_input_model_or_settings_is_refused(self, model, corpus, tmp_path):
        run(model, corpus, tmp_path / "out")
        options = (tmp_path / "out", "--resume")
        refused(model, corpus, *options, "--part-rows", 7, message="the earlier run differs in part rows:")
        other = tmp_path / "model"
        stir(make_model(), 2.0).save_pretrained(other)
        refused(other, corpus, *options, message="the earlier run differs in the model:")
        corpus.write_text(corpus.read_text().replace("é3", "é4"))
        refused(model, corpus, *options, message="the earlier run differs in the input:")


class TestErrors:
    def test_an_invalid_line_is_refused_before_tagging_starts(self, model, corpus, tmp_path):
        lines = corpus.read_text().splitlines()
        lines[40] = lines[40][:-1]
        corpus.write_text("\n".join(lines))
        refused(model, corpus, tmp_path / "out", message=f"{corpus}:41: not JSON")
        assert not (tmp_path / "out").exists()

    def test_parts_written_before_an_error_are_kept(self, model, corpus, tmp_path):
        """The input changes while it is read."""
        options = (model, corpus, tmp_path / "out", "--part-rows", 10)
        with killed_at(PartTagger, "__call__", 3):
            gspen_ner("tag", *options)
        content = corpus.read_bytes()
        corpus.write_bytes(content[: len(content) // 2])
        from gspen_ner.corpora.engines import make_engine
        from gspen_ner.corpora.manifest import Manifest

        missing = Manifest.load(tmp_path / "out").missing(tmp_path / "out")
        outcomes = list(make_engine("local")(tmp_path / "out", missing))
        assert [outcome.part for outcome in outcomes] == missing
        bad = [outcome.error for outcome in outcomes if outcome.error]
        assert 0 < len(bad) < len(outcomes)
        assert all(str(corpus) in error for error in bad)
        corpus.write_bytes(content)
        run(*options, "--resume")
        assert len(lines_of(tmp_path / "out")) == len(SENTENCES)

    def test_invalid_outputs_are_refused(self, model, corpus, tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "file").touch()
        (tmp_path / "file").touch()
        refused(model, corpus, tmp_path / "other", message="not empty; choose another output")
        refused(model, corpus, tmp_path / "file", message="is a file; expected a folder")
        refused(model, corpus, corpus, message="exists already")
        refused(model, corpus, tmp_path / "out.parquet", message="this corpus is written as .jsonl")
        refused(tmp_path, corpus, tmp_path / "out", message="no model here")
        refused(model, corpus, tmp_path / "out", "--gpus", 1, message="gpus needs the engine ray")
        assert not (tmp_path / "out").exists()

    def test_cuts_inside_documents_are_reported(self, model, corpus, tmp_path):
        output = run(model, corpus, tmp_path / "out", "--longest-document", 4)
        assert "documents of more than 4 sentences were cut at" in output


@pytest.mark.slow
@pytest.mark.timeout(900)  # Ray takes its time to start
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_two_workers_give_the_same_rows(model, corpus, tmp_path, engine, monkeypatch):
    if engine == "ray":
        pytest.importorskip("ray")
        monkeypatch.setenv("RAY_worker_niceness", "0")  # else its workers stand back for all others
    run(model, corpus, tmp_path / "one", "--part-rows", 10)
    run(model, corpus, tmp_path / "two", "--part-rows", 10, "--engine", engine, "--workers", 2)
    assert lines_of(tmp_path / "one") == lines_of(tmp_path / "two")


SLOWLY = """
import sys, time
from gspen_ner.corpora import engines
from gspen_ner.cli import main

def slowly(waiting, wait=engines.ProcessPoolExecutor.submit):
    def submit(*arguments):
        time.sleep(0.5)
        return wait(*arguments)
    return submit

engines.ProcessPoolExecutor.submit = slowly(None)
if __name__ == "__main__":
    main()
"""


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def alive(group):
    """Whether some process of a group is still there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
