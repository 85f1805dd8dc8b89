"""The command line `gspen-ner`: each command parses its options, calls the library and prints the result."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gspen_ner.cli.shared import clear_errors, console

COMMANDS = (
    *("train", "upgrade", "evaluate", "compare", "report", "predict", "tag", "serve", "rank"),
    *("recipes", "doctor", "data"),
)


class _LazyGroup(TyperGroup):
    """Import the module of a command only when the command runs or its help is shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*COMMANDS, *self.commands]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # An unknown name loads all commands, so that the error can suggest a similar one.
        known = cmd_name in COMMANDS or cmd_name in self.commands
        for name in [cmd_name] if known else COMMANDS:
            if name not in self.commands:
                self.add_command(_load_command(name), name)
        return super().get_command(ctx, cmd_name)


def _load_command(name: str) -> Any:
    """Return the Click command that the module of the same name defines."""
    command = getattr(import_module(f"{__name__}.{name}"), name)
    if not isinstance(command, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(command)
        command = single
    loaded = typer.main.get_command(command)
    loaded.name = name
    return loaded


app = typer.Typer(
    cls=_LazyGroup,
    help="Global scores over whole label sequences for NER taggers, with the exact structure of a CRF.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command(
    "bench", hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
@clear_errors
def _moved_bench() -> None:
    """Say where the benchmarks are now."""
    raise ValueError(
        "the benchmarks are no longer part of the package: run python -m recipes.bench in a clone of the "
        "repository"
    )


def _print_version(requested: bool) -> None:
    if requested:
        from gspen_ner import __version__

        console.print(f"gspen-ner {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Parse the options before the command."""


def main() -> None:
    """Run the command line."""
    app()
