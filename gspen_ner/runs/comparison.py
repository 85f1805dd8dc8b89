"""Runs that share base models, compared seed by seed.

    gain of a system = mean over seeds of (its F1 - its own base model's F1)

Systems are told apart by the names of their run folders, NAME-SEED; the base models of runs whose base was
frozen, and runs without a term, are one more system that all others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from gspen_ner.ner.intervals import Gain, paired_gain
from gspen_ner.ner.metrics import Assessment, Spans
from gspen_ner.recipe import load_recipe
from gspen_ner.runs.run import SplitEntities, read_results
from gspen_ner.runs.tables import BASE_NAMES, OverSeeds

COLUMNS = ("system", "dev F1", "test F1", "seed: test F1", "gain", "95 % over sentences", "ECE")

Bin = tuple[float, float, int]
"""Mean confidence, accuracy and number of entities."""


@dataclass(frozen=True)
class Candidate:
    """Scores and predicted entities of a system with one seed."""

    name: str
    seed: int
    dev: Assessment
    test: Assessment
    gold: Spans
    predicted: Spans


@dataclass(frozen=True)
class ComparedSystem:
    """Results of a system for each seed; F1 and ECE in per cent.

    Args:
        name: name of its runs.
        candidates: results of each seed.
        bases: results of the base models of the same seeds; empty for the base models themselves.
    """

    name: str
    candidates: tuple[Candidate, ...]
    bases: tuple[Candidate, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its runs."""
        return tuple(candidate.seed for candidate in self.candidates)

    @property
    def dev_f1(self) -> OverSeeds:
        """F1 on the development set."""
        return OverSeeds(tuple(100 * candidate.dev.score.f1 for candidate in self.candidates))

    @property
    def test_f1(self) -> OverSeeds:
        """F1 on the test set."""
        return OverSeeds(tuple(100 * candidate.test.score.f1 for candidate in self.candidates))

    @property
    def ece(self) -> OverSeeds:
        """Expected calibration error of confidences on the test set."""
        return OverSeeds(tuple(100 * candidate.test.calibration.ece for candidate in self.candidates))

    @property
    def reliability(self) -> dict[int, Bin]:
        """Mean confidence, accuracy and number of entities, by tenths of confidence, all seeds together."""
        by_tenth: dict[int, list[Bin]] = {}
        for candidate in self.candidates:
            for confidence, accuracy, size in candidate.test.calibration.bins:
                by_tenth.setdefault(min(int(10 * confidence), 9), []).append((confidence, accuracy, size))
        return {tenth: _pooled(bins) for tenth, bins in by_tenth.items()}

    @property
    def gains(self) -> OverSeeds | None:
        """Test F1 minus the base model's, seed by seed."""
        if not self.bases:
            return None
        pairs = zip(self.candidates, self.bases, strict=True)
        return OverSeeds(tuple(100 * (full.test.score.f1 - base.test.score.f1) for full, base in pairs))

    @cached_property
    def bootstrap(self) -> Gain | None:
        """The gain with its interval, over sentences drawn with replacement."""
        if not self.bases:
            return None
        after, before = ([result.predicted for result in side] for side in (self.candidates, self.bases))
        return paired_gain(self.candidates[0].gold, before, after)


def _pooled(bins: Sequence[Bin]) -> Bin:
    size = sum(number for _, _, number in bins)
    confidence, accuracy = (sum(part[column] * part[2] for part in bins) / size for column in (0, 1))
    return confidence, accuracy, size


def compare_runs(folders: Sequence[Path]) -> list[ComparedSystem]:
    """Return the systems of finished runs, each with the base model of its seed.

    Raises:
        ValueError: if a folder is not a finished run with a test set, or if runs of a seed do not share their
            base model or have different test data.
    """
    if not folders:
        raise ValueError("no runs to compare")
    bases: dict[int, Candidate] = {}
    systems: dict[str, dict[int, Candidate]] = {}
    for folder in folders:
        for candidate, is_base in _candidates(folder):
            group = bases if is_base else systems.setdefault(candidate.name, {})
            other = group.get(candidate.seed)
            if other is not None and not (is_base and other.predicted == candidate.predicted):
                what = "base models that differ" if is_base else f"runs of {candidate.name}"
                raise ValueError(f"{folder}: two {what} with seed {candidate.seed}")
            group[candidate.seed] = candidate
    candidates = [candidate for group in (bases, *systems.values()) for candidate in group.values()]
    for candidate in candidates[1:]:
        if candidate.gold != candidates[0].gold:
            raise ValueError(
                f"{candidate.name}, seed {candidate.seed}: expected the same test data as of other runs, got "
                "different gold entities; compare runs of one corpus"
            )
    compared = []
    for name, group in systems.items():
        missing = sorted(group.keys() - bases.keys())
        if missing:
            raise ValueError(f"{name}: no base model with seed {missing[0]} among the runs: name its run too")
        seeds = sorted(group)
        pairs = tuple(group[seed] for seed in seeds), tuple(bases[seed] for seed in seeds)
        compared.append(ComparedSystem(name, *pairs))
    own = tuple(bases[seed] for seed in sorted(bases))
    return [ComparedSystem(own[0].name, own), *compared] if own else compared


def best_on_dev(systems: Sequence[ComparedSystem]) -> ComparedSystem | None:
    """Return the system with the best mean F1 on dev, among those with all seeds; None if there is none."""
    seeds = {seed for system in systems for seed in system.seeds}
    complete = [system for system in systems if set(system.seeds) == seeds]
    return max(complete, key=lambda system: system.dev_f1.mean, default=None)


def _candidates(folder: Path) -> Iterable[tuple[Candidate, bool]]:
    """Yield the systems of a run, and whether each is a base model to compare with."""
    recipe, results = load_recipe(folder / "recipe.yaml"), read_results(folder / "results.json")
    if results.test is None:
        raise ValueError(f"{folder}: the run has no test set")
    entities = SplitEntities.load(folder, "test")
    full = None
    if results.dev.full is not None and results.test.full is not None and entities.full is not None:
        name, dev, test = folder.resolve().name, results.dev.full, results.test.full
        name = name.removesuffix(f"-{results.seed}")
        full = Candidate(name, results.seed, dev, test, entities.gold, entities.full)
    if full is None or recipe.term_training.freeze == "base":
        name, dev, test = BASE_NAMES[results.system], results.dev.base, results.test.base
        yield Candidate(name, results.seed, dev, test, entities.gold, entities.base), True
    if full is not None:
        yield full, False


class TextTable(NamedTuple):
    """A table as text.

    Args:
        title, caption: text above and below the table.
        columns: names of the columns.
        rows: lines of each cell.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Sequence[str]]]

    def as_table(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left", caption=self.caption, caption_justify="left")
        for column in self.columns:
            table.add_column(column, justify="left" if column == "system" else "right")
        for row in self.rows:
            table.add_row(*("\n".join(lines) for lines in row), end_section=True)
        return table

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        cells = [[", ".join(lines) for lines in row] for row in self.rows]
        rows = [self.columns, ("---",) * len(self.columns), *cells]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows) + f"\n{self.caption}\n"


def comparison(systems: Sequence[ComparedSystem]) -> TextTable:
    """Return means and deviations, F1 of every seed, and the gain over the base model with its interval."""
    title = "F1 of whole entities (seqeval, strict), paired by seed"
    chosen = best_on_dev(systems)
    caption = "No system has all seeds: dev chooses none."
    if chosen is not None:
        caption = f"Best on dev, of the systems with all seeds: {chosen.name}."
    return TextTable(title, caption, COLUMNS, [_cells(system) for system in systems])


def reliability(systems: Sequence[ComparedSystem]) -> TextTable:
    """Return the share of correct entities on test, by confidence."""
    bins = [system.reliability for system in systems]
    filled = sorted({number for each in bins for number in each})
    columns = ("system", *(f"{number / 10:.1f} to {(number + 1) / 10:.1f}" for number in filled))
    rows = [
        [[system.name], *(_bin(each[number]) if number in each else [] for number in filled)]
        for system, each in zip(systems, bins, strict=True)
    ]
    caption = "All seeds together: mean confidence, share of correct entities, number of entities."
    return TextTable("Reliability of confidences, in per cent", caption, columns, rows)


def _bin(values: Bin) -> list[str]:
    confidence, accuracy, size = values
    return [f"{100 * confidence:.1f}: {100 * accuracy:.1f}", f"{size:,}"]


def _cells(system: ComparedSystem) -> list[list[str]]:
    """Return the lines of each cell of a row."""
    seeds = zip(system.seeds, system.test_f1.values, strict=True)
    gain: list[str] = []
    interval: list[str] = []
    if system.gains is not None and system.bootstrap is not None:
        higher = sum(value > 0 for value in system.gains.values)
        gain = [f"{system.gains:.2f}", f"{higher} of {len(system.seeds)} seeds"]
        low, high = (100 * (end or 0.0) for end in system.bootstrap.interval)
        interval = [f"{low:+.2f} to {high:+.2f}"]
    return [
        [system.name], [f"{system.dev_f1:.2f}"], [f"{system.test_f1:.2f}"],
        [f"{seed}: {f1:.2f}" for seed, f1 in seeds], gain, interval, [f"{system.ece:.2f}"],
    ]  # fmt: skip
