"""The command `gspen-ner data describe`."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.table import Table

from gspen_ner.cli.shared import (
    GoldData,
    JsonFile,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    clear_errors,
    console,
    read_tagged,
    write_json,
)

data = typer.Typer(help="Inspect tagged data.", no_args_is_help=True, add_completion=False)


@data.callback()
def _group() -> None:
    """Keep `describe` a subcommand: typer would otherwise make it `data` itself."""


@data.command("describe")
@clear_errors
def describe_data(
    source: GoldData,
    json_file: JsonFile = None,
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Count the sentences, tokens and entities of tagged data, and list likely problems.

    Examples:
        gspen-ner data describe train.txt

        gspen-ner data describe train.txt --token-column 1 --tag-column 4

        gspen-ner data describe newswire:300:1 --json counts.json
    """
    from gspen_ner.ner.statistics import describe

    description = describe(read_tagged(source, token_column, tag_column, scheme, strict))
    documents = "not marked" if description.documents is None else f"{description.documents:,}"
    shortest, median, longest = description.lengths
    console.print(
        f"{description.source}: {description.sentences:,} sentences, {description.tokens:,} tokens, "
        f"documents: {documents}, scheme {description.scheme}\n"
        f"sentence lengths: {shortest} to {longest} tokens, median {median:g}",
        highlight=False,
    )
    table = Table(title="entities", title_justify="left")
    for name in ("type", "count", "distinct", "longest"):
        table.add_column(name, justify="left" if name == "type" else "right")
    for entity_type, counts in description.types.items():
        table.add_row(entity_type, f"{counts.entities:,}", f"{counts.distinct:,}", str(counts.longest))
    console.print(table)
    if description.related:
        entities = sum(counts.entities for counts in description.types.values())
        table = Table(
            title="related within their document, by relation of a document term", title_justify="left"
        )
        for name in ("relation", "tokens", "entities"):
            table.add_column(name, justify="left" if name == "relation" else "right")
        for relation, related in description.related.items():
            shares = (related.tokens / max(description.tokens, 1), related.entities / max(entities, 1))
            table.add_row(relation, *(f"{share:.0%}" for share in shares))
        console.print(table)
    for name, types in description.ambiguous:
        console.print(f"ambiguous: {name} ({types})", highlight=False, markup=False)
    for problem in description.problems:
        console.print(f"problem: {problem}", style="yellow", highlight=False, markup=False)
    write_json(json_file, asdict(description))
