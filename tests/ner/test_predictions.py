"""Predictions as files: what is written can be read again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.files import read_tagged_file
from gspen_ner.ner.predictions import Labelling, Prediction, as_conll, as_json_lines

ANN, ROME = Span(0, 2, "PER"), Span(3, 4, "LOC")
FIRST = Prediction(
    ("Ann", "Lee", "saw", "Rome", "."),
    [ScoredSpan(ANN, 0.98765), ScoredSpan(ROME, 0.5)],
    [ScoredSpan(ANN, 0.9), ScoredSpan(Span(3, 4, "PER"), 0.6)],
    [Labelling([ANN, ROME], 0.4), Labelling([], 0.1)],
)
SECOND = Prediction(("Hi",), [], [], [])


def test_columns_hold_token_probability_and_tag():
    assert as_conll([FIRST, SECOND, SECOND], [0, 0, 1]).split("\n") == [
        "-DOCSTART- _ O",
        "",
        "Ann 0.9877 B-PER",
        "Lee 0.9877 I-PER",
        "saw _ O",
        "Rome 0.5000 B-LOC",
        ". _ O",
        "",
        "Hi _ O",
        "",
        "-DOCSTART- _ O",
        "",
        "Hi _ O",
        "",
        "",
    ]


def test_an_object_holds_entities_and_what_the_term_changed():
    first, second = map(json.loads, as_json_lines([FIRST, SECOND], [4, 5]).splitlines())
    assert first["tokens"] == ["Ann", "Lee", "saw", "Rome", "."]
    assert first["tags"] == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    assert first["document"] == 4
    ann = {"start": 0, "end": 2, "type": "PER", "text": "Ann Lee"}
    rome = {"start": 3, "end": 4, "type": "LOC", "text": "Rome"}
    assert first["entities"] == [
        ann | {"probability": 0.98765, "changed": False},
        rome | {"probability": 0.5, "changed": True},
    ]
    assert first["k_best"] == [
        {"probability": 0.4, "entities": [ann, rome]},
        {"probability": 0.1, "entities": []},
    ]
    assert second == {"tokens": ["Hi"], "tags": ["O"], "document": 5, "entities": []}


@pytest.mark.parametrize("write", [as_conll, as_json_lines])
def test_no_predictions_are_an_empty_file(write):
    assert write([], []) == ""


def test_letters_beyond_ascii_stay_readable():
    prediction = Prediction(("Łódź", "😀"), [ScoredSpan(Span(0, 1, "LOC"), 1.0)], [], [])
    for write in (as_conll, as_json_lines):
        assert "Łódź" in write([prediction], [0])


def test_as_many_documents_as_sentences():
    with pytest.raises(ValueError, match="zip"):
        as_json_lines([FIRST, SECOND], [0])


@st.composite
def predictions(draw, tokens):
    rows, documents, document = [], [], 0
    for _ in range(draw(st.integers(1, 4))):
        words = draw(st.lists(tokens, min_size=1, max_size=6))
        entities, at = [], 0
        while at < len(words):
            width = draw(st.integers(1, 3))
            if at + width <= len(words) and draw(st.booleans()):
                entity_type = draw(st.sampled_from(["PER", "LOC-2"]))
                entities.append(ScoredSpan(Span(at, at + width, entity_type), draw(st.floats(0, 1))))
            at += width
        rows.append(Prediction(tuple(words), entities, [], []))
        documents.append(document)
        document += draw(st.integers(0, 1))
    return rows, documents


def check_read_back(path, rows, documents):
    tagged = read_tagged_file(path, strict=True, scheme="BIO")
    assert [sentence.tokens for sentence in tagged.sentences] == [row.tokens for row in rows]
    assert [sentence.document for sentence in tagged.sentences] == documents
    for sentence, row in zip(tagged.sentences, rows, strict=True):
        assert spans_of_tags(sentence.tags, "BIO") == [entity.span for entity in row.entities]


letters = st.characters(exclude_characters=" \t\r\n", exclude_categories=["Cs"])


@given(predictions(st.text(letters, min_size=1, max_size=5)))
def test_columns_can_be_read_again(tmp_path_factory, drawn):
    path = tmp_path_factory.getbasetemp() / "written.conll"
    path.write_text(as_conll(*drawn), encoding="utf-8", newline="")
    check_read_back(path, *drawn)


@given(predictions(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)))
def test_json_lines_can_be_read_again(tmp_path_factory, drawn):
    path = tmp_path_factory.getbasetemp() / "written.jsonl"
    path.write_text(as_json_lines(*drawn), encoding="utf-8", newline="")
    check_read_back(path, *drawn)


@pytest.mark.parametrize("token", ["New York", "", "-DOCSTART-", "a\tb"])
def test_columns_refuse_tokens_that_they_cannot_hold(token):
    with pytest.raises(ValueError, match="sentence 1: CoNLL columns cannot hold"):
        as_conll([Prediction((token,), [], [], [])], [0])
