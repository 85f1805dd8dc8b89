"""The study of image tagging: all seeds, a table, and the loss by epoch as in the paper.

run folder      seed-S/SYSTEM/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from gspen_ner.recipe import expand
from gspen_ner.runs.tables import OverSeeds
from recipes.studies.command import Study
from recipes.studies.data import SPLITS, generate_rows
from recipes.studies.pictures import SYSTEM_STYLES, draw_lines
from recipes.studies.results import (
    WITH_TERM,
    Curve,
    by_system,
    cost_columns,
    over_seeds,
    seeds_column,
    seeds_note,
    systems_table,
    term_column,
)
from recipes.tagging.backbone import torchvision_backbone
from recipes.tagging.matrices import read_matrices
from recipes.tagging.mirflickr import read_mirflickr
from recipes.tagging.settings import Generated, Matrices, TaggingRecipe
from recipes.tagging.systems import TaggingResult, TaggingSystems

_PANELS = {"train": "training images", "dev": "validation images", "test": "test images"}


class TaggingStudy(Study):
    """The study of image tagging in its folder."""

    settings, systems_class = TaggingRecipe, TaggingSystems

    def read_data(self) -> None:
        source = self.recipe.data
        if isinstance(source, Generated):
            self.data = generate_rows(source.rows, source.features, source.tags, source.seed)
        elif isinstance(source, Matrices):
            files = expand(source.features), expand(source.tags)
            self.data = read_matrices(*files, source.seed, source.sizes)
        else:
            backbone = torchvision_backbone(source.backbone, source.weights and expand(source.weights))
            folders = expand(source.images), expand(source.annotations)
            self.data = read_mirflickr(*folders, backbone, source.seed, source.sizes)

    def describe_data(self) -> str:
        data = self.data
        tags = data.test.labels.double().sum(1).mean().item()
        return (
            f"{data.source}: {data.sizes()} images, {data.train.inputs.shape[1]:,} features, "
            f"{len(data.names)} tags, of which an image has {tags:.2f} on average"
        )

    def report(self, results: Sequence[TaggingResult], figures: Path) -> Iterable[Table]:
        title = f"{self.data.source}: wrong tags of an image ({seeds_note(len(self.recipe.seeds))})"
        draw_curves(title, by_system(results), figures)
        columns = {split: seeds_column(f"{split}_loss", decimals=3) for split in SPLITS}
        columns |= cost_columns(results, decimals=2)
        columns["steps, training"] = term_column("inference_steps")
        columns["steps, test"] = term_column("test_steps")
        return [systems_table(title, results, columns)]


def draw_curves(title: str, systems: Mapping[str, Sequence[TaggingResult]], folder: Path) -> None:
    """Draw curves.png: wrong tags of an image on train, dev and test by epoch.

    Unary, whose first epochs would leave no room for the others, is a line at its final loss.
    """
    panels = {}
    for split, panel in _PANELS.items():
        curves = {name: _loss_by_epoch(group, split) for name, group in systems.items() if name != "Unary"}
        epochs = sorted({epoch for curve in curves.values() for epoch in curve}) or [0.0, 1.0]
        final = over_seeds(systems["Unary"], f"{split}_loss")
        panels[panel] = {"Unary": {epochs[0]: final, epochs[-1]: final}, **curves}
    measures = {"training": "inference_steps", "test": "test_steps"}
    steps = {
        name: {split: over_seeds(systems[name], measure).mean for split, measure in measures.items()}
        for name in WITH_TERM
        if name in systems
    }
    styles = {name: {**style, "marker": "."} for name, style in SYSTEM_STYLES.items()}
    styles["Unary"] = {"color": SYSTEM_STYLES["Unary"]["color"], "linestyle": "--"}
    axes, more = ("epoch", "wrong tags of an image"), {"inference steps": steps}
    draw_lines(folder / "curves", title, axes, panels, styles, columns=5, more=more)


def _loss_by_epoch(results: Sequence[TaggingResult], split: str) -> Curve:
    """Return a system's loss by epoch, as far as the trainings of all seeds went."""
    return {
        points[0]["epoch"]: OverSeeds(tuple(point[split] for point in points))
        for points in zip(*(result.curve for result in results), strict=False)
    }
