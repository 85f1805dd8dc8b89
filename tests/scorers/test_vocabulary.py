"""Words, spellings and files of word vectors."""

import gzip
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.scorers import Vocabulary, WordVectors, spell_out
from gspen_ner.scorers.vocabulary import normalise

SENTENCES = [["Ann", "saw", "1996"], ["ann", "SAW", "1997", "once"]]


def test_words_are_looked_up_in_lower_case_with_digits_as_zero():
    vocabulary = Vocabulary.of_sentences(SENTENCES)
    assert vocabulary.words == ("ann", "saw", "0000")
    assert vocabulary.word_numbers(["ANN", "2026", "202", "Once", ""]) == [1, 3, 0, 0, 0]


@given(st.text())
def test_looking_up_what_is_looked_up_changes_nothing(word):
    assert normalise(normalise(word)) == normalise(word)


def test_rare_words_are_kept_if_they_have_a_vector():
    vocabulary = Vocabulary.of_sentences(SENTENCES, known=["once", "upon", "upon", "ann"])
    assert set(vocabulary.words[: vocabulary.trained]) == {"ann", "saw", "0000", "once"}
    assert vocabulary.words[vocabulary.trained :] == ("upon",)
    assert vocabulary.word_numbers(["upon"]) == [5]


def test_a_word_that_is_seen_often_enough_is_kept():
    for least, kept in ((1, 4), (2, 3), (3, 0)):
        assert Vocabulary.of_sentences(SENTENCES, minimum_count=least).trained == kept


def test_no_sentences_give_an_empty_vocabulary():
    vocabulary = Vocabulary.of_sentences([])
    assert vocabulary == Vocabulary((), 0, ())
    assert vocabulary.word_numbers(["a"]) == [0]
    assert vocabulary.spelling("a") == [1]


def test_characters_keep_their_case_and_unknown_ones_share_a_number():
    vocabulary = Vocabulary.of_sentences([["aB", "b"]])
    assert vocabulary.characters == ("B", "a", "b")
    assert vocabulary.spelling("abBß😀") == [3, 4, 2, 1, 1]


def test_spellings_are_cut_at_45_characters_and_never_empty():
    vocabulary = Vocabulary.of_sentences([["ab"]])
    assert vocabulary.spelling("a" * 45 + "b") == [2] * 45
    assert vocabulary.spelling("a" * 44 + "b") == [2] * 44 + [3]
    assert vocabulary.spelling("") == [1]


@given(st.lists(st.lists(st.text(max_size=50), min_size=1, max_size=5), min_size=1, max_size=4))
def test_spelling_out_gives_each_token_its_spelling(sentences):
    vocabulary = Vocabulary.of_sentences(sentences[:1])
    spellings, where = spell_out(sentences, vocabulary)
    assert len(spellings) == len({token for tokens in sentences for token in tokens})
    assert where.shape == (len(sentences), max(map(len, sentences)))
    for row, tokens in enumerate(sentences):
        for position, token in enumerate(tokens):
            actual = spellings[where[row, position]].tolist()
            spelling = vocabulary.spelling(token)
            assert actual == spelling + [0] * (len(actual) - len(spelling))
        assert (where[row, len(tokens) :] == 0).all()
    assert (spellings != 0).any(0).all()  # no column is padding alone


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_nothing_to_spell_out(sentences):
    spellings, where = spell_out(sentences, Vocabulary((), 0, ()))
    assert spellings.shape == (0, 0)
    assert where.shape == (len(sentences), 0)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.lists(st.lists(words, max_size=4), max_size=4), st.lists(words, max_size=4))
def test_a_vocabulary_survives_being_saved(tmp_path_factory, sentences, known):
    folder = tmp_path_factory.mktemp("vocabulary")
    vocabulary = Vocabulary.of_sentences(sentences, known, 1)
    vocabulary.save(folder)
    assert Vocabulary.load(folder) == vocabulary


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"words": ["a"], "trained": 1}',
        b'{"words": 3, "trained": 1, "characters": []}',
        b'{"words": [], "trained": "many", "characters": []}',
        b'{"words": [], "trained": Infinity, "characters": []}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_vocabulary_is_named(tmp_path, content):
    (tmp_path / "vocabulary.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"vocabulary\.json: not a vocabulary"):
        Vocabulary.load(tmp_path)


def test_a_folder_without_a_vocabulary_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"vocabulary\.json: no such file; is .* a model of gspen_ner"):
        Vocabulary.load(tmp_path)


def test_the_file_is_plain_json(tmp_path):
    Vocabulary.of_sentences([["Zoë", "Zoë"]]).save(tmp_path)
    entries = json.loads((tmp_path / "vocabulary.json").read_text(encoding="utf-8"))
    assert entries == {"trained": 1, "characters": ["Z", "o", "ë"], "words": ["zoë"]}


def write(tmp_path, content, name="vectors.txt"):
    path = tmp_path / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


VECTORS = "the 1 -2.5 1e-1\n, 4 5 6\ncafé 7 8 9\n\x85x 0 0 0\n"


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
@pytest.mark.parametrize("as_string", [False, True])
@pytest.mark.parametrize("text", [VECTORS, VECTORS.replace("\n", "\r\n"), VECTORS.rstrip("\n")])
def test_vectors_are_read_plain_and_gzipped(tmp_path, name, as_string, text):
    path = write(tmp_path, text, name)
    actual = WordVectors.read(str(path) if as_string else path, 3)
    assert actual.words == ("the", ",", "café", "\x85x")
    assert actual.vectors.dtype == np.float32
    assert actual.vectors.tolist()[0] == [1, -2.5, pytest.approx(0.1)]
    assert actual.vectors.tolist()[1:] == [[4, 5, 6], [7, 8, 9], [0, 0, 0]]


def test_words_that_no_token_is_looked_up_as_are_left_out(tmp_path):
    actual = WordVectors.read(write(tmp_path, "The 1 2\n1996 3 4\n0000 5 6\nthe 7 8\nÉ 9 9\n"), 2)
    assert actual.words == ("0000", "the")
    assert actual.vectors.tolist() == [[5, 6], [7, 8]]


def test_an_empty_file_has_no_vectors(tmp_path):
    actual = WordVectors.read(write(tmp_path, ""), 3)
    assert (actual.words, actual.vectors.shape) == ((), (0, 3))


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", r":2: expected a word and 2 numbers, got 1"),
        ("a 1 2\nb 1 2 3\n", r":2: expected a word and 2 numbers, got 3"),
        ("a 1 2\n\nb 1 2\n", r":2: expected a word and 2 numbers, got 0"),
        ("400000 2\na 1 2\n", r":1: expected a word and 2 numbers, got 1"),
        ("UPPER 1\na 1 2\n", r":1: expected a word and 2 numbers, got 1"),
        ("a 1 2\nb 1 two\n", r":2: .*two"),
        ("a 1 2\nb 1  2\n", r":2: expected a word and 2 numbers, got 3"),
        (b"a 1 2\ncaf\xe9 1 2\n", r": cannot be read: .*can't decode"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=name.replace(".", r"\.") + message):
        WordVectors.read(write(tmp_path, text, name), 2)


def test_missing_files_and_folders_of_vectors_are_named(tmp_path):
    for name in ("none.txt", "none.txt.gz"):
        with pytest.raises(ValueError, match=rf"{name}: no such file of word vectors"):
            WordVectors.read(tmp_path / name, 2)
    with pytest.raises(ValueError, match="cannot be read"):
        WordVectors.read(tmp_path, 2)


def damaged(kind):
    whole = bytearray(gzip.compress("".join(f"w {math.sin(k)}\n" for k in range(3000)).encode()))
    if kind == "truncated":
        return whole[: len(whole) // 2]
    if kind == "not gzip":
        return b"a 1\n"
    if kind == "wrong checksum":
        whole[-6] ^= 0xFF
    if kind == "scrambled":
        whole[20:60] = bytes(40)
    return whole


@pytest.mark.parametrize("kind", ["truncated", "not gzip", "wrong checksum", "scrambled"])
def test_a_damaged_gzip_file_is_named(tmp_path, kind):
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(damaged("whole"))
    assert len(WordVectors.read(path, 1).words) == 3000
    path.write_bytes(damaged(kind))
    with pytest.raises(ValueError, match=r"vectors\.txt\.gz: cannot be read"):
        WordVectors.read(path, 1)


def test_vectors_are_laid_into_a_table_where_their_words_stand():
    vectors = WordVectors(("a", "b"), np.array([[1, 2], [3, 4]], dtype=np.float32))
    table = torch.zeros(5, 2, requires_grad=True)
    vectors.copy_into(table, ["b", "unknown", "a"], first_row=1)
    assert table.tolist() == [[0, 0], [3, 4], [0, 0], [1, 2], [0, 0]]
    vectors.copy_into(table, ["unknown"], first_row=0)
    vectors.copy_into(table, [], first_row=0)
    assert table.tolist() == [[0, 0], [3, 4], [0, 0], [1, 2], [0, 0]]


@pytest.mark.parametrize(
    "text",
    [
        '{"words": ["a"], "trained": 5, "characters": []}',
        '{"words": ["a"], "trained": -1, "characters": []}',
        '{"words": [1], "trained": 0, "characters": []}',
    ],
)
def test_a_vocabulary_that_does_not_add_up_is_refused(tmp_path, text):
    (tmp_path / "vocabulary.json").write_text(text)
    with pytest.raises(ValueError, match="not a vocabulary"):
        Vocabulary.load(tmp_path)


def test_a_word_may_hold_blanks(tmp_path):
    (tmp_path / "v.txt").write_text(". . . 0.5 1\n")
    assert WordVectors.read(tmp_path / "v.txt", 2).words == (". . .",)
