"""The command `gspen-ner recipes`."""

from __future__ import annotations

from rich.table import Table

from gspen_ner.cli.shared import clear_errors, console


@clear_errors
def recipes() -> None:
    """List the built-in recipes that `gspen-ner train` accepts by name.

    Examples:
        gspen-ner recipes
    """
    from gspen_ner.recipe import recipe_names

    table = Table(title="built-in recipes", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("description")
    for name, description in recipe_names().items():
        table.add_row(name, description)
    console.print(table)
