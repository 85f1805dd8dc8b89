"""The manifest of a tagged corpus: its input, model, settings and parts, in a file beside the parts.

Workers are given only its folder, so they can run on any machine that sees the same files. A run that is
resumed must have the same input, model and settings, and tags the parts that are still missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gspen_ner import __version__
from gspen_ner.corpora.plan import LONGEST_DOCUMENT, PART_ROWS, Part
from gspen_ner.corpora.reading import open_file
from gspen_ner.corpora.rows import Columns, CorpusFile, Format, Position
from gspen_ner.files import write_whole
from gspen_ner.hosts.loading import find_model, model_files

NAME = "_manifest.json"  # readers of parquet folders ignore names that begin with an underscore


@dataclass(frozen=True)
class Settings:
    """What the rows of an output depend on besides input and model.

    Args:
        input_format: format of the input; default `"auto"`.
        columns: names of the columns.
        part_rows: approximate number of rows of a part; default 1,000.
        longest_document: maximum number of sentences of a document inferred together; default 256.
    """

    input_format: Format = "auto"
    columns: Columns = field(default_factory=Columns)
    part_rows: int = PART_ROWS
    longest_document: int = LONGEST_DOCUMENT


@dataclass(frozen=True)
class Manifest:
    """Description of a tagged corpus; see the header of this module.

    Args:
        model: folder of the model.
        files: paths of the input files.
        settings: settings, with the detected format.
        digests: hashes of the input and the model, and the version of the package.
        suffix: suffix of the part files.
        parts: parts of the corpus.
        cuts: number of parts that begin inside a document that was too long.
    """

    model: str
    files: list[str]
    settings: Settings
    digests: dict[str, str]
    suffix: str
    parts: list[Part] = field(default_factory=list)
    cuts: int = 0

    @classmethod
    def of(cls, model: str | Path, files: Sequence[CorpusFile], settings: Settings) -> Manifest:
        """Return the manifest of a new output, still without parts."""
        digests = {
            "input": _digest([file.path for file in files]),
            "model": _digest(model_files(model)),
            "version": __version__,
        }
        settings = replace(settings, input_format=files[0].format)
        paths = [str(file.path) for file in files]
        return cls(str(find_model(model).absolute()), paths, settings, digests, files[0].suffix)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest in a folder."""
        file = folder / NAME
        try:
            entry: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            settings = entry["settings"]
            entry["settings"] = Settings(**{**settings, "columns": Columns(*settings["columns"])})
            entry["parts"] = [_part(part, len(entry["files"])) for part in entry["parts"]]
            return cls(**entry)
        except FileNotFoundError:
            raise ValueError(f"{folder}: no {NAME}: not the output of a tagged corpus") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{file}: not a readable manifest: {error}") from None

    def save(self, folder: Path) -> None:
        """Write the manifest into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NAME, json.dumps(asdict(self)) + "\n")

    def differences(self, other: Manifest) -> list[str]:
        """Return the names of the digests and settings that differ."""
        names = [f"the {name}" for name in self.digests if self.digests[name] != other.digests.get(name)]
        mine, others = asdict(self.settings), asdict(other.settings)
        return names + [name.replace("_", " ") for name in mine if mine[name] != others[name]]

    def part_file(self, folder: Path, number: int) -> Path:
        """Return the path of a part."""
        return folder / f"part-{number:06d}{self.suffix}"

    def missing(self, folder: Path) -> list[int]:
        """Return the numbers of the parts that are not yet written."""
        existing = {file.name for file in folder.iterdir()}
        return [n for n in range(len(self.parts)) if self.part_file(folder, n).name not in existing]

    def open_files(self) -> list[CorpusFile]:
        """Open the input files."""
        return [
            open_file(Path(path), self.settings.input_format, self.settings.columns) for path in self.files
        ]


def _part(entry: Sequence[Any], files: int) -> Part:
    """Return a part from its JSON entry."""
    number, start, stop, rows = entry
    part = Part(number, Position(*start), stop, rows)
    if any(type(value) is not int for value in (number, *start, stop, rows)) or number not in range(files):
        raise ValueError(f"{entry!r:.100} is not a part of {files} files")
    return part


def _digest(files: Sequence[Path]) -> str:
    """Return a hash of the names and the content of files."""
    total = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            total.update(f"{path.name}\0{hashlib.file_digest(file, 'blake2b').hexdigest()}\n".encode())
    return total.hexdigest()
