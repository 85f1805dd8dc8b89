"""The command `gspen-ner doctor`."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from gspen_ner.cli.shared import clear_errors, console

STYLES = {"ok": "green", "note": "yellow", "missing": "yellow", "broken": "red"}


@clear_errors
def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON instead of a table.")
    ] = False,
) -> None:
    """Check the installation: versions, requirements, extras, backends, threads, caches, devices.

    The exit code is 1 if a required package is missing or something required does not work, otherwise 0.

    Examples:
        gspen-ner doctor

        gspen-ner doctor --json
    """
    from gspen_ner.installation import check_all, healthy

    checks = check_all()
    is_healthy = healthy(checks)
    if as_json:
        report = {"healthy": is_healthy, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, indent=2))
    else:
        table = Table(box=None, pad_edge=False)
        for title in ("", "check", "", "result"):
            table.add_column(title, overflow="fold")
        for group, members in groupby(checks, key=lambda check: check.group):
            for number, check in enumerate(members):
                style = "red" if check.needed and check.status == "missing" else STYLES[check.status]
                status = Text(check.status, style)
                table.add_row(group if number == 0 else "", check.name, status, check.detail)
        console.print(table)
        incomplete = {c.group for c in checks if c.group.startswith("extra ") and c.status != "ok"}
        for group in sorted(incomplete):
            extra = group.removeprefix("extra ")
            console.print(f"to install the extra {extra}: pip install 'gspen-ner[{extra}]'", highlight=False)
        console.print(
            "everything required works"
            if is_healthy
            else "something required is missing or broken: see the red lines above"
        )
    if not is_healthy:
        raise typer.Exit(1)
