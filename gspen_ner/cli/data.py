"""`gspen-ner data`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from gspen_ner.cli.shared import (
    JsonFile,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    check_writable,
    clear_errors,
    console,
    read_tagged,
    write_json,
)

data = typer.Typer(help="Look at tagged data.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Keeps `describe` a verb of its own."""


@data.command("describe")
@clear_errors
def describe_data(
    source: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A tagged file, a dataset, hub:NAME:SPLIT or newswire:N:SEED."),
    ],
    json_file: JsonFile = None,
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Count what a corpus holds, and say what looks wrong with it.

    Examples:
        gspen-ner data describe train.txt

        gspen-ner data describe train.txt --token-column 1 --tag-column 4

        gspen-ner data describe newswire:300:1 --json counts.json
    """
    check_writable(json_file, "--json")
    from gspen_ner.ner.statistics import describe

    found = describe(read_tagged(source, token_column, tag_column, scheme, strict))
    documents = "not marked" if found.documents is None else f"{found.documents:,}"
    console.print(
        f"{found.source}: {found.sentences:,} sentences, {found.tokens:,} tokens, documents: {documents}, "
        f"scheme {found.scheme}\nlengths: {found.lengths[0]} to {found.lengths[2]}, median "
        f"{found.lengths[1]:g} tokens",
        highlight=False,
    )
    table = Table(title="entities", title_justify="left")
    for name in ("type", "count", "distinct", "longest"):
        table.add_column(name, justify="left" if name == "type" else "right")
    for kind, counts in found.types.items():
        table.add_row(kind, f"{counts.entities:,}", f"{counts.distinct:,}", str(counts.longest))
    console.print(table)
    for name, kinds in found.ambiguous:
        console.print(f"ambiguous: {name} ({kinds})", highlight=False, markup=False)
    for problem in found.problems:
        console.print(f"problem: {problem}", style="yellow", highlight=False, markup=False)
    write_json(json_file, asdict(found))
