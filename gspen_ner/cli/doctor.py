"""`gspen-ner doctor`."""

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
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Look at the installation: versions, backends, threads, caches, devices, and what each extra lacks.

    The exit code is 0 unless something that is needed is missing or broken.

    Examples:
        gspen-ner doctor

        gspen-ner doctor --json
    """
    from gspen_ner.installation import check_all, healthy

    checks = check_all()
    fine = healthy(checks)
    if as_json:
        typer.echo(json.dumps({"healthy": fine, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        table = Table(box=None, pad_edge=False)
        for title in ("", "what", "", "found"):
            table.add_column(title, overflow="fold")
        for group, members in groupby(checks, key=lambda check: check.group):
            for number, check in enumerate(members):
                style = "red" if check.needed and check.status == "missing" else STYLES[check.status]
                status = Text(check.status, style)
                table.add_row(group if number == 0 else "", check.name, status, check.detail)
        console.print(table)
        extras = {
            check.group for check in checks if check.group.startswith("extra ") and check.status != "ok"
        }
        lacking = sorted(group.removeprefix("extra ") for group in extras)
        for extra in lacking:
            console.print(f"for the extra {extra}: pip install 'gspen-ner[{extra}]'", highlight=False)
        console.print("all that is needed is there" if fine else "something that is needed does not work")
    if not fine:
        raise typer.Exit(1)
