"""Which files a corpus has, and of what kind they are."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Literal

from gspen_ner.corpora.line_files import LineFile
from gspen_ner.corpora.rows import Columns, CorpusFile
from gspen_ner.ner.plain_text import guess_kind

Kind = Literal["auto", "text", "conll", "jsonl", "parquet"]
LOOKED_AT = 1000  # lines that tell what a file is


def open_corpus(path: str | Path, kind: Kind, columns: Columns) -> list[CorpusFile]:
    """The files of a corpus: the one given, or all of a folder in the order of their names.

    Args:
        path: a file, or a folder of files of one kind; names that begin with . or _ are passed over.
        kind: `"auto"` goes by the names and, where these say nothing, by the first lines.
        columns: what is where.
    """
    path = Path(path).absolute()
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    files = (
        sorted(f for f in path.iterdir() if f.is_file() and f.name[0] not in "._")
        if path.is_dir()
        else [path]
    )
    if not files:
        raise ValueError(f"{path}: a folder without files")
    kinds = {file: _kind(file) if kind == "auto" else kind for file in files}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{file.name} ({found})" for file, found in list(kinds.items())[:4])
        raise ValueError(f"{path}: files of different kinds: {listed}; say which all of them are (--input)")
    return [open_file(file, found, columns) for file, found in kinds.items()]


def open_file(path: Path, kind: Kind, columns: Columns) -> CorpusFile:
    """A file of a corpus whose kind is known."""
    if kind == "parquet":
        from gspen_ner.corpora.parquet_files import TableFile

        return TableFile(path, columns)
    assert kind != "auto"
    return LineFile(path, kind, columns)


def kind_of(file: CorpusFile) -> Kind:
    """What a file was opened as."""
    return file.kind if isinstance(file, LineFile) else "parquet"


def _kind(path: Path) -> Kind:
    if path.suffix == ".parquet":
        return "parquet"
    with path.open("rb") as file:
        first = [line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in islice(file, LOOKED_AT)]
    return "jsonl" if path.suffix == ".ndjson" else guess_kind(path, first)
