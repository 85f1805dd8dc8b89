"""ARFF tables: what is written comes back, in any of its spellings, and clear errors for everything else."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.multilabel.arff import read_binary_arff, read_label_names

HEADER = "@relation x\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c {0,1}\n@data\n"


def write(folder, content, name="x.arff"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def quoted(name, quote="'"):
    return quote + name.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def arff(names, values, sparse, quote="'"):
    """A table as text; `sparse` says for each row how to write it."""
    lines = ["@relation x", *(f"@attribute {quoted(name, quote)} {{0,1}}" for name in names), "@data"]
    for row, as_sparse in zip(values, sparse, strict=True):
        if as_sparse:
            lines.append("{" + ",".join(f"{column} 1" for column in np.flatnonzero(row)) + "}")
        else:
            lines.append(",".join(map(str, row)))
    return "\n".join(lines) + "\n"


@st.composite
def tables(draw):
    characters = st.characters(blacklist_categories=["C", "Zl", "Zp"])
    names = draw(st.lists(st.text(characters, min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
    row = st.lists(st.integers(0, 1), min_size=len(names), max_size=len(names))
    return names, draw(st.lists(row, min_size=1, max_size=5))


@given(tables(), st.lists(st.booleans(), min_size=5, max_size=5), st.sampled_from("'\""), st.booleans())
def test_what_is_written_comes_back(tmp_path_factory, table, sparse, quote, compressed):
    names, values = table
    text = arff(names, values, sparse[: len(values)], quote).encode()
    content = gzip.compress(text) if compressed else text
    found = read_binary_arff(write(tmp_path_factory.mktemp("table"), content))
    assert found.names == tuple(names)
    assert found.values.dtype == np.uint8
    assert found.values.tolist() == values


def test_all_spellings(tmp_path):
    text = (
        "\ufeff% a comment\r\n\r\n@RELATION 'some name: -C 2'\r\n@Attribute plain{0,1}\r\n"
        "\t@attribute 'it\\'s % {0}' { 0 , 1 } % why\r\n@ATTRIBUTE \"a b\" NUMERIC\n"
        "@attribute c++ {'0','1'}\n@attribute Plain integer\n  @attribute é real%\n"
        "@Data % now\r\n%\n{}\n { 5 1 , 0 1 } % not ascending\r\n"
        "{1 0,2 1.0}\n\n 0,1 , 0,'1',0.0,1\r\n{\t3 \t1}"
    )
    table = read_binary_arff(str(write(tmp_path, text)))
    assert table.names == ("plain", "it's % {0}", "a b", "c++", "Plain", "é")
    assert table.values.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, 1, 0, 1],
        [0, 0, 0, 1, 0, 0],
    ]


def test_many_rows(tmp_path):
    values = (np.random.default_rng(0).random((2_000, 300)) < 0.1).astype(np.uint8)
    text = arff([f"a{k}" for k in range(300)], values, [True] * len(values))
    assert np.array_equal(read_binary_arff(write(tmp_path, text)).values, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r": expected an ARFF file, got an empty one"),
        ("\n% nothing\n\n", r": expected an ARFF file, got an empty one"),
        ("@relation x\n@attribute a {0,1}\n", r":2: expected @data after 1 attributes, got the end"),
        ("@relation x\n@attribute a {0,1}\n@dat", r":3: expected @relation, @attribute or @data .*'@dat'"),
        ("@relation x\n@data\n0\n", r":2: expected attributes before @data, got none"),
        ("hello\n", r":1: expected @relation, @attribute or @data of ARFF, got 'hello'"),
        ("x" * 1000, r":1: expected @relation.* got 'x{57}\.\.\.'$"),
        (HEADER, r": expected rows after @data, got none"),
        (HEADER + "\n% none\n", r": expected rows after @data, got none"),
        (HEADER + "0,1,0\n{0 1,2 1", r":7: expected a sparse row that ends in \}, .* '\{0 1,2 1'"),
        (HEADER + "{0 1,2", r":6: expected a sparse row that ends in \}"),
        (HEADER + "{", r":6: expected a sparse row that ends in \}"),
        (HEADER + "{0 1}, {5}", r":6: expected 0 or 1, got '1\}'"),
        (HEADER + "0,1\n", r":6: expected 3 values, got 2: '0,1'"),
        (HEADER + "\n0,1,0,1\n", r":7: expected 3 values, got 4"),
        (HEADER + "{0 1,3 1}\n", r":6: expected a column from 0 to 2, got 3"),
        (HEADER + "{-1 1}\n", r":6: expected a column and its value such as '3 1', got '-1 1'"),
        (HEADER + "{0 1,}\n", r":6: expected a column and its value such as '3 1', got ''"),
        (HEADER + "{0 1,1}\n", r":6: expected a column and its value such as '3 1', got '1'"),
        (HEADER + "{1 1,0 1,1 1}\n", r":6: expected each column once, got column 1 2 times"),
        (HEADER + "{1 1,1 0}\n", r":6: expected each column once, got column 1 2 times"),
        (HEADER + "{1 2}\n", r":6: expected 0 or 1, got '2'"),
        (HEADER + "{1 ?}\n", r":6: expected 0 or 1, got '\?'"),
        (HEADER + "0,0.5,1\n", r":6: expected 0 or 1, got '0\.5'"),
        (HEADER + "0,,1\n", r":6: expected 0 or 1, got ''"),
        (HEADER + "0,\x001,1\n", r":6: expected 0 or 1, got '\\x001'"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    for content in (text.encode(), gzip.compress(text.encode())):
        with pytest.raises(ValueError, match=r"x\.arff" + message):
            read_binary_arff(write(tmp_path, content))


@pytest.mark.parametrize(
    "line",
    [
        "@attribute",
        "@attribute a",
        "@attribute a {0,1",
        "@attribute a {0,1} {0,1}",
        "@attribute a {1,0}",  # a sparse row would leave out ones
        "@attribute a {0,1,2}",
        "@attribute a {no,yes}",
        "@attribute a string",
        "@attribute anumeric",
        "@attribute 'a {0,1}",
        "@attribute 'a'numeric",
        "@attribute a b {0,1}",
        "@attribute a\0 {0,1}",
    ],
)
def test_bad_attributes(tmp_path, line):
    with pytest.raises(
        ValueError, match=r"x\.arff:2: expected '@attribute name \{0,1\}' or numeric, got .@att"
    ):
        read_binary_arff(write(tmp_path, f"@relation x\n{line}\n@data\n0\n"))


def test_two_attributes_of_one_name(tmp_path):
    text = "@relation x\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute 'a' {0,1}\n@data\n0,0,0\n"
    with pytest.raises(ValueError, match=r"x\.arff:4: .* different names, got 'a' again after line 2"):
        read_binary_arff(write(tmp_path, text))


def test_no_text(tmp_path):
    with pytest.raises(ValueError, match=r"x\.arff:1: expected UTF-8 text: invalid start byte"):
        read_binary_arff(write(tmp_path, b"\x89PNG\r\n\x1a\n" + bytes(range(256))))
    with pytest.raises(ValueError, match=r"x\.arff:6: expected UTF-8 text"):
        read_binary_arff(write(tmp_path, HEADER.encode() + b"{1 \xff}\n"))
    with pytest.raises(ValueError, match=r"x\.arff:1: expected @relation"):
        read_binary_arff(write(tmp_path, bytes(1000)))


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"x\.arff: no such file"):
        read_binary_arff(tmp_path / "x.arff")
    with pytest.raises(ValueError, match=r"a folder, expected a file"):
        read_binary_arff(tmp_path)


def test_a_torn_file_is_never_read_as_whole(tmp_path):
    """Wherever the text ends, there is an error, unless it ends with a row; compressed, always."""
    text = arff(["a", "b b", "c"], [[1, 0, 1], [0, 1, 1]], [True, False])
    whole = text.index("@data")
    for end in range(len(text) - 1):
        path = write(tmp_path, text[:end])
        if end > whole and text[:end].rstrip().endswith("}"):
            assert len(read_binary_arff(path).values) == 1
        else:
            with pytest.raises(ValueError, match=r"x\.arff"):
                read_binary_arff(path)
    content = gzip.compress(text.encode())
    for end in range(2, len(content)):
        with pytest.raises(ValueError, match=r"x\.arff\.gz: damaged or cut off after line"):
            read_binary_arff(write(tmp_path, content[:end], "x.arff.gz"))


def test_a_damaged_gzip_file(tmp_path):
    content = bytearray(gzip.compress((HEADER + "0,1,0\n" * 50).encode()))
    content[-6] ^= 255  # of the check sum
    with pytest.raises(ValueError, match="damaged or cut off"):
        read_binary_arff(write(tmp_path, bytes(content), "x.arff.gz"))


# Labels

MULAN = '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'


def test_labels(tmp_path):
    text = MULAN + '<label name="b &amp; c"></label>\n<label name="a"><label name="é"/></label>\n</labels>'
    assert read_label_names(write(tmp_path, text, "x.xml")) == ("b & c", "a", "é")
    assert read_label_names(write(tmp_path, '<labels><label name="a"/></labels>', "x.xml")) == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: expected XML, whole: no element found"),
        ("hello", ":1: expected XML, whole"),
        (MULAN, ":3: expected XML, whole: no element found"),
        (MULAN + '<label name="a"></label>\n', ":4: expected XML, whole"),
        (MULAN + '<label name="a"></lab', ":3: expected XML, whole"),
        (MULAN + '<label name="a">&b;</label></labels>', ":3: expected XML, whole: undefined entity"),
        (MULAN + "</labels>", ": expected labels such as <label name='...'>, got none"),
        (
            MULAN + '<label name="a"/>\n<label name="a"/></labels>',
            ":4: expected different labels, got 'a'",
        ),
        (MULAN + "<label/></labels>", ":3: expected a label with a name, got one without"),
        (MULAN + '<tag name="a"/></labels>', ":3: expected <label>, got '<tag>'"),
        ("<html></html>", ":1: expected <labels>, got '<html>'"),
        ('<?xml version="1.0" encoding="none"?><labels/>', ":1: expected XML, whole: unknown encoding"),
    ],
)
def test_bad_labels(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"x\.xml{message}"):
        read_label_names(write(tmp_path, text, "x.xml"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "declared", ['<!ENTITY a "aaa">', '<!ENTITY a SYSTEM "file:///etc/hostname">', "<!ELEMENT labels ANY>"]
)
def test_document_types_are_refused(tmp_path, encoding, declared):
    text = f'<!DOCTYPE labels [{declared}]>\n<labels><label name="a"/></labels>'
    with pytest.raises(ValueError, match=r"x\.xml:1: expected no document type .* got 'labels'"):
        read_label_names(write(tmp_path, text.encode(encoding), "x.xml"))


def test_no_label_file(tmp_path):
    with pytest.raises(ValueError, match=r"x\.xml: no such file"):
        read_label_names(tmp_path / "x.xml")
    with pytest.raises(ValueError, match="cannot be read"):
        read_label_names(tmp_path)


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_copy_of_bibtex():
    folder = Path(os.environ["GSPEN_DATA"]) / "bibtex"
    labels = read_label_names(folder / "bibtex.xml")
    train, test = (read_binary_arff(folder / f"bibtex-{split}.arff") for split in ("train", "test"))
    assert train.values.shape == (4_880, 1_836 + 159)
    assert test.values.shape == (2_515, 1_836 + 159)
    assert train.names == test.names
    assert train.names[1_836:] == labels
    assert train.values[:, 1_836:].sum() == 11_616
