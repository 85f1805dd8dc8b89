"""`gspen-ner rank` as a user meets it."""

import csv
import io
import json

import pytest

from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.newswire import generate_newswire
from tests.tiny import gspen_ner, make_model, stir, write_conll

TEXT = "Ms. Anna Halden spoke in Graz. Halden left.\n\nTwo people were seen near Accra, police said.\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    stir(make_model(), 3.0).save_pretrained(folder)
    return folder


def rank(*arguments):
    result = gspen_ner("rank", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("by", ["entropy", "margin", "span"])
def test_the_most_uncertain_come_first(model, tmp_path, by):
    file = write_conll(tmp_path / "gold.conll", generate_newswire(4, seed=3))
    ranked = rank(model, file, "--by", by)
    assert len(ranked) == len(generate_newswire(4, seed=3))
    assert [row["rank"] for row in ranked] == list(range(1, len(ranked) + 1))
    unsure = [row["uncertainty"] for row in ranked]
    assert unsure == sorted(unsure, reverse=True)
    assert unsure[0] > unsure[-1] >= 0
    assert rank(model, file, "--by", by, "--top", 3) == ranked[:3]
    lines = file.read_text().split("\n")
    assert all(lines[row["line"] - 1].split()[0] == row["tokens"][0] for row in ranked)


def test_entities_stand_at_their_characters(model, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["In", "Graz", ",", "Anna", "Halden", "left"]}))
    rows = rank(model, tmp_path / "a.txt") + rank(model, tmp_path / "a.jsonl")
    assert {row["text"] for row in rows} == {
        "Ms. Anna Halden spoke in Graz.",
        "Halden left.",
        "Two people were seen near Accra, police said.",
        "In Graz , Anna Halden left",
    }
    assert any(row["entities"] for row in rows)
    for row in rows:
        spans = spans_of_tags(row["tags"], "BIO")
        assert [e["type"] for e in row["entities"]] == [span.type for span in spans]
        for entity in row["entities"]:
            assert row["text"][entity["start"] : entity["end"]] == entity["text"]


def test_a_table_for_a_spreadsheet(model, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    assert gspen_ner("rank", model, tmp_path / "a.txt", "--output", tmp_path / "a.csv").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    expected = rank(model, tmp_path / "a.txt")
    assert [row["text"] for row in rows] == [row["text"] for row in expected]
    assert [json.loads(row["entities"]) for row in rows] == [row["entities"] for row in expected]


def test_contradictory_options_are_refused(model, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    result = gspen_ner("rank", model, tmp_path / "a.txt", "--by", "margin", "--per-token")
    assert result.exit_code == 1
    assert "--per-token needs --by entropy" in result.output


def test_a_flair_tagger(tmp_path):
    from tests.tiny_flair import make_corpus, make_crf

    (tmp_path / "news").mkdir()
    (tmp_path / "model").mkdir()
    make_crf(make_corpus(tmp_path / "news")).save(tmp_path / "model" / "model.pt")
    (tmp_path / "a.txt").write_text(TEXT)
    for by in ("entropy", "margin", "span"):
        assert len(rank(tmp_path / "model", tmp_path / "a.txt", "--by", by)) == 3
