"""Results of several seeds: grouped, averaged, and in tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rich.table import Table

from gspen_ner.runs.tables import OverSeeds

Key = TypeVar("Key", bound=Hashable)
SYSTEMS = {
    "unary": "Unary",
    "struct": "Struct",
    "struct_without_entropy": "Struct without entropy",
    "spen": "SPEN",
    "nlstruct": "NLStruct",
    "gspen": "GSPEN",
}
"""Names of the systems for people, in the order of tables and pictures."""
WITH_TERM = ("SPEN", "NLStruct", "GSPEN")
Curve = dict[float, OverSeeds]
"""A measure over seeds by what is varied, such as the training size, in its order."""
Column = Callable[[Sequence[Any]], str]
"""Returns the cell of a system, given its results with all seeds."""


def grouped(results: Iterable[Any], key: Callable[[Any], Key]) -> dict[Key, list[Any]]:
    """Return results by a key."""
    groups: dict[Key, list[Any]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


def by_system(results: Iterable[Any]) -> dict[str, list[Any]]:
    """Return results by the name of their system, in the order of `SYSTEMS`."""
    systems = grouped(results, lambda result: result.system)
    return {name: systems[system] for system, name in SYSTEMS.items() if system in systems}


def over_seeds(results: Sequence[Any], measure: str) -> OverSeeds:
    """Return a measure of results that differ in their seeds."""
    return OverSeeds(tuple(getattr(result, measure) for result in results))


def curve(results: Sequence[Any], x: Callable[[Any], float], measure: str) -> Curve:
    """Return a measure over seeds by what is varied, such as the training size."""
    points = grouped(results, x)
    return {point: over_seeds(points[point], measure) for point in sorted(points)}


def seeds_note(seeds: int, average: str = "mean") -> str:
    """Return how numbers over seeds are shown, in words."""
    return f"{average} ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"


def times_struct(results: Sequence[Any], group: Sequence[Any]) -> float | None:
    """Return the median time of an epoch of a system as a multiple of Struct's; None without a Struct."""
    struct = by_system(results).get("Struct")
    if struct is None:
        return None
    return over_seeds(group, "seconds_an_epoch").median / over_seeds(struct, "seconds_an_epoch").median


def make_table(
    title: str, rows: Sequence[Mapping[str, object]], text: Sequence[str] = (), sections: bool = False
) -> Table:
    """Return a table.

    Args:
        title: stands above the table.
        rows: cells by header, the same headers in each row.
        text: headers of left-justified columns; all others are right-justified.
        sections: whether rows with the same first cell form a section, which shows it once.
    """
    table = Table(title=title, title_justify="left")
    for header in rows[0] if rows else ():
        table.add_column(header, justify="left" if header in text else "right")
    section = None
    for row in rows:
        first, *others = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row.values())
        repeated = sections and first == section
        if sections and section is not None and not repeated:
            table.add_section()
        table.add_row("" if repeated else first, *others)
        section = first
    return table


def systems_table(title: str, results: Sequence[Any], columns: Mapping[str, Column]) -> Table:
    """Return a table with a row for each system, and columns by their heads."""
    rows = [
        {"system": name} | {head: cell(group) for head, cell in columns.items()}
        for name, group in by_system(results).items()
    ]
    return make_table(title, rows, text=("system",))


def seeds_column(measure: str, decimals: int = 1) -> Column:
    """Return a column of means over seeds with standard deviations."""
    return lambda group: f"{over_seeds(group, measure):.{decimals}f}"


def term_column(measure: str, factor: float = 1.0) -> Column:
    """Return a column of means over seeds, times a factor; the cell of a system without a term is empty."""

    def cell(group: Sequence[Any]) -> str:
        has_term = SYSTEMS[group[0].system] in WITH_TERM
        return f"{factor * over_seeds(group, measure).mean:.1f}" if has_term else ""

    return cell


def cost_columns(results: Sequence[Any], decimals: int = 3) -> dict[str, Column]:
    """Return the columns of the median time of an epoch."""

    def ratio(group: Sequence[Any]) -> str:
        value = times_struct(results, group)
        return "" if value is None else f"{value:.1f}"

    return {
        "seconds an epoch": lambda group: f"{over_seeds(group, 'seconds_an_epoch').median:.{decimals}f}",
        "times Struct's": ratio,
    }
