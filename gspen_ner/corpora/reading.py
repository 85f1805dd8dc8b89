"""Finding the files of a corpus, and detecting their format."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from gspen_ner.corpora.line_files import LineFile
from gspen_ner.corpora.rows import Columns, CorpusFile, Format
from gspen_ner.ner.plain_text import detect_format

LINES_READ = 1000
"""Number of lines from which the format of a file is detected."""


def open_corpus(path: str | Path, file_format: Format, columns: Columns) -> list[CorpusFile]:
    """Open the files of a corpus: the given file, or all files of a folder, sorted by name.

    Args:
        path: a file, or a folder of files of the same format; names that begin with . or _ are ignored.
        file_format: format of the files; `"auto"` detects it from their names and first lines.
        columns: names of the columns.
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
        raise ValueError(f"{path}: the folder contains no files")
    formats = {file: _detect(file) if file_format == "auto" else file_format for file in files}
    if len(set(formats.values())) > 1:
        listed = ", ".join(f"{file.name} ({detected})" for file, detected in list(formats.items())[:4])
        raise ValueError(f"{path}: files of different formats: {listed}; give the format of all (--input)")
    return [open_file(file, detected, columns) for file, detected in formats.items()]


def open_file(path: Path, file_format: Format, columns: Columns) -> CorpusFile:
    """Open a corpus file of a known format."""
    if file_format == "parquet":
        from gspen_ner.corpora.parquet_files import TableFile

        return TableFile(path, columns)
    return LineFile(path, file_format, columns)


def _detect(path: Path) -> Format:
    if path.suffix == ".parquet":
        return "parquet"
    with path.open("rb") as file:
        lines = [line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in islice(file, LINES_READ)]
    return "jsonl" if path.suffix == ".ndjson" else detect_format(path, lines)
