"""All seeds of a multilabel experiment, and what came out as a table.

run folder      recipe.yaml  log.txt  results.json
                seed-S/SYSTEM/                          see `SystemFolder`
                seed-S/refitted/SYSTEM/                 likewise, with `refit`
                figures/f1.png with its figures as f1.json
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from gspen_ner.recipe import expand
from recipes.multilabel.figures import draw_f1
from recipes.multilabel.settings import MultilabelRecipe, MultilabelSource
from recipes.multilabel.systems import MultilabelResult, MultilabelSystems
from recipes.multilabel.task import MultilabelData, generate_multilabel, read_bibtex, read_bookmarks
from recipes.studies.over_seeds import by_system, said_of_seeds
from recipes.studies.system_folder import write_results


class MultilabelRun:
    """One run of a multilabel recipe in a folder.

    Args:
        recipe: what to do.
        folder: where; made if needed.
    """

    def __init__(self, recipe: MultilabelRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.data = read_source(recipe.data)

    def said(self) -> str:
        """What the data are."""
        rows = ", ".join(
            f"{len(split.labels):,} {name}"
            for name, split in (("train", self.data.train), ("dev", self.data.dev), ("test", self.data.test))
        )
        features, labels = self.data.train.features.shape[1], self.data.train.labels.shape[1]
        return f"{self.data.source}: {rows} rows, {features:,} features, {labels} labels"

    def train(self) -> list[MultilabelResult]:
        """Train what is not there yet; the results of everything, also as results.json."""
        results: list[MultilabelResult] = []
        for seed in self.recipe.seeds:
            folder = self.folder / f"seed-{seed}"
            found = MultilabelSystems(self.recipe, self.data, seed, folder).train(self.recipe.systems)
            results += self._refit(seed, found) if self.recipe.refit else found
        write_results(results, self.folder)
        return results

    def report(self, figures: Path) -> Sequence[Table]:
        """Train what is not there yet, draw figures, and return the table of results."""
        results = self.train()
        draw_f1(self.recipe.data.format, by_system(results, "test_f1"), figures)
        return [multilabel_table(results, self.recipe.data.format)]

    def _refit(self, seed: int, found: Sequence[MultilabelResult]) -> list[MultilabelResult]:
        """The results with those of a second training, on training and dev rows, as dev has chosen it."""
        folder = self.folder / f"seed-{seed}" / "refitted"
        chosen = {result.system: result for result in found}
        systems = MultilabelSystems(self.recipe, self.data.with_dev_learned(), seed, folder, chosen)
        again = systems.train(self.recipe.systems)
        return [
            replace(first, refitted_f1=second.test_f1) for first, second in zip(found, again, strict=True)
        ]


def read_source(source: MultilabelSource) -> MultilabelData:
    """The rows that a recipe names."""
    if source.format == "generated":
        return generate_multilabel(source.rows, source.features, source.labels, source.seed)
    assert source.folder is not None
    folder = expand(source.folder)
    return read_bibtex(folder, source.seed) if source.format == "bibtex" else read_bookmarks(folder)


def multilabel_table(results: Sequence[MultilabelResult], source: str) -> Table:
    """F1 on dev and test, and what training takes."""
    said = said_of_seeds(results)
    table = Table(title=f"{source}: F1 averaged over examples (%, {said})", title_justify="left")
    table.add_column("system")
    measures = {"dev F1": "dev_f1", "test F1": "test_f1"}
    if all(result.refitted_f1 is not None for result in results):
        measures["test F1, refitted"] = "refitted_f1"
    for column in (*measures, "threshold", "seconds an epoch", "times Struct's", "inference steps"):
        table.add_column(column, justify="right")
    scores = [by_system(results, measure) for measure in measures.values()]
    thresholds, seconds, steps = (
        by_system(results, measure) for measure in ("threshold", "seconds_an_epoch", "inference_steps")
    )
    for name in seconds:
        ratio = f"{seconds[name].median / seconds['Struct'].median:.1f}" if "Struct" in seconds else ""
        inference = f"{steps[name].mean:.1f}" if steps[name].mean else ""
        chosen, found = f"{thresholds[name].median:.2g}", [str(score[name]) for score in scores]
        table.add_row(name, *found, chosen, f"{seconds[name].median:.3f}", ratio, inference)
    return table
