"""What the verbs share: the console, options, and errors without tracebacks."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console

from gspen_ner.tasks.ner_files import FileScheme

# What users type is shown as it is: "newswire:100:7" is no emoji, "[b]" no markup.
console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True, markup=False, emoji=False, width=None if sys.stderr.isatty() else 120)
EXTRAS = {
    "flair": "flair",
    "ray": "ray",
    "torchcrf": "bench",
    "matplotlib": "ocr",
    "PIL": "ocr",
    "sklearn": "ocr",
}  # what comes with which
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.", dir_okay=False),
]
Model = Annotated[str, typer.Argument(help="Folder of a model or of a run.", show_default=False)]
TokenColumn = Annotated[
    str, typer.Option(help="Column of the tokens: a number in a file, a name in a dataset.")
]
TagColumn = Annotated[str, typer.Option(help="Column of the tags; negative numbers count from the end.")]
Scheme = Annotated[FileScheme, typer.Option(help="How tags are written; auto finds out.")]
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
            errors.print("error:", style="red", end=" ")
            errors.print(str(error), highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


def check_writable(file: Path | None, option: str) -> None:
    """Refuse a folder that does not exist before minutes are spent."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{file.parent} is not a directory", param_hint=option)


def column(text: str) -> int | str:
    """A column by number or by name."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text
