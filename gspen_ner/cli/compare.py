"""The command `gspen-ner compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gspen_ner.cli.shared import clear_errors, console


@clear_errors
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs, named NAME-SEED.")],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table instead of a plain one.")
    ] = False,
    calibration: Annotated[
        bool,
        typer.Option("--reliability", help="Print the share of correct entities by confidence instead."),
    ] = False,
) -> None:
    """Compare runs seed by seed: mean F1, standard deviation, gain over the CRF, calibration.

    Runs whose folder names differ only in the seed at the end count as one system. Each run is compared with
    the CRF of the same seed: the base model that both runs share (`--set base=`), or a run without a global
    term. The 95 % interval of the gain is a paired bootstrap over the sentences of the test set.

    Examples:
        gspen-ner compare runs/study/*

        gspen-ner compare runs/crf-* runs/document-* --markdown

        gspen-ner compare runs/crf-* runs/document-* --reliability
    """
    with console.status("comparing"):
        from gspen_ner.runs.comparison import compare_runs, comparison, reliability

        systems = compare_runs(runs)
        table = reliability(systems) if calibration else comparison(systems)
    console.print(table.as_markdown() if markdown else table.as_table(), soft_wrap=True)
