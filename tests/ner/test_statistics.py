"""Descriptions of a corpus before training."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from gspen_ner.ner.files import TaggedFile, TaggedSentence, read_tagged_file
from gspen_ner.ner.sources import read_source
from gspen_ner.ner.statistics import Related, TypeCounts, describe


def corpus(*sentences, documents=True, **options):
    """Sentences such as "Ann/B-PER ran", one document each."""
    rows = []
    for number, text in enumerate(sentences):
        pairs = [word.partition("/") for word in text.split()]
        tokens, tags = [pair[0] for pair in pairs], [pair[2] or "O" for pair in pairs]
        rows.append(TaggedSentence(tuple(tokens), tuple(tags), number // 2))
    return TaggedFile(Path("corpus.txt"), rows, "BIO", has_documents=documents, **options)


def test_counts():
    description = describe(
        corpus(
            "Ann/B-PER Lee/I-PER met/O Bob/B-PER in/O New/B-LOC York/I-LOC City/I-LOC",
            "Bob/B-PER ran/O",
            "Bob/B-PER Bob/B-PER",
            "no names here",
        )
    )
    assert (description.source, description.scheme) == ("corpus.txt", "BIO")
    assert (description.sentences, description.tokens, description.documents) == (4, 15, 2)
    assert description.lengths == (2, 2.5, 8)
    assert description.types == {
        "LOC": TypeCounts(entities=1, distinct=1, longest=3),
        "PER": TypeCounts(entities=5, distinct=2, longest=2),
    }


def test_names_with_several_types_come_with_their_counts():
    description = describe(
        corpus(
            "Paris/B-LOC Paris/B-LOC Paris/B-PER",
            "Bath/B-LOC Bath/B-ORG",
            "Rome/B-LOC Rome/B-LOC Rome/B-LOC Rome/B-LOC",
        )
    )
    assert description.ambiguous == [("Paris", "LOC 2, PER 1"), ("Bath", "LOC 1, ORG 1")]


def test_the_most_frequent_ambiguous_names_come_first_and_there_are_at_most_ten():
    rows = [" ".join([f"N{k}/B-PER"] * k + [f"N{k}/B-LOC"]) for k in range(1, 16)]
    assert [name for name, _ in describe(corpus(*rows)).ambiguous] == [f"N{k}" for k in range(15, 5, -1)]


def problems(*sentences, **options):
    return describe(corpus(*sentences, **options)).problems


def test_a_sound_corpus_has_no_problems():
    assert problems(*(f"Ann{k}/B-PER ran" for k in range(20))) == []
    assert describe(read_source("newswire:200:0")).ambiguous  # as its header promises


def test_each_problem_is_named():
    sound = [f"Ann{k}/B-PER ran" for k in range(20)]
    assert problems() == ["no sentences"]
    assert problems("a b") == ["no entities"]
    assert problems(*sound[1:]) == ["types with fewer than 20 entities: PER (19)"]
    assert problems(*sound, "Rome/B-LOC") == ["types with fewer than 20 entities: LOC (1)"]
    assert problems(*sound, "x " * 251) == ["1 sentences have more than 250 tokens"]
    assert problems(*sound, "x " * 250) == []
    assert problems(*sound, sound[0], sound[0]) == ["2 sentences repeat another sentence"]
    (only,) = problems(*sound, documents=False)
    assert "no document boundaries" in only
    (only,) = problems(*sound, repaired=12, repaired_lines=[3, 9])
    assert only == "12 sentences are not legal BIO and were repaired; the first begin at lines 3, 9"


def test_several_problems_are_all_named():
    listed = problems("Ann/B-PER", "Ann/B-PER", documents=False)
    assert len(listed) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- O\n"])
def test_an_empty_file_is_described_as_such(tmp_path, text):
    path = tmp_path / "empty.txt"
    path.write_text(text)
    description = describe(read_tagged_file(path))
    assert (description.sentences, description.tokens, description.lengths, description.types) == (
        0,
        0,
        (0, 0, 0),
        {},
    )
    assert description.problems == ["no sentences"]


def test_repaired_lines_are_those_of_the_file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("Ann B-PER\n\nBob O\nLee I-PER\n")
    listed = describe(read_tagged_file(path)).problems
    assert any(problem.endswith("were repaired; the first begin at lines 3") for problem in listed)


def test_what_a_document_term_relates():
    """Two documents of two sentences each: a name in capitals, and one written small."""
    sentences = ["Rome/B-LOC won", "ROME/B-LOC fell", "aspirin/B-DRUG of", "aspirin/B-DRUG of"]
    related = describe(corpus(*sentences)).related
    assert related["word"] == Related(tokens=2, entities=2)
    assert related["content_word"] == Related(tokens=4, entities=4)
    assert related["word_and_next"] == Related(tokens=0, entities=0)


def test_documents_are_unknown_without_marks():
    description = describe(corpus("a b", documents=False))
    assert description.documents is None
    assert description.related == {}


def test_a_description_is_plain_data():
    entry = asdict(describe(corpus("Ann/B-PER ran")))
    assert json.loads(json.dumps(entry))["types"]["PER"] == {"entities": 1, "distinct": 1, "longest": 1}
