"""Results of several seeds: grouped, averaged, and in tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table

from gspen_ner.files import write_whole
from gspen_ner.runs.over_seeds import OverSeeds

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
"""Numbers over seeds by what is varied, in its order."""


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
    """Return a number of all results."""
    return OverSeeds(tuple(getattr(result, measure) for result in results))


def curve(results: Sequence[Any], x: Callable[[Any], float], measure: str) -> Curve:
    """Return a number over seeds by what is varied."""
    points = grouped(results, x)
    return {point: over_seeds(points[point], measure) for point in sorted(points)}


def seeds_note(numbers: Iterable[OverSeeds], average: str = "mean") -> str:
    """Return how numbers over seeds are shown, in words."""
    seeds = max((len(number.values) for number in numbers), default=0)
    return f"{average} ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"


def times_struct(seconds: dict[str, OverSeeds]) -> dict[str, float | None]:
    """Return the median time of each system as a multiple of Struct's; None without a Struct."""
    struct = seconds["Struct"].median if "Struct" in seconds else None
    return {name: value.median / struct if struct else None for name, value in seconds.items()}


def number(value: float | None, decimals: int = 1) -> str:
    """Return a number as the text of a table's cell; None is an empty cell."""
    return "" if value is None else f"{value:.{decimals}f}"


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


def write_results(results: Sequence[Any], folder: Path) -> None:
    """Write the results of a run as results.json."""
    entries = [asdict(result) for result in results]
    write_whole(folder / "results.json", json.dumps(entries, indent=2) + "\n")
