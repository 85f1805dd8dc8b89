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
from recipes.multilabel.settings import MultilabelRecipe
from recipes.multilabel.systems import MultilabelResult, MultilabelSystems
from recipes.studies.command import Study
from recipes.studies.data import generate_rows
from recipes.studies.pictures import draw_bars
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

    settings, systems_class = MultilabelRecipe, MultilabelSystems

    def read_data(self) -> None:
        source = self.recipe.data
        if source.folder is None:
            self.data = generate_rows(source.rows, source.features, source.labels, source.seed)
        elif source.format == "bibtex":
            self.data = read_bibtex(expand(source.folder), source.seed)
        else:
            self.data = read_bookmarks(expand(source.folder))

    def describe_data(self) -> str:
        features, labels = self.data.train.inputs.shape[1], self.data.train.labels.shape[1]
        return f"{self.data.source}: {self.data.sizes()} rows, {features:,} features, {labels} labels"

    def results(self) -> Iterator[MultilabelResult]:
        for seed in self.recipe.seeds:
            systems = self.systems(seed)
            results = systems.results()
            if self.recipe.refit:  # train again on train and dev together, as chosen on dev
                chosen = {result.system: result for result in results}
                data, folder = self.data.with_dev_in_train(), systems.folder / "refitted"
                refitted = MultilabelSystems(self.recipe, data, seed, folder, chosen).results()
                pairs = zip(results, refitted, strict=True)
                results = [replace(before, refitted_f1=after.test_f1) for before, after in pairs]
            yield from results

    def report(self, results: Sequence[MultilabelResult], figures: Path) -> Iterable[Table]:
        source, note = self.recipe.data.format, seeds_note(len(self.recipe.seeds))
        f1s = {name: over_seeds(group, "test_f1") for name, group in by_system(results).items()}
        bars = {name: (f1.mean, f1, f"{f1.mean:.1f}") for name, f1 in f1s.items()}
        draw_bars(figures / "f1", f"{source}: test F1 averaged over examples", "test F1 (%)", bars)
        columns = {"dev F1": seeds_column("dev_f1"), "test F1": seeds_column("test_f1")}
        if self.recipe.refit:
            columns["test F1, refitted"] = seeds_column("refitted_f1")
        columns["threshold"] = lambda group: f"{over_seeds(group, 'threshold').median:.2g}"
        columns |= cost_columns(results)
        columns["inference steps"] = term_column("inference_steps")
        return [systems_table(f"{source}: F1 averaged over examples (%, {note})", results, columns)]
