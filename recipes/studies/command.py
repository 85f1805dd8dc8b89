"""The command of a study: `python -m recipes.ocr`, with the options of `gspen-ner train`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer
from rich.table import Table

from gspen_ner.cli.shared import clear_errors, console, stop_with_hint
from gspen_ner.recipe import Section, load_settings
from gspen_ner.runs.folder import open_folder, write_log


class Study(Protocol):
    """A study in its folder."""

    recipe: Section
    folder: Path

    def said(self) -> str:
        """What the data are."""

    def report(self, figures: Path) -> Sequence[Table]:
        """Train what is not there yet, draw figures, and return the tables of results."""


Settings = TypeVar("Settings", bound=Section)


def run_study(
    module: str, settings: type[Settings], study: Callable[[Settings, Path], Study], recipes: Sequence[str]
) -> None:
    """Run the command line of a study.

    Args:
        module: for `python -m`, such as `recipes.ocr`.
        settings: what its recipes may say.
        study: makes the study of a recipe in a folder.
        recipes: YAML files beside the module, by name; the first is the default.
    """
    home = Path(__file__).parents[1] / module.rpartition(".")[2]

    def command(
        recipe: Annotated[str, typer.Argument(help=f"{', '.join(recipes)}, or a .yaml file.")] = recipes[0],
        overrides: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="KEY=VALUE", help="Change an entry of the recipe; repeatable."),
        ] = None,
        output: Annotated[
            Path | None, typer.Option(help="Folder of the run; runs/RECIPE by default.", file_okay=False)
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    ) -> None:
        """Train all systems of the study, and write their tables and figures.

        An interrupted run loses the system that it was training; --resume continues with that one.
        """
        file = home / f"{recipe}.yaml" if recipe in recipes else Path(recipe)
        if not file.is_file():
            raise ValueError(
                f"{recipe}: expected {', '.join(recipes)} or a recipe file; there is no such file"
            )
        made = study(
            load_settings(file, settings, overrides or []), output or Path("runs") / Path(recipe).stem
        )
        open_folder(made.recipe, made.folder, resume)
        write_log(made.folder / "log.txt", console)
        console.print(made.said(), highlight=False, soft_wrap=True)
        figures = made.folder / "figures"
        figures.mkdir(exist_ok=True)
        try:
            tables = made.report(figures)
        except KeyboardInterrupt:
            stop_with_hint(["python", "-m", module, recipe], overrides or [], made.folder)
        for table in tables:
            console.print(table)
        console.print(f"\nFigures and their data as JSON are in {figures}.", highlight=False, soft_wrap=True)

    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(clear_errors(command))
    app(prog_name=f"python -m {module}")
