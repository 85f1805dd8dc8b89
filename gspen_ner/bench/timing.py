"""How things are timed against each other, and the rows and tables that come out."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

TURN_SECONDS = 0.01  # a turn repeats its call for about this long, so that short calls are measured warm
MIN_TURNS = 5


@dataclass(frozen=True)
class Row:
    """One measurement; ratio > 1 means that ours is faster."""

    case: str
    what: str
    ours_ms: float
    peer: str
    peer_ms: float

    @property
    def ratio(self) -> float:
        """How many times as long the peer takes."""
        return self.peer_ms / self.ours_ms


def compare(ours: Callable, peer: Callable, seconds: float) -> tuple[float, float]:
    """Median milliseconds of a call of each, measured in alternating turns."""
    calls = [(function, max(1, round(TURN_SECONDS / _once(function)))) for function in (ours, peer)]
    times: list[list[float]] = [[], []]
    stop = time.perf_counter() + seconds
    while len(times[0]) < MIN_TURNS or time.perf_counter() < stop:
        for (function, repeats), record in zip(calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                function()
            record.append((time.perf_counter() - start) / repeats)
    return 1e3 * statistics.median(times[0]), 1e3 * statistics.median(times[1])


def _once(function: Callable) -> float:
    """The duration of one call after a first one, which may compile."""
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def write_json(rows: Iterable[Row], file: Path) -> None:
    """The rows as a JSON list, times in milliseconds."""
    found = [asdict(row) | {"ratio": row.ratio} for row in rows]
    file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def as_table(title: str, rows: Iterable[Row], bars: dict[tuple[str, str, str], float]) -> Table:
    """The rows for people; `bars` gives the ratio wanted for (case, what, peer)."""
    table = Table(title=title, title_justify="left")
    for name in ("case", "what"):
        table.add_column(name)
    table.add_column("ours, ms", justify="right")
    table.add_column("peer")
    for name in ("peer, ms", "ratio", "bar"):
        table.add_column(name, justify="right")
    previous = None
    for row in rows:
        bar = bars.get((row.case, row.what, row.peer))
        if row.case != previous and previous is not None:
            table.add_section()
        wanted = "" if bar is None else f"{bar:g}x {'met' if row.ratio >= bar else 'MISSED'}"
        case = row.case if row.case != previous else ""
        previous = row.case
        ratio = f"{row.ratio:.1f}x" if row.ratio >= 2 else f"{row.ratio:.2f}x"
        figures = f"{row.ours_ms:.3f}", row.peer, f"{row.peer_ms:.3f}", ratio, wanted
        table.add_row(case, row.what, *figures)
    return table
