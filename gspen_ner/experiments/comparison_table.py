"""Compared runs as a table for people, and as Markdown for a page of results."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gspen_ner.experiments.comparison import ComparedSystem, best_on_dev

COLUMNS = ("system", "dev F1", "test F1", "seed: test F1", "gain", "95 % over sentences", "ECE")


def comparison_table(systems: Sequence[ComparedSystem]) -> Table:
    """Means and standard deviations, every seed, and how sure the gain over the base model is."""
    table = Table(title="F1 of whole entities (seqeval, strict), paired by seed", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "system" else "right")
    for system in systems:
        table.add_row(*("\n".join(lines) for lines in _cells(system)), end_section=True)
    table.caption, table.caption_justify = _choice(systems), "left"
    return table


def comparison_markdown(systems: Sequence[ComparedSystem]) -> str:
    """The same in Markdown."""
    cells = [[", ".join(lines) for lines in _cells(system)] for system in systems]
    rows = [COLUMNS, ("---",) * len(COLUMNS), *cells]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + f"\n{_choice(systems)}\n"


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
