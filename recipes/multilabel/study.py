"""The study of multilabel classification: all seeds, a table, and F1 as bars.

run folder      seed-S/SYSTEM/
                seed-S/refitted/SYSTEM/    with `refit`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from gspen_ner.recipe import expand
from recipes.multilabel.files import read_bibtex, read_bookmarks
from recipes.multilabel.settings import MultilabelRecipe, MultilabelSource
from recipes.multilabel.systems import MultilabelResult, MultilabelSystems
from recipes.studies.command import Study
from recipes.studies.data import StudyData
from recipes.studies.generated import generate_rows
from recipes.studies.pictures import bar, draw_bars
from recipes.studies.results import (
    by_system,
    cost_columns,
    over_seeds,
    seeds_column,
    seeds_note,
    systems_table,
    term_column,
)


class MultilabelStudy(Study):
    """The study of multilabel classification in its folder."""

    def __init__(self, recipe: MultilabelRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.data = read_rows(recipe.data)

    def describe_data(self) -> str:
        features, labels = self.data.train.inputs.shape[1], self.data.train.labels.shape[1]
        return f"{self.data.source}: {self.data.sizes()} rows, {features:,} features, {labels} labels"

    def results(self) -> Iterator[MultilabelResult]:
        for seed in self.recipe.seeds:
            folder = self.folder / f"seed-{seed}"
            results = MultilabelSystems(self.recipe, self.data, seed, folder).results()
            yield from self._refit(seed, results) if self.recipe.refit else results

    def _refit(self, seed: int, results: Sequence[MultilabelResult]) -> Iterator[MultilabelResult]:
        """Yield results with the F1 of systems trained again on train and dev together, as chosen on dev."""
        folder = self.folder / f"seed-{seed}" / "refitted"
        chosen = {result.system: result for result in results}
        data = self.data.with_dev_in_train()
        refitted = MultilabelSystems(self.recipe, data, seed, folder, chosen).results()
        for before, after in zip(results, refitted, strict=True):
            yield replace(before, refitted_f1=after.test_f1)

    def report(self, results: Sequence[MultilabelResult], figures: Path) -> Iterable[Table]:
        source = self.recipe.data.format
        draw_f1(source, results, figures)
        return [multilabel_table(results, source)]


def read_rows(source: MultilabelSource) -> StudyData:
    """Read or generate the rows that a recipe names."""
    if source.folder is None:
        return generate_rows(source.rows, source.features, source.labels, source.seed)
    folder = expand(source.folder)
    return read_bibtex(folder, source.seed) if source.format == "bibtex" else read_bookmarks(folder)


def multilabel_table(results: Sequence[MultilabelResult], source: str) -> Table:
    """Return F1 on dev and test, and costs of training."""
    columns = {"dev F1": seeds_column("dev_f1"), "test F1": seeds_column("test_f1")}
    if all(result.refitted_f1 is not None for result in results):
        columns["test F1, refitted"] = seeds_column("refitted_f1")
    columns["threshold"] = lambda group: f"{over_seeds(group, 'threshold').median:.2g}"
    columns |= cost_columns(results)
    columns["inference steps"] = term_column("inference_steps")
    note = seeds_note([over_seeds(by_system(results)["Unary"], "test_f1")])
    return systems_table(f"{source}: F1 averaged over examples (%, {note})", results, columns)


def draw_f1(source: str, results: Sequence[MultilabelResult], folder: Path) -> None:
    """Draw f1.png: the F1 of each system on test."""
    bars = {}
    for name, group in by_system(results).items():
        f1 = over_seeds(group, "test_f1")
        bars[name] = bar(f1.mean, f1, f"{f1.mean:.1f}")
    draw_bars(folder / "f1", f"{source}: test F1 averaged over examples", "test F1 (%)", bars)
