"""Corpora of all formats: their rows, the positions of rows, and errors in them."""

import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gspen_ner.corpora.line_files import LineFile
from gspen_ner.corpora.plan import make_plan
from gspen_ner.corpora.reading import open_corpus
from gspen_ner.corpora.rows import Columns, sentences_of

TEXT = "\ufeffHalden left.\r\nRome won. Paris lost!\n\n\nÜber Graz 😀.\n-DOCSTART-\nNext\n"
CONLL = "-DOCSTART- O\n\nHalden B-PER\nleft O\n\nRome B-LOC\n\n-DOCSTART- O\n\nGraz B-LOC\n"
OBJECTS = [
    {"id": 1, "text": "Halden left. Rome won.", "document": "a"},
    {"id": 2.50, "text": "", "document": "a"},
    {"id": 3, "text": None, "document": "b"},
    {"tokens": ["Über", "Graz"], "document": None},
    {"tokens": [], "document": None},
]


def write(folder, file_format):
    """The same few rows in some kind of file."""
    file = folder / f"corpus.{ {'text': 'txt'}.get(file_format, file_format) }"
    if file_format == "parquet":
        rows = [
            {"id": n, "text": row.get("text"), "document": row["document"]} for n, row in enumerate(OBJECTS)
        ]
        pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=2)
    elif file_format == "jsonl":
        file.write_text("\n".join(json.dumps(row) for row in OBJECTS) + "\n\n", encoding="utf-8")
    else:
        file.write_text(TEXT if file_format == "text" else CONLL, encoding="utf-8", newline="")
    return file


def all_rows(file):
    plan = make_plan([file], 10**6, 10**6)
    return file.read(plan.parts[0].start, plan.parts[0].stop)


@pytest.mark.parametrize(
    ("file_format", "words", "documents"),
    [
        ("text", ["Halden left.", "Rome won. Paris lost!", "Über Graz 😀.", "Next"], [0, 0, 1, 2]),
        ("conll", [["Halden", "left"], ["Rome"], ["Graz"]], [0, 0, 1]),
        ("jsonl", ["Halden left. Rome won.", "", "", ["Über", "Graz"], []], [0, 0, 1, 2, 3]),
        ("parquet", ["Halden left. Rome won.", "", "", "", ""], [0, 0, 1, 2, 3]),
    ],
)
def test_rows_and_documents_of_every_format(file_format, words, documents, tmp_path):
    (file,) = open_corpus(write(tmp_path, file_format), file_format, Columns())
    assert file.format == file_format
    rows = all_rows(file)
    assert list(rows.words) == words
    assert [position.document for position in rows.positions] == documents


@pytest.mark.parametrize("file_format", ["text", "conll", "jsonl", "parquet"])
@pytest.mark.parametrize("part_rows", [1, 2])
def test_parts_hold_every_row_once_and_cut_no_document(file_format, part_rows, tmp_path):
    (file,) = open_corpus(write(tmp_path, file_format), file_format, Columns())
    expected = all_rows(file)
    plan = make_plan([file], part_rows, 100)
    assert plan.cuts == 0
    assert len(plan.parts) > 1
    some = [file.read(part.start, part.stop) for part in plan.parts]
    assert [position for rows in some for position in rows.positions] == list(expected.positions)
    assert [words for rows in some for words in rows.words] == list(expected.words)
    ends = [(rows.positions[0].document, rows.positions[-1].document) for rows in some]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ends))
    again = [file.read(part.start, part.stop) for part in reversed(plan.parts)]  # a table is opened anew
    assert [list(rows.words) for rows in again][::-1] == [list(rows.words) for rows in some]


def test_sentences_of_columns_without_documents_stand_alone(tmp_path):
    (tmp_path / "a.conll").write_text("Rome B-LOC\n\nParis B-LOC\n\nGraz B-LOC\n")
    (file,) = open_corpus(tmp_path / "a.conll", "auto", Columns())
    assert file.format == "conll"
    plan = make_plan([file], 2, 9)
    assert [part.rows for part in plan.parts] == [2, 1]
    rows = file.read(plan.parts[0].start, plan.parts[0].stop)
    assert len({position.document for position in rows.positions}) == 2


def test_long_documents_are_cut_and_counted(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("Rome won. Paris lost.\n" * 10 + "\nOne\n")
    plan = make_plan([LineFile(file, "text", Columns())], 3, 4)
    assert [part.rows for part in plan.parts] == [4, 4, 3]
    assert plan.cuts == 2
    rows = LineFile(file, "text", Columns()).read(plan.parts[0].start, plan.parts[0].stop)
    sentences, cuts = sentences_of(rows, 4)
    assert [sentence.document for sentence in sentences] == [0] * 4 + [1] * 4
    assert cuts == 1


def test_entities_of_texts_are_found_by_characters(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("Rome won.  Über  Graz 😀 lost\n", encoding="utf-8")
    rows = all_rows(LineFile(file, "text", Columns()))
    second = sentences_of(rows, 9)[0][1]
    entity = second.entity(rows.words[0], ((0, 2, "LOC"), 0.5))
    assert entity == {"start": 11, "end": 21, "type": "LOC", "text": "Über  Graz", "confidence": 0.5}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "a"\n', r"a\.jsonl:2: not JSON"),
        ("a.jsonl", '{"text": "a"}\n\n[1]\n', r"a\.jsonl:3: expected an object with 'tokens' or 'text'"),
        ("a.jsonl", '{"text": 3}', r"a\.jsonl:1: expected an object with 'text', a list of strings"),
        ("a.jsonl", '{"tokens": ["a", ""]}', r"a\.jsonl:1: a token is empty"),
        ("a.jsonl", '{"text": "\\ud800"}', r"a\.jsonl:1: the text contains a lone surrogate"),
        ("a.jsonl", '{"text": "a", "entities": []}', r"a\.jsonl:1: 'entities' exists already"),
        ("a.txt", b"fine\nG\xfcnther\n", r"a\.txt:2: not UTF-8 text \(byte 6\)"),
        ("a.conll", "-DOCSTART- O\n\nRome B-LOC\nwon\n", r"a\.conll:4: expected 2 columns, got 1"),
        ("a.parquet", "nothing", r"a\.parquet: not a readable parquet table"),
    ],
)
def test_errors_name_the_file_and_the_line(name, content, message, tmp_path):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        make_plan(open_corpus(file, "auto", Columns()), 10, 10)


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ({"tokens": [["a"], ["b", None]]}, Columns(), r":2: a token of 'tokens' is empty or null"),
        ({"tokens": [["a"], None, ["b", ""]]}, Columns(), r":3: a token of 'tokens' is empty or null"),
        ({"text": [1]}, Columns(), r"column 'text' has type int64, expected strings or lists of strings"),
        ({"body": ["a"]}, Columns(), r"no column 'tokens' or 'text'; the columns are body"),
        ({"text": ["a"]}, Columns(document="url"), r"no column 'url'; the columns are text"),
        ({"text": ["a"], "entities": [1]}, Columns(), r"the column 'entities' exists already"),
    ],
)
def test_invalid_tables_are_refused(table, columns, message, tmp_path):
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        make_plan(open_corpus(tmp_path / "a.parquet", "auto", columns), 10, 10)


@pytest.mark.parametrize(
    ("sound", "broken", "message"),
    [
        (b"text", b"te\xff\xfe", "not a readable parquet table"),
        (
            b"\xc2\x01",
            b"\xc4\x01",
            "the table cannot be read to its end: contains 97 rows, but its metadata say 98",
        ),
    ],
)
def test_truncated_tables_are_refused(sound, broken, message, tmp_path):
    """Names of columns that are no text; numbers of rows (97, as parquet writes it) that are wrong."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"] * 97}), file)
    content = file.read_bytes()
    pieces = content.split(sound)
    messages = []
    for index in range(1, len(pieces)):
        file.write_bytes(sound.join(pieces[:index]) + broken + sound.join(pieces[index:]))
        try:
            table = open_corpus(file, "auto", Columns())[0]
            for part in make_plan([table], 10, 10).parts:
                table.read(part.start, part.stop)
        except ValueError as error:
            messages.append(str(error))
    assert all(text.startswith(str(file)) for text in messages)
    assert any(message in text for text in messages)


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name in ("b.txt", "a.txt", "_other.txt", ".hidden"):
        (tmp_path / name).write_text("Rome won.\n")
    assert [file.path.name for file in open_corpus(tmp_path, "auto", Columns())] == ["a.txt", "b.txt"]
    (tmp_path / "c.jsonl").write_text("{}")
    with pytest.raises(ValueError, match=r"files of different formats: a.txt \(text\)"):
        open_corpus(tmp_path, "auto", Columns())
    with pytest.raises(ValueError, match="no such file or folder"):
        open_corpus(tmp_path / "none", "auto", Columns())
