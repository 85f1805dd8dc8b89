"""What the verbs share: the console, options, and errors without tracebacks."""

from __future__ import annotations

import functools
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console

from gspen_ner.files import write_whole
from gspen_ner.ner.files import FileScheme, TaggedFile

# What users type is shown as it is: "newswire:100:7" is no emoji, "[b]" no markup.
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
}  # what comes with which
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class EngineName(StrEnum):
    """Where the workers are that tag a corpus; typer takes no lists of literals, which `bench tag` has."""

    local = "local"
    ray = "ray"


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.", dir_okay=False),
]
Model = Annotated[str, typer.Argument(help="Folder of a model or of a run.", show_default=False)]
GoldData = Annotated[str, typer.Argument(help="A tagged file, a dataset, hub:NAME:SPLIT or newswire:N:SEED.")]
TokenColumn = Annotated[
    str, typer.Option(help="Column of the tokens: a number in a file, a name in a dataset.")
]
TagColumn = Annotated[str, typer.Option(help="Column of the tags; negative numbers count from the end.")]
Scheme = Annotated[FileScheme, typer.Option(help="How tags are written; auto finds out.")]
CorpusKind = Annotated[
    Literal["auto", "text", "conll", "jsonl", "parquet"],
    typer.Option("--input", help="What the input is; auto goes by names and first lines."),
]
WordsColumn = Annotated[
    str | None,
    typer.Option(help="Column of the tokens or the text.", show_default="tokens, or else text"),
]
DocumentColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that is equal for the rows of a document, which follow each other.",
        show_default="document, if there is one",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse illegal tag sequences, do not repair them.")]


def clear_errors(verb: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Bad input is said in a line, without a traceback; the exit code is 1."""

    @functools.wraps(verb)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return verb(*args, **kwargs)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            errors.print(
                f"error: {error.name} is not installed: pip install 'gspen-ner[{EXTRAS[error.name]}]'"
            )
            raise typer.Exit(1) from None
        except (ValueError, OSError) as error:
            where, why = getattr(error, "filename", None), getattr(error, "strerror", None)
            said = f"{where}: {why}" if where and why else str(error)
            errors.print("error:", style="red", end=" ")
            errors.print(said, highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


def stop_with_hint(command: Sequence[str], overrides: Sequence[str], folder: Path) -> NoReturn:
    """After Ctrl-C in a training, print the command that continues it, and exit with 130."""
    changes = [part for change in overrides for part in ("--set", change)]
    again = shlex.join([*command, *changes, "--output", str(folder), "--resume"])
    console.print(f"\ninterrupted; go on with: {again}", highlight=False, soft_wrap=True)
    raise typer.Exit(130) from None


def check_writable(file: Path | None, option: str) -> None:
    """Refuse a folder that does not exist before minutes are spent."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{file.parent} is not a directory", param_hint=option)


def write_json(file: Path | None, figures: object) -> None:
    """Write the figures of a verb, if a file was named for them."""
    if file is not None:
        write_whole(file, json.dumps(figures, indent=2) + "\n")


def read_tagged(
    data: str, token_column: str, tag_column: str, scheme: FileScheme, strict: bool
) -> TaggedFile:
    """Read any source of tagged sentences by the options that a user gave; see `read_source`."""
    from gspen_ner.ner.sources import read_source

    return read_source(
        data, token_column=_column(token_column), tag_column=_column(tag_column), scheme=scheme, strict=strict
    )


def say_what_is_odd(data: str, file: TaggedFile, types: Sequence[str]) -> None:
    """Refuse data without sentences, and tell of what bears on an evaluation.

    Args:
        data: what the user called it.
        file: what it holds.
        types: that the model knows.
    """
    if not file.sentences:
        raise ValueError(f"{data}: no sentences to evaluate on")
    if file.repaired:
        console.print(f"repaired the tags of {file.repaired} sentences", style="yellow")
    unknown = sorted({t[2:] for s in file.sentences for t in s.tags if t != "O"} - set(types))
    if unknown:
        console.print(f"types the model does not know count as missed: {', '.join(unknown)}", style="yellow")


def _column(text: str) -> int | str:
    """A column by number or by name."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text
