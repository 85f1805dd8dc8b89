"""The command of a study: `python -m recipes.ocr`, with the options of `gspen-ner train`.

run folder      recipe.yaml  log.txt  results.json  a folder for each trained system
                figures/*.png with their numbers as *.json
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.table import Table

from gspen_ner.cli.shared import clear_errors, console, stop_with_hint
from gspen_ner.components import Section
from gspen_ner.files import write_whole
from gspen_ner.recipe import load_settings
from gspen_ner.runs.run import open_folder, write_log
from recipes.studies.data import StudyData
from recipes.studies.systems import StudySystems


class Study(ABC):
    """A study in the folder of its run. Its data is read when it is made, so that errors come first."""

    settings: ClassVar[type[Section]]
    """What its recipes may say."""
    systems_class: ClassVar[Any]
    data: StudyData

    def __init__(self, recipe: Any, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.read_data()

    @abstractmethod
    def read_data(self) -> None:
        """Read the data that the recipe names."""

    @abstractmethod
    def describe_data(self) -> str:
        """Return what the data is, in one line."""

    def systems(self, seed: int) -> StudySystems:
        """Return the systems of a seed, by default of the study's only data."""
        return self.systems_class(self.recipe, self.data, seed, self.folder / f"seed-{seed}")

    def results(self) -> Iterable[Any]:
        """Yield the results of all systems and seeds; train missing systems."""
        for seed in self.recipe.seeds:
            yield from self.systems(seed).results()

    @abstractmethod
    def report(self, results: Sequence[Any], figures: Path) -> Iterable[Table]:
        """Draw pictures and return tables of results."""

    def train(self) -> list[Any]:
        """Return the results of all systems and write them as results.json; train missing systems."""
        results = list(self.results())
        entries = [asdict(result) for result in results]
        write_whole(self.folder / "results.json", json.dumps(entries, indent=2) + "\n")
        return results


def study_command(module: str, study: type[Study], recipes: Sequence[str]) -> typer.Typer:
    """Return the command line of a study.

    Args:
        module: what `python -m` runs, such as `recipes.ocr`.
        study: the study.
        recipes: names of the YAML files beside the module; the first is the default.
    """
    home = Path(__file__).parents[1] / module.rpartition(".")[2]

    def command(
        recipe: Annotated[str, typer.Argument(help=f"{', '.join(recipes)}, or a .yaml file.")] = recipes[0],
        overrides: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="KEY=VALUE", help="Override an entry of the recipe; repeatable."),
        ] = None,
        output: Annotated[
            Path | None, typer.Option(help="Folder of the run.", show_default="runs/RECIPE", file_okay=False)
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    ) -> None:
        """Train all systems of the study, and write their tables and figures.

        An interrupted run loses the system that it was training; --resume continues with that one.
        """
        file = home / f"{recipe}.yaml" if recipe in recipes else Path(recipe)
        if not file.is_file():
            raise ValueError(f"{recipe}: no such file; expected {', '.join(recipes)} or a .yaml file")
        folder = output or Path("runs") / Path(recipe).stem
        run = study(load_settings(file, study.settings, overrides or []), folder)
        open_folder(run.recipe, folder, resume)
        for package in ("gspen_ner", "recipes"):
            write_log(folder / "log.txt", console, package)
        console.print(run.describe_data(), highlight=False, soft_wrap=True)
        figures = folder / "figures"
        figures.mkdir(exist_ok=True)
        try:
            results = run.train()
        except KeyboardInterrupt:
            stop_with_hint(["python", "-m", module, recipe], overrides or [], folder)
        for table in run.report(results, figures):
            console.print(table)
        console.print(f"\nFigures and their data as JSON are in {figures}.", highlight=False, soft_wrap=True)

    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command(name=f"python -m {module}")(clear_errors(command))
    return app
