"""Plain text: tokens, sentence ends, documents, and what an input is taken for."""

import io
import json
import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.ner.plain_text import LONGEST_SENTENCE, read_text, read_untagged, split_text, tokenise


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Ann's dog, isn't it?", "Ann 's dog , isn't it ?"),
        ("Mr. Lee vs. Dr. No", "Mr. Lee vs. Dr. No"),
        ("The U.S. and the E.U.", "The U.S. and the E.U."),
        ("J. R. R. Tolkien", "J. R. R. Tolkien"),
        ("on 2026-07-01 at 10:30, 3-2", "on 2026-07-01 at 10:30 , 3-2"),
        ("3,500.75 euros", "3,500.75 euros"),
        ("(Rome)", "( Rome )"),
        ("Marks&Spencer north-west O'Neill", "Marks&Spencer north-west O'Neill"),
        ("Zoë und Jürgen in Łódź", "Zoë und Jürgen in Łódź"),
        ("end.Next", "end . Next"),
        ("50% $5", "50 % $ 5"),
        ("snake_case", "snake _case"),
        ("a\u00a0b", "a b"),
        ("東京 😀", "東京 😀"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_tokens(text, tokens):
    assert tokenise(text) == tokens.split()


@given(st.text())
def test_no_character_is_lost_or_added(text):
    tokens = tokenise(text)
    assert "".join(tokens) == re.sub(r"\s", "", text)
    assert all(tokens)


def test_long_lines_are_read_in_reasonable_time():
    for piece in ("A.", "a-", "1,", "'", "é", "x "):
        assert "".join(tokenise(piece * 5000)) == (piece * 5000).replace(" ", "")


def texts(*lines):
    return [(" ".join(sentence.tokens), sentence.document) for sentence in read_text(lines)]


def test_sentences_end_before_a_capital_and_with_their_line():
    assert texts("Rome won. Paris lost! Who? nobody. 3 left.", "And so on") == [
        ("Rome won .", 0),
        ("Paris lost !", 0),
        ("Who ? nobody . 3 left .", 0),
        ("And so on", 0),
    ]


def test_abbreviations_end_no_sentence():
    assert texts("Mr. Lee of the U.S. Navy left.") == [("Mr. Lee of the U.S. Navy left .", 0)]


def test_blank_lines_separate_documents_however_many():
    assert texts("", "One.", "Still one.", " \t", "", "Two.", "") == [
        ("One .", 0),
        ("Still one .", 0),
        ("Two .", 1),
    ]
    assert texts() == texts("", " ") == []


def test_everything_is_untagged():
    (sentence,) = read_text(["Rome won"])
    assert sentence.tags == ("O", "O")


def write(tmp_path, content, name="input.txt"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def sentences(*arguments, **options):
    return [
        (" ".join(sentence.tokens), sentence.document) for sentence in read_untagged(*arguments, **options)
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "Ann ran. Bob too.", [("Ann ran .", 0), ("Bob too .", 0)]),
        ("a.txt", "Ann B-PER\nran O\n\nHi O\n", [("Ann ran", 0), ("Hi", 1)]),
        ("a.txt", "Ann NNP B-PER\nran VB O\n", [("Ann ran", 0)]),
        ("a.txt", "Ann S-PER\n", [("Ann", 0)]),
        ("a.txt", "-DOCSTART-\n\nAnn\nran\n\n-DOCSTART-\n\nHi\n", [("Ann ran", 0), ("Hi", 1)]),
        ("a.txt", "Ann B-PER\nran away O\n", [("Ann B-PER", 0), ("ran away O", 0)]),
        ("a.txt", "Ann ran\nBob sat\n", [("Ann ran", 0), ("Bob sat", 0)]),
        ("a.txt", "Ann ran\nType O\n", [("Ann ran", 0), ("Type O", 0)]),
        ("a.jsonl", '{"tokens": ["Ann", "ran"]}\n{"tokens": ["Hi"]}', [("Ann ran", 0), ("Hi", 1)]),
        ("a.json", '{"tokens": ["Ann"], "tags": "whatever", "document": "x"}', [("Ann", 0)]),
        ("a.txt", "", []),
        ("a.jsonl", "", []),
    ],
)
def test_the_format_of_a_file_is_detected(tmp_path, name, content, expected):
    assert sentences(write(tmp_path, content, name)) == expected


def test_the_format_of_a_file_can_be_given(tmp_path):
    content = "Ann B-PER\nran O\n"
    assert sentences(write(tmp_path, content), "text") == [("Ann B-PER", 0), ("ran O", 0)]
    assert sentences(write(tmp_path, "Ann x\nran x\n"), "conll") == [("Ann ran", 0)]
    assert sentences(write(tmp_path, "x Ann\nx ran\n"), "conll", token_column=1) == [("Ann ran", 0)]
    assert sentences(write(tmp_path, "Ann\nran\n\nHi\n"), "conll") == [("Ann ran", 0), ("Hi", 1)]
    assert sentences(write(tmp_path, '{"tokens": ["Ann"]}'), "jsonl") == [("Ann", 0)]


def test_gold_tags_are_ignored(tmp_path):
    path = write(tmp_path, "Ann I-PER\nran nonsense\n")
    assert [sentence.tags for sentence in read_untagged(path, "conll")] == [("O", "O")]


def test_standard_input(monkeypatch):
    for content, expected in (
        (b"Ann ran.\r\n\r\nHi\r\n", [("Ann ran .", 0), ("Hi", 1)]),
        (b"\xef\xbb\xbfAnn O\nran O\n", [("Ann ran", 0)]),
        (b"", []),
    ):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert sentences("-") == expected


def test_json_lines_from_standard_input_must_be_announced(monkeypatch):
    content = json.dumps({"tokens": ["Ann"]}).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert sentences("-", "jsonl") == [("Ann", 0)]


@pytest.mark.parametrize(
    ("name", "content", "file_format", "message"),
    [
        ("a.txt", b"\xff", "auto", r"a\.txt: not UTF-8 text \(byte 0\)"),
        ("a.jsonl", "{", "auto", r"a\.jsonl:1: not JSON"),
        ("a.jsonl", '{"tokens": "Ann"}', "auto", r"a\.jsonl:1: expected an object with 'tokens'"),
        ("a.txt", "Ann\nran away\n", "conll", r"a\.txt:2: expected 1 columns, got 2"),
    ],
)
def test_malformed_input_is_named(tmp_path, name, content, file_format, message):
    with pytest.raises(ValueError, match=message):
        read_untagged(write(tmp_path, content, name), file_format)


def test_a_missing_input_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"none\.txt: no such file"):
        read_untagged(str(tmp_path / "none.txt"))
    with pytest.raises(ValueError, match="a folder, expected a file"):
        read_untagged(str(tmp_path))
    with pytest.raises(ValueError, match=r"input\.txt:1: no such column \(4\), the line has 1"):
        read_untagged(write(tmp_path, "Ann\n"), "conll", token_column=4)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    with pytest.raises(ValueError, match="<standard input>: not UTF-8"):
        read_untagged("-")


@given(st.text(max_size=80), st.sampled_from(["auto", "text", "conll", "jsonl"]))
def test_any_text_is_read_or_refused(tmp_path_factory, text, file_format):
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(text.encode("utf-8", "replace"))
    sentences, refusal = [], None
    try:
        sentences = read_untagged(str(path), file_format)
    except ValueError as error:
        refusal = str(error)
    assert refusal is None or refusal.startswith(f"{path}:")
    assert refusal is None or file_format != "text"
    for sentence in sentences:
        assert sentence.tokens
        assert len(sentence.tokens) == len(sentence.tags)


@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aB1'. !\r\n\t😀"))))
def test_split_text_returns_character_positions(text):
    sentences = split_text(text)
    lines = re.split(r"\r\n|\n|\r", text)
    assert [(s.tokens, s.document) for s in sentences] == [(s.tokens, s.document) for s in read_text(lines)]
    for sentence in sentences:
        for token, start in zip(sentence.tokens, sentence.starts, strict=True):
            assert text[start : start + len(token)] == token


def test_split_text_bounds_sentences():
    assert [len(s.tokens) for s in split_text("a " * (LONGEST_SENTENCE + 3))] == [LONGEST_SENTENCE, 3]
