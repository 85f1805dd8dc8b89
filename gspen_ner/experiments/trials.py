"""Several runs of a recipe with different seeds, of which the worst are dropped."""

from __future__ import annotations

import logging
from pathlib import Path

from gspen_ner.experiments.huggingface_run import HuggingFaceRun
from gspen_ner.experiments.run import Results, Run
from gspen_ner.files import write_whole
from gspen_ner.recipe import AnyRecipe, FlairRecipe

logger = logging.getLogger(__name__)


def open_folder(recipe: AnyRecipe, folder: Path, resume: bool) -> None:
    """Make a run's folder and write its recipe, or check that it is this recipe's.

    Raises:
        ValueError: if there is a run already and it is not to be resumed, or one of another recipe.
    """
    file = folder / "recipe.yaml"
    if file.exists():
        if not resume:
            raise ValueError(f"{folder} holds a run already: go on with --resume, or give another --output")
        if file.read_text(encoding="utf-8") != recipe.as_yaml():
            raise ValueError(f"{folder} is a run of another recipe (see {file}): resume it with that one")
        return
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no run: give another --output")
    if resume:
        raise ValueError(f"{folder} holds no run to resume")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, recipe.as_yaml())


def make_run(recipe: AnyRecipe, folder: Path) -> Run:
    """The run of a recipe in its host."""
    if isinstance(recipe, FlairRecipe):
        from gspen_ner.experiments.flair_run import FlairRun  # Flair is an extra, and slow to import

        return FlairRun(recipe, folder)
    return HuggingFaceRun(recipe, folder)


def run_recipe(recipe: AnyRecipe, folder: Path) -> list[Results]:
    """Train all trials of a recipe; base models first, so that the worst can be dropped before the term."""
    if recipe.trials == 1:
        return [make_run(recipe, folder).train()]
    bases = {}
    for number in range(recipe.trials):
        seed = recipe.seed + number
        place = folder / f"trial-{number + 1}"
        place.mkdir(exist_ok=True)
        logger.info("trial %d of %d, seed %d", number + 1, recipe.trials, seed)
        run = make_run(recipe.model_copy(update={"seed": seed}), place)
        bases[run] = run.train_base()
    worst_last = sorted(bases, key=Run.base_f1, reverse=True)
    dropped = worst_last[recipe.trials - recipe.drop_worst :]
    for run in dropped:
        logger.info("seed %d is dropped: its base model is among the worst on dev", run.recipe.seed)
    return [
        run.finish(run.train_term(base) if run.has_term else base)
        for run, base in bases.items()
        if run not in dropped
    ]
