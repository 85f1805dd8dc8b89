"""Compared runs as tables for people, and as Markdown for a page of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from gspen_ner.runs.comparison import ComparedSystem, best_on_dev

COLUMNS = ("system", "dev F1", "test F1", "seed: test F1", "gain", "95 % over sentences", "ECE")


class TextTable(NamedTuple):
    """A table as text.

    Args:
        title, caption: above and below it.
        columns: their names.
        rows: the lines of each cell.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Sequence[str]]]

    def as_table(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, title_justify="left", caption=self.caption, caption_justify="left")
        for column in self.columns:
            table.add_column(column, justify="left" if column == "system" else "right")
        for row in self.rows:
            table.add_row(*("\n".join(lines) for lines in row), end_section=True)
        return table

    def as_markdown(self) -> str:
        """For a page."""
        cells = [[", ".join(lines) for lines in row] for row in self.rows]
        rows = [self.columns, ("---",) * len(self.columns), *cells]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows) + f"\n{self.caption}\n"


def comparison(systems: Sequence[ComparedSystem]) -> TextTable:
    """Means and standard deviations, every seed, and how sure the gain over the base model is."""
    title = "F1 of whole entities (seqeval, strict), paired by seed"
    return TextTable(title, _choice(systems), COLUMNS, [_cells(system) for system in systems])


def reliability(systems: Sequence[ComparedSystem]) -> TextTable:
    """How many of the entities of test that were found with a confidence are right."""
    bins = [system.reliability for system in systems]
    filled = sorted({number for each in bins for number in each})
    columns = ("system", *(f"{number / 10:.1f} to {(number + 1) / 10:.1f}" for number in filled))
    rows = [
        [[system.name], *(_bin(each[number]) if number in each else [] for number in filled)]
        for system, each in zip(systems, bins, strict=True)
    ]
    caption = "Of all seeds together: mean confidence, share that is right, number of entities."
    return TextTable("Reliability of confidences, in per cent", caption, columns, rows)


def _bin(said: tuple[float, float, int]) -> list[str]:
    confidence, accuracy, size = said
    return [f"{100 * confidence:.1f}: {100 * accuracy:.1f}", f"{size:,}"]


def _choice(systems: Sequence[ComparedSystem]) -> str:
    """What the development set chooses, in words."""
    chosen = best_on_dev(systems)
    if chosen is None:
        return "No system has all seeds: dev chooses none."
    return f"Best on dev, of the systems with all seeds: {chosen.name}."


def _cells(system: ComparedSystem) -> list[list[str]]:
    """The lines of each cell."""
    seeds = zip(system.seeds, system.test_f1.values, strict=True)
    gain: list[str] = []
    sure: list[str] = []
    if system.gains is not None and system.bootstrap is not None:
        higher = sum(value > 0 for value in system.gains.values)
        gain = [f"{system.gains:.2f}", f"{higher} of {len(system.seeds)} seeds"]
        low, high = (100 * (end or 0.0) for end in system.bootstrap.interval)
        sure = [f"{low:+.2f} to {high:+.2f}"]
    return [
        [system.name], [f"{system.dev_f1:.2f}"], [f"{system.test_f1:.2f}"],
        [f"{seed}: {f1:.2f}" for seed, f1 in seeds], gain, sure, [f"{system.ece:.2f}"],
    ]  # fmt: skip
