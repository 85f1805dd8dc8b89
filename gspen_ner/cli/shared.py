"""What the commands share: the console, options, and errors without tracebacks."""

from __future__ import annotations

import functools
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console

if TYPE_CHECKING:
    from gspen_ner.ner.files import FileScheme, TaggedFile

# User input is printed unchanged: "newswire:100:7" is not an emoji, "[b]" is not markup.
console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True, markup=False, emoji=False, width=None if sys.stderr.isatty() else 120)
EXTRAS = {
    "flair": "flair",
    "ray": "ray",
    "torchcrf": "bench",
    "matplotlib": "ocr",
    "PIL": "ocr",
    "fastapi": "serve",
    "uvicorn": "serve",
    "sklearn": "ocr",
    "torchvision": "tagging",
}
"""The extra of this package that installs each optional module."""
GOLD_DATA = (
    "Tagged data: a CoNLL or .jsonl file, a parquet file, a folder of a dataset, hub:NAME:SPLIT, or "
    "newswire:DOCUMENTS:SEED (generated)."
)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class EngineName(StrEnum):
    """Where the workers that tag a corpus run; an enum, as typer accepts no list of literals."""

    local = "local"
    ray = "ray"


def in_existing_folder(file: Path | None) -> Path | None:
    """Return an output file, which must lie in an existing folder: refused before any time is spent."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{file.parent} is not a directory")
    return file


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Also write the results to this JSON file.",
        dir_okay=False,
        callback=in_existing_folder,
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        help="File to write.", show_default="standard output", dir_okay=False, callback=in_existing_folder
    ),
]
Model = Annotated[str, typer.Argument(help="Folder of a model or of a run.", show_default=False)]
GoldData = Annotated[str, typer.Argument(metavar="DATA", help=GOLD_DATA)]
TokenColumn = Annotated[
    str,
    typer.Option(
        help="Column of the tokens: a number in a CoNLL file (0 is the first), a name in a dataset."
    ),
]
TagColumn = Annotated[
    str,
    typer.Option(help="Column of the tags: a number in a CoNLL file (-1 is the last), a name in a dataset."),
]
Scheme = Annotated[
    Literal["auto", "IOB1", "BIO", "BIOES"],
    typer.Option(help="Tagging scheme of the data; auto detects it."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Refuse tag sequences that the scheme does not allow instead of repairing them."
    ),
]
CorpusInput = Annotated[
    str, typer.Argument(metavar="INPUT", help="A file, or a folder of files of the same format.")
]
CorpusFormat = Annotated[
    Literal["auto", "text", "conll", "jsonl", "parquet"],
    typer.Option("--input", help="Input format; auto detects it from file names and first lines."),
]
WordsColumn = Annotated[
    str | None,
    typer.Option(
        help="Column with the tokens or the text (jsonl, parquet).", show_default="tokens, otherwise text"
    ),
]
DocumentColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that has the same value in consecutive rows of a document (jsonl, parquet).",
        show_default="document, if there is one",
    ),
]
ConllTokenColumn = Annotated[
    int, typer.Option(help="Column of the tokens in CoNLL input; 0 is the first, -1 the last.")
]


def clear_errors(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a command report invalid input in one line, without a traceback, and exit with code 1."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            errors.print(
                f"error: {error.name} is not installed: pip install 'gspen-ner[{EXTRAS[error.name]}]'"
            )
            raise typer.Exit(1) from None
        except (ValueError, OSError) as error:
            file, reason = getattr(error, "filename", None), getattr(error, "strerror", None)
            message = f"{file}: {reason}" if file and reason else str(error)
            errors.print("error:", style="red", end=" ")
            errors.print(message, highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


def stop_with_hint(command: Sequence[str], overrides: Sequence[str], folder: Path) -> NoReturn:
    """After Ctrl-C during training, print the command that resumes it, and exit with code 130."""
    options = [part for override in overrides for part in ("--set", override)]
    resume = shlex.join([*command, *options, "--output", str(folder), "--resume"])
    console.print(f"\ninterrupted; resume with: {resume}", highlight=False, soft_wrap=True)
    raise typer.Exit(130) from None


def write_output(file: Path | None, text: str) -> None:
    """Write the output of a command to a file or, without one, to standard output."""
    if file is None:
        sys.stdout.write(text)
        return
    from gspen_ner.files import write_whole

    write_whole(file, text)


def write_json(file: Path | None, results: object) -> None:
    """Write the results of a command as JSON, if a file is given."""
    if file is not None:
        write_output(file, json.dumps(results, indent=2) + "\n")


def read_tagged(
    data: str, token_column: str, tag_column: str, scheme: FileScheme, strict: bool
) -> TaggedFile:
    """Read tagged data by the options of a command; see `read_source`."""
    from gspen_ner.ner.sources import read_source

    return read_source(
        data,
        token_column=_number_or_name(token_column),
        tag_column=_number_or_name(tag_column),
        scheme=scheme,
        strict=strict,
    )


def check_gold(data: str, file: TaggedFile, types: Sequence[str]) -> None:
    """Refuse gold data without sentences; print repairs, and types that the model does not have."""
    if not file.sentences:
        raise ValueError(f"{data}: no sentences to evaluate on")
    if file.repaired:
        console.print(f"repaired the tags of {file.repaired} sentences", style="yellow")
    unknown = sorted({t[2:] for s in file.sentences for t in s.tags if t != "O"} - set(types))
    if unknown:
        console.print(f"types the model does not know count as missed: {', '.join(unknown)}", style="yellow")


def _number_or_name(column: str) -> int | str:
    return int(column) if re.fullmatch(r"-?[0-9]+", column) else column
