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
from recipes.studies.results import by_system, make_table, number, over_seeds, seeds_note, times_struct


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
    systems = by_system(results)
    seconds = {name: over_seeds(group, "seconds_an_epoch") for name, group in systems.items()}
    ratios, rows = times_struct(seconds), []
    scores = {"dev F1": "dev_f1", "test F1": "test_f1"}
    if all(result.refitted_f1 is not None for result in results):
        scores["test F1, refitted"] = "refitted_f1"
    for name, group in systems.items():
        f1 = [str(over_seeds(group, measure)) for measure in scores.values()]
        threshold = f"{over_seeds(group, 'threshold').median:.2g}"
        steps = number(over_seeds(group, "inference_steps").mean or None)
        rows.append([name, *f1, threshold, f"{seconds[name].median:.3f}", number(ratios[name]), steps])
    title = f"{source}: F1 averaged over examples (%, {seeds_note(seconds.values())})"
    heads = [*scores, "threshold", "seconds an epoch", "times Struct's", "inference steps"]
    return make_table(title, ["system"], heads, rows)


def draw_f1(source: str, results: Sequence[MultilabelResult], folder: Path) -> None:
    """Draw f1.png: the F1 of each system on test."""
    bars = {}
    for name, group in by_system(results).items():
        f1 = over_seeds(group, "test_f1")
        bars[name] = bar(f1.mean, f1, f"{f1.mean:.1f}")
    draw_bars(folder / "f1", f"{source}: test F1 averaged over examples", "test F1 (%)", bars)
