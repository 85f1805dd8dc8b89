"""All seeds of an image tagging experiment, and what came out as a table.

run folder      recipe.yaml  log.txt  results.json
                seed-S/SYSTEM/                          see `SystemFolder`
                figures/curves.png with its figures as curves.json
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from gspen_ner.recipe import expand
from recipes.multilabel.task import generate_multilabel
from recipes.studies.over_seeds import by_system, said_of_seeds
from recipes.studies.system_folder import write_results
from recipes.tagging.figures import draw_curves
from recipes.tagging.settings import Generated, Images, Matrices, TaggingRecipe
from recipes.tagging.systems import TaggingResult, TaggingSystems
from recipes.tagging.task import (
    SIZES,
    TaggingData,
    TaggingSplit,
    read_matrices,
    read_mirflickr,
    torchvision_backbone,
)


class TaggingRun:
    """One run of a tagging recipe in a folder.

    Args:
        recipe: what to do.
        folder: where; made if needed.
    """

    def __init__(self, recipe: TaggingRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.data = read_images(recipe.data)

    def said(self) -> str:
        """What the data are."""
        data = self.data
        splits = {"train": data.train, "dev": data.dev, "test": data.test}
        images = ", ".join(f"{len(split.labels):,} {name}" for name, split in splits.items())
        a_tag = data.test.labels.double().sum(1).mean().item()
        return (
            f"{data.source}: {images} images, {data.train.features.shape[1]:,} features, "
            f"{len(data.names)} tags, of which an image has {a_tag:.2f} on average"
        )

    def train(self) -> list[TaggingResult]:
        """Train what is not there yet; the results of everything, also as results.json."""
        results: list[TaggingResult] = []
        for seed in self.recipe.seeds:
            systems = TaggingSystems(self.recipe, self.data, seed, self.folder / f"seed-{seed}")
            results += systems.train(self.recipe.systems)
        write_results(results, self.folder)
        return results

    def report(self, figures: Path) -> Sequence[Table]:
        """Train what is not there yet, draw figures, and return the table of results."""
        results = self.train()
        draw_curves(self.data.source, results, figures)
        return [tagging_table(results, self.data.source)]


def read_images(source: Matrices | Images | Generated) -> TaggingData:
    """The images that a recipe names."""
    if isinstance(source, Generated):
        made = generate_multilabel(source.rows, source.features, source.tags, source.seed)
        train, dev, test = (
            TaggingSplit(split.features.float(), split.labels) for split in (made.train, made.dev, made.test)
        )
        return TaggingData(train, dev, test, made.names, made.source)
    if isinstance(source, Matrices):
        return read_matrices(expand(source.features), expand(source.tags), source.seed, source.sizes or SIZES)
    backbone = torchvision_backbone(source.backbone, source.weights and expand(source.weights))
    folders = expand(source.images), expand(source.annotations)
    return read_mirflickr(*folders, backbone, source.seed, source.sizes or SIZES)


def tagging_table(results: Sequence[TaggingResult], source: str) -> Table:
    """Wrong tags of an image, what training takes, and steps of inference."""
    title = f"{source}: wrong tags of an image ({said_of_seeds(results)})"
    table = Table(title=title, title_justify="left")
    table.add_column("system")
    columns = ("train", "dev", "test", "seconds an epoch", "times Struct's", "steps, training", "steps, test")
    for column in columns:
        table.add_column(column, justify="right")
    measures = (*(f"{split}_loss" for split in columns[:3]), "inference_steps", "test_steps")
    losses_and_steps = [by_system(results, measure) for measure in measures]
    seconds = by_system(results, "seconds_an_epoch")
    for name in seconds:
        losses = [f"{found[name]:.3f}" for found in losses_and_steps[:3]]
        steps = [f"{found[name].mean:.1f}" if found[name].mean else "" for found in losses_and_steps[3:]]
        ratio = f"{seconds[name].median / seconds['Struct'].median:.1f}" if "Struct" in seconds else ""
        table.add_row(name, *losses, f"{seconds[name].median:.2f}", ratio, *steps)
    return table
