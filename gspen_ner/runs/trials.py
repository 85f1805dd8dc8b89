"""Runs a recipe once per seed, excludes the runs with the worst base models, and keeps the best model."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gspen_ner.files import write_folder, write_whole
from gspen_ner.hosts.huggingface.processes import is_main
from gspen_ner.recipe import AnyRecipe, FlairRecipe
from gspen_ner.runs.huggingface_run import HuggingFaceRun
from gspen_ner.runs.run import Results, Run

logger = logging.getLogger(__name__)


def make_run(recipe: AnyRecipe, folder: Path) -> Run:
    """Return the run of a recipe, with the host that trains it."""
    if isinstance(recipe, FlairRecipe):
        from gspen_ner.runs.flair_run import FlairRun  # Flair is an extra, and slow to import

        return FlairRun(recipe, folder)
    return HuggingFaceRun(recipe, folder)


def make_runs(recipe: AnyRecipe, folder: Path) -> list[Run]:
    """Return the runs of a recipe, one for each trial; reads their data, writes nothing."""
    if recipe.trials == 1:
        return [make_run(recipe, folder)]
    return [
        make_run(recipe.model_copy(update={"seed": recipe.seed + trial}), folder / f"trial-{trial + 1}")
        for trial in range(recipe.trials)
    ]


def train_runs(runs: Sequence[Run], drop_worst: int = 0) -> list[Results]:
    """Train all runs: base models first, so that the worst can be dropped before their terms are trained.

    Of several processes that train together, only the main one returns results.
    """
    bases = {}
    for number, run in enumerate(runs, 1):
        if len(runs) > 1:
            logger.info("trial %d of %d, seed %d", number, len(runs), run.recipe.seed)
        run.folder.mkdir(exist_ok=True)
        bases[run] = run.train_base()
    for run in sorted(runs, key=Run.base_f1)[:drop_worst] if drop_worst else []:
        logger.info("seed %d is dropped: its base model is among the worst on dev", run.recipe.seed)
        del bases[run]
    best = {run: run.train_term(base) if run.has_term else base for run, base in bases.items()}
    return [run.finish(model) for run, model in best.items()] if is_main() else []


def gather(folder: Path, runs: Sequence[Run], results: Sequence[Results]) -> None:
    """Write the results of all trials, and the model with the best F1 on dev, to the common folder."""
    best = max(results, key=lambda result: result.dev.assessments[-1].score.f1)
    run = next(run for run in runs if run.recipe.seed == best.seed)
    write_folder(folder / "model", lambda new: shutil.copytree(run.folder / "model", new, dirs_exist_ok=True))
    entries = [asdict(result) for result in results]
    write_whole(folder / "results.json", json.dumps(entries, indent=2) + "\n")
