"""The command `gspen-ner`. Thin: each verb parses, calls, and prints."""

from __future__ import annotations

from typing import Annotated

import typer

from gspen_ner.cli.compare import compare
from gspen_ner.cli.data import data
from gspen_ner.cli.doctor import doctor
from gspen_ner.cli.evaluate import evaluate
from gspen_ner.cli.predict import predict
from gspen_ner.cli.rank import rank
from gspen_ner.cli.recipes import recipes
from gspen_ner.cli.report import report
from gspen_ner.cli.serve import serve
from gspen_ner.cli.shared import clear_errors, console
from gspen_ner.cli.tag import tag
from gspen_ner.cli.train import train

app = typer.Typer(
    help="Global scores over whole label sequences for NER taggers, with the exact structure of a CRF.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for verb in (train, evaluate, compare, report, predict, tag, serve, rank, recipes, doctor):
    app.command()(verb)
app.add_typer(data, name="data")


@app.command(
    "bench", hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
@clear_errors
def _moved_bench() -> None:
    """Say where the benchmarks are now."""
    raise ValueError(
        "benchmarks are not part of the package any more: in a clone of the repository, run "
        "python -m recipes.bench"
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from gspen_ner import __version__

        console.print(f"gspen-ner {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


def main() -> None:
    """Entry point of the command."""
    app()
