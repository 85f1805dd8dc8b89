"""Files as they come: schemes, columns, documents, and what is refused."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.labels import Span, spans_of_tags, tags_of_spans
from gspen_ner.tasks.ner_files import read_tagged_file


def write(tmp_path, text, name="corpus.txt", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def column(tags, *, words=None):
    words = words or [f"w{k}" for k in range(len(tags))]
    return "".join(f"{word} {tag}\n" for word, tag in zip(words, tags, strict=True))


def tags_of(path, **options):
    return [" ".join(sentence.tags) for sentence in read_tagged_file(path, **options).sentences]


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("I-PER I-PER O I-LOC B-LOC I-ORG", "IOB1"),
        ("B-PER I-PER O B-LOC B-LOC B-ORG", "BIO"),
        ("B-PER E-PER O S-LOC S-LOC S-ORG", "BIOES"),
    ],
)
def test_every_scheme_comes_out_as_bio(tmp_path, tags, scheme):
    path = write(tmp_path, column(tags.split()))
    found = read_tagged_file(path, strict=True)
    assert found.scheme == scheme
    assert found.repaired == 0
    assert found.sentences[0].tags == ("B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG")


spans = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["PER", "LOC"])), max_size=4)


@given(spans, st.sampled_from(["BIO", "BIOES"]))
def test_entities_survive_reading(tmp_path_factory, pieces, scheme):
    expected, position = [], 0
    for width, gap, kind in pieces:
        expected.append(Span(position + gap, position + gap + width, kind))
        position += gap + width
    tags = tags_of_spans(expected, position + 1, scheme)
    path = write(tmp_path_factory.mktemp("spans"), column(tags))
    found = read_tagged_file(path, scheme=scheme, strict=True)
    assert spans_of_tags(found.sentences[0].tags, "BIO") == expected


def test_illegal_sequences_are_repaired_and_counted(tmp_path):
    path = write(tmp_path, column(["O", "I-PER", "B-LOC", "I-PER"]) + "\n" + column(["B-LOC", "O"]))
    found = read_tagged_file(path)
    assert (found.scheme, found.repaired, found.repaired_lines) == ("BIO", 1, [1])
    assert found.sentences[0].tags == ("O", "B-PER", "B-LOC", "B-PER")
    with pytest.raises(ValueError, match=r"corpus\.txt:1: the tags of this sentence are not legal BIO"):
        read_tagged_file(path, strict=True)


def test_an_unfinished_bioes_entity_is_repaired(tmp_path):
    path = write(tmp_path, column(["B-PER", "I-PER", "O", "S-LOC"]))
    found = read_tagged_file(path)
    assert (found.repaired, found.sentences[0].tags) == (1, ("B-PER", "I-PER", "O", "B-LOC"))


def test_documents_and_column_order(tmp_path):
    text = "-DOCSTART- -X- -X- O\n\nB-PER NNP x Ann\nO VBZ x runs\n\n-DOCSTART- -X- -X- O\n\nO UH x Hi\n"
    found = read_tagged_file(write(tmp_path, text), token_column=-1, tag_column=0)
    assert found.has_documents
    assert [(s.tokens, s.document) for s in found.sentences] == [(("Ann", "runs"), 0), (("Hi",), 1)]


def test_without_documents_each_sentence_is_one(tmp_path):
    found = read_tagged_file(write(tmp_path, "a O\n\nb O\n"))
    assert not found.has_documents
    assert [sentence.document for sentence in found.sentences] == [0, 1]


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "-DOCSTART- O\n\n"])
def test_empty_files(tmp_path, text):
    assert read_tagged_file(write(tmp_path, text)).sentences == []


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    found = read_tagged_file(write(tmp_path, b"\xef\xbb\xbfAnn B-PER\r\nruns O\r\n\r\nHi O\r\n"))
    assert [sentence.tokens for sentence in found.sentences] == [("Ann", "runs"), ("Hi",)]


def test_very_long_sentences(tmp_path):
    found = read_tagged_file(write(tmp_path, column(["B-X", "I-X"] * 2500)))
    assert len(found.sentences[0].tokens) == 5000


def test_json_lines(tmp_path):
    rows = [
        {"tokens": ["Ann", "ran"], "tags": ["B-PER", "O"], "document": "a"},
        {"tokens": ["Hi"], "tags": ["O"], "document": "b"},
        {"tokens": ["Ann"], "tags": ["B-PER"], "document": "a"},
    ]
    path = write(tmp_path, "\n".join(map(json.dumps, rows)), "corpus.jsonl")
    found = read_tagged_file(path)
    assert [sentence.document for sentence in found.sentences] == [0, 1, 0]
    assert tags_of(path) == ["B-PER O", "O", "B-PER"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.txt", "Ann B-PER\nruns\n", r"c\.txt:2: expected 2 columns, got 1: 'runs'"),
        ("c.txt", "Ann B-PER\nruns x O\n", r"c\.txt:2: expected 2 columns, got 3"),
        ("c.txt", "Ann\n", r"c\.txt:1: expected 2 columns, got 1"),
        ("c.txt", "Ann PER\n", r"c\.txt:1: 'PER' is no tag"),
        ("c.txt", b"Ann O\n\xff O\n", r"c\.txt: not UTF-8 text \(byte 6\)"),
        ("c.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{', r"c\.jsonl:2: not JSON"),
        ("c.jsonl", '{"tokens": ["a"], "tags": []}', r"c\.jsonl:1: expected lists of strings"),
        ("c.jsonl", "[1]", r"c\.jsonl:1: expected lists of strings"),
        ("c.jsonl", '{"tokens": ["a"], "tags": ["B"]}', r"c\.jsonl:1: 'B' is no tag"),
    ],
)
def test_malformed_lines_are_named(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read_tagged_file(write(tmp_path, text, name))


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(ValueError, match=r"none\.txt: no such file"):
        read_tagged_file(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"corpus\.txt:1: columns 0 and 5 are wanted, the line has 2"):
        read_tagged_file(write(tmp_path, "a O\n"), tag_column=5)


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_counts_of_conll_2003():
    folder = Path(os.environ["GSPEN_DATA"]) / "conll2003"
    expected = {"train": (14_041, 946, 23_499), "valid": (3_250, 216, 5_942), "test": (3_453, 231, 5_648)}
    for name, counts in expected.items():
        found = read_tagged_file(folder / f"{name}.txt", strict=True)
        entities = sum(tag[0] == "B" for sentence in found.sentences for tag in sentence.tags)
        documents = len({sentence.document for sentence in found.sentences})
        assert (len(found.sentences), documents, entities) == counts
