"""`gspen-ner train` and `gspen-ner recipes`."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.logging import RichHandler
from rich.table import Table

from gspen_ner.cli.shared import clear_errors, console


@clear_errors
def train(
    recipe: Annotated[
        str, typer.Argument(help="A built-in recipe (see `gspen-ner recipes`) or a .yaml file.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change an entry of the recipe; repeat it for more."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/RECIPE if not given.", file_okay=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
) -> None:
    """Train a tagger by a recipe: the base model, then the global term on top of it.

    The run's folder gets the resolved recipe, metrics as JSON lines, a log, the results, and the best model
    in `model`. Killing it loses at most the current epoch (with Flair's trainer, the current stage).

    Examples:
        gspen-ner train quickstart

        gspen-ner train quickstart --set seed=2 --set base_training.epochs=8 --output runs/second

        GSPEN_DATA=/data gspen-ner train conll03_fast --resume

        gspen-ner train my_recipe.yaml --set data.train=train.conll
    """
    from gspen_ner.recipe import load_recipe

    loaded = load_recipe(recipe, overrides or [])
    folder = output or Path("runs") / Path(recipe).stem
    with console.status("loading libraries"):
        from gspen_ner.experiments.showcase import showcase
        from gspen_ner.experiments.tables import evaluation_summary, results_table, trials_table
        from gspen_ner.experiments.trials import gather, make_runs, open_folder, train_runs

    runs = make_runs(loaded, folder)
    open_folder(loaded, folder, resume)
    _log_to(folder / "log.txt")
    try:
        results = train_runs(runs, loaded.drop_worst)
    except KeyboardInterrupt:
        changes = [part for change in overrides or [] for part in ("--set", change)]
        again = shlex.join(["gspen-ner", "train", recipe, *changes, "--output", str(folder), "--resume"])
        console.print(f"\ninterrupted; go on with: {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    console.print(results_table(results, f"{Path(recipe).stem}: F1 of whole entities (seqeval, strict)"))
    if loaded.trials > 1:
        console.print(trials_table(results, "all trials"))
        gather(folder, runs, results)
    else:
        last = results[0].test or results[0].dev
        for line in evaluation_summary(last, loaded.system):
            console.print(line, highlight=False)
        for text in showcase(loaded, folder):
            console.print(text)
        console.print(
            f"\nThe model is in {folder / 'model'}. Use it:\n"
            f"  echo 'Ms. Anna Halden spoke. Halden left.' | gspen-ner predict {folder} -\n"
            f"  gspen-ner evaluate {folder} FILE",
            highlight=False,
            soft_wrap=True,
        )


@clear_errors
def recipes() -> None:
    """List the built-in recipes.

    Examples:
        gspen-ner recipes
    """
    from gspen_ner.recipe import recipe_names

    table = Table(title="built-in recipes", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    for name, description in recipe_names().items():
        table.add_row(name, description)
    console.print(table)


def _log_to(file: Path) -> None:
    """What happens goes to the console and, with times, into the run's log."""
    log = logging.getLogger("gspen_ner")
    log.setLevel(logging.INFO)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    written = logging.FileHandler(file, encoding="utf-8")
    written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    shown = RichHandler(console=console, show_path=False, show_level=False, markup=False)
    log.addHandler(written)
    log.addHandler(shown)
