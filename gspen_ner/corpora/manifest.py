"""The manifest of a tagged corpus: what it is made of, and of which parts. It lies beside the parts.

Workers are told nothing but where it is, so that they may be on any machine that sees the same files. A run
that is resumed must be of the same input, model and settings, and does the parts that are not there yet.
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
from gspen_ner.corpora.reading import Kind, kind_of, open_file
from gspen_ner.corpora.rows import Columns, CorpusFile, Place
from gspen_ner.files import write_whole
from gspen_ner.hosts.loading import find_model, model_files

NAME = "_manifest.json"  # readers of parquet folders pass over what begins with an underscore


@dataclass(frozen=True)
class Settings:
    """What the rows of an output depend on besides input and model.

    Args:
        kind: of the input.
        columns: which of its columns hold what.
        part_rows: how many rows a part has, about.
        longest_document: sentences of a document that are inferred together, at most.
    """

    kind: Kind = "auto"
    columns: Columns = field(default_factory=Columns)
    part_rows: int = PART_ROWS
    longest_document: int = LONGEST_DOCUMENT


@dataclass(frozen=True)
class Manifest:
    """See this module's header.

    Args:
        model: folder of the model.
        files: of the input.
        settings: with the kind that was found.
        digests: of input, model and version, by what a user would call them.
        suffix: of the part files.
        parts: where each begins and ends.
        cuts: how many parts begin inside a document that was too long.
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
        """The manifest of an output to be made, without its parts."""
        digests = {
            "input": _digest([file.path for file in files]),
            "model": _digest(model_files(model)),
            "version": __version__,
        }
        found = replace(settings, kind=kind_of(files[0]))
        paths = [str(file.path) for file in files]
        return cls(str(find_model(model).absolute()), paths, found, digests, files[0].suffix)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest in a folder."""
        file = folder / NAME
        try:
            entry: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            settings = entry["settings"]
            entry["settings"] = Settings(**{**settings, "columns": Columns(*settings["columns"])})
            entry["parts"] = [_part(told, len(entry["files"])) for told in entry["parts"]]
            return cls(**entry)
        except FileNotFoundError:
            raise ValueError(f"{folder}: no {NAME} here: not the output of a tagged corpus") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{file}: not a manifest that can be read: {error}") from None

    def save(self, folder: Path) -> None:
        """Write it, whole."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NAME, json.dumps(asdict(self)) + "\n")

    def differences(self, other: Manifest) -> list[str]:
        """What makes another a manifest of something else."""
        found = [f"the {name}" for name in self.digests if self.digests[name] != other.digests.get(name)]
        mine, its = asdict(self.settings), asdict(other.settings)
        return found + [name.replace("_", " ") for name in mine if mine[name] != its[name]]

    def part_file(self, folder: Path, number: int) -> Path:
        """Where a part is written to."""
        return folder / f"part-{number:06d}{self.suffix}"

    def missing(self, folder: Path) -> list[int]:
        """The parts that are not there yet."""
        there = {file.name for file in folder.iterdir()}
        return [n for n in range(len(self.parts)) if self.part_file(folder, n).name not in there]

    def open_files(self) -> list[CorpusFile]:
        """The files of the input."""
        return [open_file(Path(path), self.settings.kind, self.settings.columns) for path in self.files]


def _part(told: Sequence[Any], files: int) -> Part:
    """A part, as JSON has it."""
    number, start, stop, rows = told
    part = Part(number, Place(*start), stop, rows)
    if any(type(value) is not int for value in (number, *start, stop, rows)) or number not in range(files):
        raise ValueError(f"a part of {files} files cannot be {told!r:.100}")
    return part


def _digest(files: Sequence[Path]) -> str:
    """Of names and content."""
    total = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            total.update(f"{path.name}\0{hashlib.file_digest(file, 'blake2b').hexdigest()}\n".encode())
    return total.hexdigest()
