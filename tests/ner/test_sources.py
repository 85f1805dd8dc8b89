"""Sources by one string: files, datasets, the hub, generated newswire."""

import datasets
import pytest

from gspen_ner.ner.files import read_tagged_file
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.ner.sources import read_source

NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
TOKENS = [["Ann", "Lee", "ran"], ["Rome"]]
TAGS = [["B-PER", "I-PER", "O"], ["B-LOC"]]
EXPECTED = [(tuple(tokens), tuple(tags)) for tokens, tags in zip(TOKENS, TAGS, strict=True)]


@pytest.fixture(autouse=True)
def _quiet_and_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def stored(tmp_path, columns, storage="parquet", tag_column="ner_tags", names=None):
    table = datasets.Dataset.from_dict(columns)
    if names:
        table = table.cast_column(tag_column, datasets.List(datasets.ClassLabel(names=names)))
    path = tmp_path / ("table.parquet" if storage == "parquet" else "folder")
    if storage == "parquet":
        table.to_parquet(str(path))
    else:
        table.save_to_disk(str(path))
    return str(path)


def rows_of(source, **options):
    return [(sentence.tokens, sentence.tags) for sentence in read_source(source, **options).sentences]


both = pytest.mark.parametrize("storage", ["parquet", "folder"])


def test_newswire_by_documents_and_seed():
    whole = read_source("newswire:4:7")
    assert whole.sentences == generate_newswire(4, 7)
    assert (whole.scheme, whole.has_documents, whole.repaired) == ("BIO", True, 0)
    assert read_source("newswire:4").sentences == read_source("newswire:4:0").sentences
    assert read_source("newswire:4:8").sentences != whole.sentences
    assert read_source("newswire:0").sentences == []


@pytest.mark.parametrize(
    "source", ["newswire:x", "newswire:3:x", "newswire:-3", "newswire:3:-1", "newswire:3:1:2"]
)
def test_newswire_that_is_not_numbers_is_refused(source):
    with pytest.raises(ValueError, match=f"{source}: expected newswire:DOCUMENTS"):
        read_source(source)


def test_files_are_read_as_files(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("I-PER x Ann\nO x ran\n")
    options = {"token_column": 2, "tag_column": 0, "scheme": "IOB1"}
    assert read_source(str(path), **options) == read_tagged_file(path, **options)
    with pytest.raises(ValueError, match="not legal BIO"):
        read_source(str(path), token_column=2, tag_column=0, scheme="BIO", strict=True)


@pytest.mark.parametrize("source", ["none.txt", "none.parquet", "none", "newswire:", "hub:", "newswire"])
def test_the_error_names_a_missing_source(source):
    with pytest.raises(ValueError, match=rf"{source}: no such file"):
        read_source(source)


def test_columns_of_a_file_have_numbers(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("a O\n")
    for options in ({"token_column": "tokens"}, {"tag_column": "tags"}):
        with pytest.raises(ValueError, match=r"corpus\.txt: the columns of a CoNLL file are numbers"):
            read_source(str(path), **options)


@both
def test_a_dataset_with_tags_as_strings(tmp_path, storage):
    source = stored(tmp_path, {"tokens": TOKENS, "ner_tags": TAGS}, storage)
    assert rows_of(source) == EXPECTED
    assert str(read_source(source).path) == source


@both
def test_a_dataset_with_tags_as_class_labels(tmp_path, storage):
    numbers = [[NAMES.index(tag) for tag in tags] for tags in TAGS]
    source = stored(tmp_path, {"tokens": TOKENS, "ner_tags": numbers}, storage, names=NAMES)
    assert rows_of(source) == EXPECTED


def test_the_usual_names_of_columns_are_found(tmp_path):
    for words, tags in (("tokens", "tags"), ("words", "labels"), ("words", "ner_tags")):
        assert rows_of(stored(tmp_path, {words: TOKENS, tags: TAGS})) == EXPECTED


def test_columns_may_be_named(tmp_path):
    numbers = [[NAMES.index(tag) for tag in tags] for tags in TAGS]
    columns = {"text": TOKENS, "fine": numbers, "tokens": [["x"], ["y"]], "tags": [["O"], ["O"]]}
    source = stored(tmp_path, columns, tag_column="fine", names=NAMES)
    assert rows_of(source, token_column="text", tag_column="fine") == EXPECTED
    assert rows_of(source) == [(("x",), ("O",)), (("y",), ("O",))]


def test_a_missing_column_is_named_with_those_there_are(tmp_path):
    source = stored(tmp_path, {"tokens": TOKENS, "other": TAGS})
    with pytest.raises(
        ValueError, match=r"no column ner_tags or tags or labels; the columns are \['tokens', 'other'\]"
    ):
        read_source(source)
    with pytest.raises(ValueError, match=r"table\.parquet: no column mine; the columns are"):
        read_source(source, token_column="mine", tag_column="other")


def test_documents_are_told_by_their_column(tmp_path):
    columns = {"tokens": [["a"]] * 4, "tags": [["O"]] * 4, "document": ["x", "y", None, "x"]}
    whole = read_source(stored(tmp_path, columns))
    documents = [sentence.document for sentence in whole.sentences]
    assert whole.has_documents
    assert documents[0] == documents[3]
    assert len(set(documents)) == 3


def test_without_the_column_each_sentence_is_a_document(tmp_path):
    whole = read_source(stored(tmp_path, {"tokens": TOKENS, "tags": TAGS}))
    assert not whole.has_documents
    assert [sentence.document for sentence in whole.sentences] == [0, 1]


def test_any_scheme_of_a_dataset_comes_out_as_bio(tmp_path):
    tags = [["B-PER", "E-PER", "O"], ["S-LOC"]]
    source = stored(tmp_path, {"tokens": TOKENS, "tags": tags})
    assert rows_of(source, strict=True) == EXPECTED
    assert read_source(source).scheme == "BIOES"
    broken = stored(tmp_path, {"tokens": TOKENS, "tags": [["O", "I-PER", "O"], ["B-LOC"]]})
    assert read_source(broken, scheme="BIO").repaired == 1
    with pytest.raises(ValueError, match=r"table\.parquet:1: the tags of this sentence are not legal BIO"):
        read_source(broken, scheme="BIO", strict=True)


def test_rows_without_tokens_are_left_out(tmp_path):
    source = stored(tmp_path, {"tokens": [["a"], [], ["b"]], "tags": [["O"], [], ["O"]]})
    assert rows_of(source) == [(("a",), ("O",)), (("b",), ("O",))]


@pytest.mark.parametrize(
    ("tokens", "tags", "message"),
    [
        ([["a"], ["b", "c"]], [["O"], ["O"]], r"table\.parquet:2: 2 tokens but 1 tags"),
        ([["a"], []], [["O"], ["O"]], r"table\.parquet:2: 0 tokens but 1 tags"),
        ([["a"]], [["PER"]], r"table\.parquet:1: 'PER' is not a tag"),
        ([["a"]], [[1]], r"table\.parquet:1: 1 is not a tag"),
        ([["a"]], [[None]], r"table\.parquet:1: None is not a tag"),
        ([["a"], ["b"]], [["O"], None], r"table\.parquet:2: expected a list of tags as tags, got None"),
        ([["a"]], ["O"], r"table\.parquet:1: expected a list of tags as tags, got 'O'"),
        ([["a"], None], [["O"], ["O"]], r"table\.parquet:2: expected a list of strings as tokens, got None"),
        (["a b"], [["O", "O", "O"]], r"table\.parquet:1: expected a list of strings as tokens, got 'a b'"),
        ([[1]], [["O"]], r"table\.parquet:1: expected a list of strings as tokens, got \[1\]"),
        ([["a", None]], [["O", "O"]], r"expected a list of strings as tokens, got \['a', None\]"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, tokens, tags, message):
    with pytest.raises(ValueError, match=message):
        read_source(stored(tmp_path, {"tokens": tokens, "tags": tags}))


@pytest.mark.parametrize("unknown", [-1, None])
def test_class_labels_that_are_not_known_are_no_tags(tmp_path, unknown):
    source = stored(tmp_path, {"tokens": [["a", "b"]], "ner_tags": [[0, unknown]]}, names=NAMES)
    with pytest.raises(ValueError, match=rf"table\.parquet:1: {unknown} is not a tag"):
        read_source(source)


def test_a_folder_of_several_splits_is_refused_with_their_names(tmp_path):
    table = datasets.Dataset.from_dict({"tokens": TOKENS, "tags": TAGS})
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(str(tmp_path / "all"))
    with pytest.raises(
        ValueError, match=r"all: contains several splits \(train, test\): give the folder of one"
    ):
        read_source(str(tmp_path / "all"))
    assert rows_of(str(tmp_path / "all" / "train")) == EXPECTED


@pytest.mark.parametrize("content", [b"", b"not parquet", b"PAR1 broken PAR1"])
def test_a_broken_parquet_file_is_named(tmp_path, content):
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.parquet: not a dataset"):
        read_source(str(path))


def test_a_truncated_parquet_file_is_named(tmp_path):
    source = stored(tmp_path, {"tokens": TOKENS, "tags": TAGS})
    path = tmp_path / "cut.parquet"
    path.write_bytes((tmp_path / "table.parquet").read_bytes()[:-20])
    assert rows_of(source) == EXPECTED
    with pytest.raises(ValueError, match=r"cut\.parquet: not a dataset"):
        read_source(str(path))


def test_a_folder_that_is_no_dataset_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: not a dataset"):
        read_source(str(tmp_path / "empty"))


def test_the_hub_is_asked_for_a_name_and_a_split(monkeypatch):
    asked = []

    def load(name, split):
        asked.append((name, split))
        return datasets.Dataset.from_dict({"tokens": TOKENS, "ner_tags": TAGS})

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert rows_of("hub:owner/corpus:validation") == EXPECTED
    assert rows_of("hub:owner/corpus") == EXPECTED
    assert asked == [("owner/corpus", "validation"), ("owner/corpus", "train")]


@pytest.mark.parametrize("error", [ConnectionError("no network"), OSError("gone"), RuntimeError("scripts")])
def test_a_hub_that_does_not_answer_gives_a_clear_error(monkeypatch, error):
    def load(name, split):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(ValueError, match=rf"hub:owner/corpus:test: cannot be loaded: {error}"):
        read_source("hub:owner/corpus:test")
