"""Files as they come: schemes, columns, documents, and what is refused."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.labels import Span, spans_of_tags, tags_of_spans
from gspen_ner.ner.files import read_tagged_file


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
    tagged = read_tagged_file(path, strict=True)
    assert tagged.scheme == scheme
    assert tagged.repaired == 0
    assert tagged.sentences[0].tags == ("B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG")


spans = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["PER", "LOC"])), max_size=4)


@given(spans, st.sampled_from(["BIO", "BIOES"]))
def test_entities_survive_reading(tmp_path_factory, pieces, scheme):
    expected, position = [], 0
    for width, gap, entity_type in pieces:
        expected.append(Span(position + gap, position + gap + width, entity_type))
        position += gap + width
    tags = tags_of_spans(expected, position + 1, scheme)
    path = write(tmp_path_factory.mktemp("spans"), column(tags))
    tagged = read_tagged_file(path, scheme=scheme, strict=True)
    assert spans_of_tags(tagged.sentences[0].tags, "BIO") == expected


def test_illegal_sequences_are_repaired_and_counted(tmp_path):
    path = write(tmp_path, column(["O", "I-PER", "B-LOC", "I-PER"]) + "\n" + column(["B-LOC", "O"]))
    tagged = read_tagged_file(path)
    assert (tagged.scheme, tagged.repaired, tagged.repaired_lines) == ("BIO", 1, [1])
    assert tagged.sentences[0].tags == ("O", "B-PER", "B-LOC", "B-PER")
    with pytest.raises(ValueError, match=r"corpus\.txt:1: the tags of this sentence are not legal BIO"):
        read_tagged_file(path, strict=True)


def test_an_unfinished_bioes_entity_is_repaired(tmp_path):
    path = write(tmp_path, column(["B-PER", "I-PER", "O", "S-LOC"]))
    tagged = read_tagged_file(path)
    assert (tagged.repaired, tagged.sentences[0].tags) == (1, ("B-PER", "I-PER", "O", "B-LOC"))


def test_documents_and_column_order(tmp_path):
    text = "-DOCSTART- -X- -X- O\n\nB-PER NNP x Ann\nO VBZ x runs\n\n-DOCSTART- -X- -X- O\n\nO UH x Hi\n"
    tagged = read_tagged_file(write(tmp_path, text), token_column=-1, tag_column=0)
    assert tagged.has_documents
    assert [(s.tokens, s.document) for s in tagged.sentences] == [(("Ann", "runs"), 0), (("Hi",), 1)]


def test_without_documents_each_sentence_is_one(tmp_path):
    tagged = read_tagged_file(write(tmp_path, "a O\n\nb O\n"))
    assert not tagged.has_documents
    assert [sentence.document for sentence in tagged.sentences] == [0, 1]


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "-DOCSTART- O\n\n"])
def test_empty_files(tmp_path, text):
    assert read_tagged_file(write(tmp_path, text)).sentences == []


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    tagged = read_tagged_file(write(tmp_path, b"\xef\xbb\xbfAnn B-PER\r\nruns O\r\n\r\nHi O\r\n"))
    assert [sentence.tokens for sentence in tagged.sentences] == [("Ann", "runs"), ("Hi",)]


def test_very_long_sentences(tmp_path):
    tags = ["B-X", "I-X"] * 2500
    (sentence,) = read_tagged_file(write(tmp_path, column(tags)), strict=True).sentences
    assert len(sentence.tokens) == 5000
    assert sentence.tags == tuple(tags)
    entry = json.dumps({"tokens": list(sentence.tokens), "tags": tags})
    assert read_tagged_file(write(tmp_path, entry, "corpus.jsonl")).sentences == [sentence]


def test_tokens_alone(tmp_path):
    columns = write(tmp_path, "Ann\nran\n\n-DOCSTART-\n\nHi\n")
    lines = write(tmp_path, '{"tokens": ["Ann", "ran"], "tags": 3}\n{"tokens": ["Hi"]}\n', "corpus.jsonl")
    for path in (columns, lines):
        tagged = read_tagged_file(path, tag_column=None)
        assert [sentence.tokens for sentence in tagged.sentences] == [("Ann", "ran"), ("Hi",)]
        assert tags_of(path, tag_column=None) == ["O O", "O"]
    path = write(tmp_path, "x Ann nonsense\nx ran nonsense\n")
    tagged = read_tagged_file(path, token_column=1, tag_column=None, strict=True)
    assert [sentence.tokens for sentence in tagged.sentences] == [("Ann", "ran")]


@pytest.mark.parametrize("odd", list("\x85\u00a0\u2028\x0b\x0c\x1c\u3000\ufeff\x00"))
def test_odd_characters_in_a_token_are_part_of_it(tmp_path, odd):
    tokens = [f"a{odd}b", f"c{odd}"]
    entry = json.dumps({"tokens": tokens, "tags": ["B-X", "I-X"]}, ensure_ascii=False)
    text = "".join(f"{token}\tx {tag}\n" for token, tag in zip(tokens, ["B-X", "I-X"], strict=True))
    for path in (write(tmp_path, text), write(tmp_path, entry, "corpus.jsonl")):
        (sentence,) = read_tagged_file(path).sentences
        assert sentence.tokens == tuple(tokens)
        assert sentence.tags == ("B-X", "I-X")


def test_a_token_of_white_space_alone_does_not_end_a_sentence(tmp_path):
    (sentence,) = read_tagged_file(write(tmp_path, "a O\n\u00a0 O\nb O\n")).sentences
    assert sentence.tokens == ("a", "\u00a0", "b")


def test_lines_of_blanks_end_a_sentence(tmp_path):
    tagged = read_tagged_file(write(tmp_path, "a O\n \t \nb O\r\rc O\n"))
    assert [sentence.tokens for sentence in tagged.sentences] == [("a",), ("b",), ("c",)]


def test_a_document_mark_ends_a_sentence_by_itself(tmp_path):
    tagged = read_tagged_file(write(tmp_path, "-DOCSTART-\na O\n-DOCSTART-\nb O\n"))
    assert [(s.tokens, s.document) for s in tagged.sentences] == [(("a",), 0), (("b",), 1)]


def documents_of(path):
    return [sentence.document for sentence in read_tagged_file(path).sentences]


def test_sentences_before_the_first_document_are_documents_of_their_own(tmp_path):
    text = "a O\n\nb O\n\n-DOCSTART- O\n\nc O\n\nd O\n\n-DOCSTART- O\n\ne O\n"
    a, b, c, d, e = documents_of(write(tmp_path, text))
    assert c == d
    assert len({a, b, c, e}) == 4
    assert read_tagged_file(write(tmp_path, text)).has_documents


def test_json_lines_without_a_document_are_documents_of_their_own(tmp_path):
    names = [None, "x", None, 0, "x", "", None, False]
    rows = [{"tokens": ["a"], "tags": ["O"]} | ({} if name is None else {"document": name}) for name in names]
    documents = documents_of(write(tmp_path, "\n".join(map(json.dumps, rows)), "corpus.jsonl"))
    assert documents[1] == documents[4]
    assert len(set(documents)) == len(names) - 1


def test_json_lines_without_tokens_are_left_out(tmp_path):
    path = write(tmp_path, '{"tokens": [], "tags": []}\n\n{"tokens": ["a"], "tags": ["O"]}', "corpus.jsonl")
    assert tags_of(path) == ["O"]


def test_json_lines(tmp_path):
    rows = [
        {"tokens": ["Ann", "ran"], "tags": ["B-PER", "O"], "document": "a"},
        {"tokens": ["Hi"], "tags": ["O"], "document": "b"},
        {"tokens": ["Ann"], "tags": ["B-PER"], "document": "a"},
    ]
    path = write(tmp_path, "\n".join(map(json.dumps, rows)), "corpus.jsonl")
    tagged = read_tagged_file(path)
    assert [sentence.document for sentence in tagged.sentences] == [0, 1, 0]
    assert tags_of(path) == ["B-PER O", "O", "B-PER"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.txt", "Ann B-PER\nruns\n", r"c\.txt:2: expected 2 columns, got 1: 'runs'"),
        ("c.txt", "Ann B-PER\nruns x O\n", r"c\.txt:2: expected 2 columns, got 3"),
        ("c.txt", "Ann\n", r"c\.txt:1: expected 2 columns, got 1"),
        ("c.txt", "Ann PER\n", r"c\.txt:1: 'PER' is not a tag"),
        ("c.txt", b"Ann O\n\xff O\n", r"c\.txt: not UTF-8 text \(byte 6\)"),
        ("c.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{', r"c\.jsonl:2: not JSON"),
        ("c.jsonl", '{"tokens": ["a"], "tags": []}', r"c\.jsonl:1: expected 'tags', a list of 1 strings"),
        ("c.jsonl", '{"tokens": ["a"], "tags": [1]}', r"c\.jsonl:1: expected 'tags', a list of 1 strings"),
        ("c.jsonl", '{"tokens": ["a", "b"]}', r"c\.jsonl:1: expected 'tags', a list of 2 strings"),
        ("c.jsonl", '{"tags": ["O"]}', r"c\.jsonl:1: expected an object with 'tokens', a list of strings"),
        ("c.jsonl", '{"tokens": "a", "tags": ["O"]}', r"c\.jsonl:1: expected an object with 'tokens'"),
        ("c.jsonl", '{"tokens": [1], "tags": ["O"]}', r"c\.jsonl:1: expected an object with 'tokens'"),
        ("c.jsonl", '\n"tokens"', r"c\.jsonl:2: expected an object with 'tokens'"),
        ("c.jsonl", "[1]", r"c\.jsonl:1: expected an object with 'tokens'"),
        ("c.jsonl", '{"tokens": ["a"], "tags": ["B"]}', r"c\.jsonl:1: 'B' is not a tag"),
        ("c.jsonl", "[" * 100_000, r"c\.jsonl:1: not JSON"),
        ("c.jsonl", '{"tokens": ' * 100_000, r"c\.jsonl:1: not JSON"),
        ("c.jsonl", "9" * 5000, r"c\.jsonl:1: not JSON"),
    ],
)
def test_malformed_lines_are_named(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read_tagged_file(write(tmp_path, text, name))


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(ValueError, match=r"none\.txt: no such file"):
        read_tagged_file(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"corpus\.txt:1: no such column \(0, 5\), the line has 2"):
        read_tagged_file(write(tmp_path, "a O\n"), tag_column=5)
    for name in ("folder", "folder.jsonl"):
        (tmp_path / name).mkdir()
        with pytest.raises(ValueError, match=f"{name}: a folder, expected a file"):
            read_tagged_file(tmp_path / name)


@given(st.text(max_size=60), st.sampled_from(["any.txt", "any.jsonl"]))
def test_any_text_is_read_as_legal_sentences_or_refused(tmp_path_factory, text, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(text.encode("utf-8", "replace"))
    sentences, refusal = [], f"{path}:"
    try:
        sentences = read_tagged_file(path).sentences
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith(f"{path}:")
    for sentence in sentences:
        assert sentence.tokens
        spans = spans_of_tags(sentence.tags, "BIO")
        assert tuple(tags_of_spans(spans, len(sentence.tokens), "BIO")) == sentence.tags


SOME_TAGS = ["O", *(f"{prefix}-{entity_type}" for prefix in "BIES" for entity_type in "XY")]


@given(st.lists(st.lists(st.sampled_from(SOME_TAGS), min_size=1), max_size=3))
def test_any_tags_come_out_as_legal_bio_and_their_tokens_stay(tmp_path_factory, rows):
    path = write(tmp_path_factory.getbasetemp(), "\n".join(map(column, rows)), "tags.txt")
    for scheme in ("auto", "IOB1", "BIO", "BIOES"):
        sentences = read_tagged_file(path, scheme=scheme).sentences
        assert [len(sentence.tokens) for sentence in sentences] == [len(row) for row in rows]
        for sentence, row in zip(sentences, rows, strict=True):
            spans = spans_of_tags(sentence.tags, "BIO")
            assert tuple(tags_of_spans(spans, len(row), "BIO")) == sentence.tags
            assert [tag[2:] for tag in sentence.tags] == [tag[2:] for tag in row]


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_counts_of_conll_2003():
    folder = Path(os.environ["GSPEN_DATA"]) / "conll2003"
    expected = {"train": (14_041, 946, 23_499), "valid": (3_250, 216, 5_942), "test": (3_453, 231, 5_648)}
    for name, counts in expected.items():
        tagged = read_tagged_file(folder / f"{name}.txt", strict=True)
        entities = sum(tag[0] == "B" for sentence in tagged.sentences for tag in sentence.tags)
        documents = len({sentence.document for sentence in tagged.sentences})
        assert (len(tagged.sentences), documents, entities) == counts


def test_bio_read_strictly_has_no_tags_of_bioes(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a S-X\n")
    with pytest.raises(ValueError, match="not legal BIO"):
        read_tagged_file(file, scheme="BIO", strict=True)


def test_half_a_character_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"tokens": ["\\ud800"], "tags": ["O"]}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:1: .*lone surrogate"):
        read_tagged_file(file)


def test_tokens_between_tabs_may_contain_spaces(tmp_path):
    file = write(tmp_path, "for\tO\n14 hours\tO\n Jane Roe \tB-PER\n")
    assert read_tagged_file(file).sentences[0].tokens == ("for", "14 hours", "Jane Roe")


def test_documents_are_seen_whatever_the_order_of_columns(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("O -DOCSTART-\n\nB-X a\n\nO b\n\nO -DOCSTART-\n\nO c\n")
    tagged = read_tagged_file(file, token_column=1, tag_column=0)
    assert [(s.tokens, s.document) for s in tagged.sentences] == [(("a",), 0), (("b",), 0), (("c",), 1)]


def test_an_empty_token_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"tokens": ["a", ""], "tags": ["O", "O"]}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:1: a token is empty"):
        read_tagged_file(file)
