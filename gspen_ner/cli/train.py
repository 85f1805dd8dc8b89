"""The command `gspen-ner train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gspen_ner.cli.shared import clear_errors, console, stop_with_hint

if TYPE_CHECKING:
    from gspen_ner.recipe import AnyRecipe


@clear_errors
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="Name of a built-in recipe (see `gspen-ner recipes`), or path of a .yaml file.",
            show_default=False,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override an entry of the recipe; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the run.", show_default="runs/RECIPE", file_okay=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
) -> None:
    """Train a tagger from a recipe: first its base model, then a global term on top.

    The folder of the run contains the resolved recipe, metrics as JSON lines, a log, the results, and the
    best model in `model`. An interrupted run loses at most one epoch (with Flair's trainer, one training
    stage) and continues with --resume.

    Examples:
        gspen-ner train quickstart

        gspen-ner train quickstart --set seed=2 --set base_training.epochs=8 --output runs/second

        GSPEN_DATA=/data gspen-ner train conll03_fast --resume

        gspen-ner train my_recipe.yaml --set data.train=train.conll

        gspen-ner train transformer --set encoder=bert-base-cased

        torchrun --nproc_per_node 2 --no-python gspen-ner train my_recipe.yaml
    """
    from gspen_ner.recipe import TrainedHere, load_recipe

    loaded = load_recipe(recipe, overrides or [])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not isinstance(loaded, TrainedHere):
        raise ValueError(f"{recipe}: this recipe trains in one process only: start it without torchrun")
    folder = output or Path("runs") / Path(recipe).stem
    try:
        _train(loaded, folder, resume, Path(recipe).stem)
    except KeyboardInterrupt:
        stop_with_hint(["gspen-ner", "train", recipe], overrides or [], folder)


def _train(recipe: AnyRecipe, folder: Path, resume: bool, name: str) -> None:
    with console.status("loading libraries"):
        from gspen_ner.hosts.huggingface.processes import main_first
        from gspen_ner.hosts.loading import load_tagger
        from gspen_ner.runs.run import open_folder, write_log
        from gspen_ner.runs.tables import evaluation_summary, results_table, showcase, trials_table
        from gspen_ner.runs.trials import gather, make_runs, train_runs

    runs = make_runs(recipe, folder)
    with main_first() as is_main:
        if is_main:
            open_folder(recipe, folder, resume)
            write_log(folder / "log.txt", console)
    results = train_runs(runs, recipe.drop_worst)
    if not is_main:
        return
    console.print(results_table(results, f"{name}: F1 of whole entities (seqeval, strict)"))
    if recipe.trials > 1:
        console.print(trials_table(results, "all trials"))
        gather(folder, runs, results)
    else:
        evaluation = results[0].test or results[0].dev
        for line in evaluation_summary(evaluation, recipe.system):
            console.print(line, highlight=False)
        corpus = runs[0].corpus
        for text in showcase(load_tagger(folder), corpus.test or corpus.dev):
            console.print(text)
        console.print(
            f"\nThe model is in {folder / 'model'}. Use it:\n"
            f"  echo 'Ms. Anna Halden spoke. Halden left.' | gspen-ner predict {folder} -\n"
            f"  gspen-ner evaluate {folder} FILE",
            highlight=False,
            soft_wrap=True,
        )
