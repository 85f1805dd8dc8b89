"""Results of several seeds: grouped, averaged, and in tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table

from gspen_ner.files import write_whole
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


def seeds_note(numbers: Iterable[OverSeeds], average: str = "mean") -> str:
    """Return how numbers over seeds are shown, in words."""
    seeds = max((len(number.values) for number in numbers), default=0)
    return f"{average} ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"


def times_struct(results: Sequence[Any], group: Sequence[Any]) -> float | None:
    """Return the median time of an epoch of a system as a multiple of Struct's; None without a Struct."""
    struct = by_system(results).get("Struct")
    if struct is None:
        return None
    return over_seeds(group, "seconds_an_epoch").median / over_seeds(struct, "seconds_an_epoch").median


def make_table(title: str, names: Sequence[str], numbers: Sequence[str], rows: Iterable[list[str]]) -> Table:
    """Return a table.

    Args:
        title: its title.
        names: heads of columns of words.
        numbers: heads of columns of numbers.
        rows: cells.
    """
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    for head in numbers:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def systems_table(title: str, results: Sequence[Any], columns: Mapping[str, Column]) -> Table:
    """Return a table with a row for each system.

    Args:
        title: its title.
        results: results of all systems and seeds.
        columns: the columns by their heads.
    """
    rows = ([name, *(cell(group) for cell in columns.values())] for name, group in by_system(results).items())
    return make_table(title, ["system"], list(columns), rows)


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


def write_results(results: Sequence[Any], folder: Path) -> None:
    """Write the results of a run as results.json."""
    entries = [asdict(result) for result in results]
    write_whole(folder / "results.json", json.dumps(entries, indent=2) + "\n")
