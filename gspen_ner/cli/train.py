"""`gspen-ner train`."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.logging import RichHandler
from rich.table import Table

from gspen_ner.cli.shared import clear_errors, console

if TYPE_CHECKING:
    from gspen_ner.experiments.multilabel_run import MultilabelRun
    from gspen_ner.experiments.ocr_run import OCRRun
    from gspen_ner.experiments.tagging_run import TaggingRun
    from gspen_ner.recipe import MultilabelRecipe, OCRRecipe, TaggerRecipe, TaggingRecipe


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
    """Train by a recipe: a tagger with its global term on top, or all systems of another task.

    The run's folder gets the resolved recipe, metrics as JSON lines, a log, the results, and the best model
    in `model`. Killing it loses at most the current epoch (with Flair's trainer, the current stage; on other
    tasks, the current system).

    Examples:
        gspen-ner train quickstart

        gspen-ner train quickstart --set seed=2 --set base_training.epochs=8 --output runs/second

        GSPEN_DATA=/data gspen-ner train conll03_fast --resume

        gspen-ner train my_recipe.yaml --set data.train=train.conll

        gspen-ner train transformer --set encoder=bert-base-cased

        torchrun --nproc_per_node 2 --no-python gspen-ner train my_recipe.yaml

        gspen-ner train ocr --set data.letters=English/Fnt --output runs/ocr

        gspen-ner train tagging --set data.features=features.npz --set data.tags=tags.npz
    """
    from gspen_ner.recipe import MultilabelRecipe, OCRRecipe, TaggingRecipe, TrainedHere, load_recipe

    loaded = load_recipe(recipe, overrides or [])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not isinstance(loaded, TrainedHere):
        raise ValueError(f"{recipe}: trains in one process only; start it without torchrun")
    folder = output or Path("runs") / Path(recipe).stem
    try:
        if isinstance(loaded, OCRRecipe):
            _train_ocr(loaded, folder, resume)
        elif isinstance(loaded, MultilabelRecipe):
            _train_multilabel(loaded, folder, resume)
        elif isinstance(loaded, TaggingRecipe):
            _train_tagging(loaded, folder, resume)
        else:
            _train_tagger(loaded, folder, resume, Path(recipe).stem)
    except KeyboardInterrupt:
        changes = [part for change in overrides or [] for part in ("--set", change)]
        again = shlex.join(["gspen-ner", "train", recipe, *changes, "--output", str(folder), "--resume"])
        console.print(f"\ninterrupted; go on with: {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


def _train_tagger(recipe: TaggerRecipe, folder: Path, resume: bool, name: str) -> None:
    with console.status("loading libraries"):
        from gspen_ner.experiments.showcase import showcase
        from gspen_ner.experiments.tables import evaluation_summary, results_table, trials_table
        from gspen_ner.experiments.trials import gather, make_runs, open_folder, train_runs
        from gspen_ner.hosts.huggingface.processes import main_first

    runs = make_runs(recipe, folder)
    with main_first() as main:
        if main:
            open_folder(recipe, folder, resume)
            _log_to(folder / "log.txt")
    results = train_runs(runs, recipe.drop_worst)
    if not main:
        return
    console.print(results_table(results, f"{name}: F1 of whole entities (seqeval, strict)"))
    if recipe.trials > 1:
        console.print(trials_table(results, "all trials"))
        gather(folder, runs, results)
    else:
        last = results[0].test or results[0].dev
        for line in evaluation_summary(last, recipe.system):
            console.print(line, highlight=False)
        for text in showcase(recipe, folder):
            console.print(text)
        console.print(
            f"\nThe model is in {folder / 'model'}. Use it:\n"
            f"  echo 'Ms. Anna Halden spoke. Halden left.' | gspen-ner predict {folder} -\n"
            f"  gspen-ner evaluate {folder} FILE",
            highlight=False,
            soft_wrap=True,
        )


def _train_ocr(recipe: OCRRecipe, folder: Path, resume: bool) -> None:
    with console.status("loading libraries"):
        from gspen_ner.experiments.ocr_run import OCRRun
        from gspen_ner.experiments.ocr_tables import ocr_tables
        from gspen_ner.report.ocr_figures import draw_figures
        from gspen_ner.report.ocr_samples import sample_figure

    run = OCRRun(recipe, folder)
    figures = _open_run(run, resume)
    samples = {alpha: run.data(alpha)["test"] for alpha in recipe.alphas}
    sample_figure(samples, figures / "samples.png", rows=min(3, recipe.data.test))
    results = run.train()
    draw_figures(recipe, results, figures)
    _show(ocr_tables(recipe, results), figures)


def _train_multilabel(recipe: MultilabelRecipe, folder: Path, resume: bool) -> None:
    with console.status("loading libraries"):
        from gspen_ner.experiments.multilabel_run import MultilabelRun, multilabel_table
        from gspen_ner.experiments.over_seeds import by_system
        from gspen_ner.report.multilabel_figures import draw_f1

    run = MultilabelRun(recipe, folder)
    figures = _open_run(run, resume)
    results = run.train()
    draw_f1(recipe.data.format, by_system(results, "test_f1"), figures)
    _show([multilabel_table(results, recipe.data.format)], figures)


def _train_tagging(recipe: TaggingRecipe, folder: Path, resume: bool) -> None:
    with console.status("loading libraries"):
        from gspen_ner.experiments.tagging_run import TaggingRun, tagging_table
        from gspen_ner.report.tagging_figures import draw_curves

    run = TaggingRun(recipe, folder)
    figures = _open_run(run, resume)
    results = run.train()
    draw_curves(run.data.source, results, figures)
    _show([tagging_table(results, run.data.source)], figures)


def _open_run(run: OCRRun | MultilabelRun | TaggingRun, resume: bool) -> Path:
    """Make a run's folder, or go on with it, and say what its data are; the folder of its pictures."""
    from gspen_ner.experiments.trials import open_folder

    open_folder(run.recipe, run.folder, resume)
    _log_to(run.folder / "log.txt")
    console.print(run.said(), highlight=False, soft_wrap=True)
    figures = run.folder / "figures"
    figures.mkdir(exist_ok=True)
    return figures


def _show(tables: Iterable[Table], figures: Path) -> None:
    for table in tables:
        console.print(table)
    console.print(
        f"\nPictures, with their figures as JSON, are in {figures}.", highlight=False, soft_wrap=True
    )


class _RunLog(logging.FileHandler):
    """On a full disk a line is lost without a word: what the run itself cannot write is what it says."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


def _log_to(file: Path) -> None:
    """What happens goes to the console and, with times, into the run's log."""
    log = logging.getLogger("gspen_ner")
    log.setLevel(logging.INFO)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    written = _RunLog(file, encoding="utf-8")
    written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    shown = RichHandler(console=console, show_path=False, show_level=False, markup=False)
    log.addHandler(written)
    log.addHandler(shown)
