"""How things are timed against each other, and the rows and tables that come out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    first, second = take_turns((clock(ours), clock(peer)), seconds)
    return first, second


def clock(function: Callable[[], object]) -> Callable[[], float]:
    """A call that says how many seconds it took."""

    def turn() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return turn


def take_turns(turns: Sequence[Callable[[], float]], seconds: float) -> list[float]:
    """Median milliseconds of each, in alternating rounds, for so many seconds at least.

    A turn says itself how many seconds to count. One that is over soon is repeated, so that it is measured
    warm; the first, which may compile, does not count.
    """
    repeats = [max(1, round(TURN_SECONDS / _elapsed(turn))) for turn in turns]
    times: list[list[float]] = [[] for _ in turns]
    stop = time.perf_counter() + seconds
    while len(times[0]) < MIN_TURNS or time.perf_counter() < stop:
        for turn, count, record in zip(turns, repeats, times, strict=True):
            record.append(statistics.fmean(turn() for _ in range(count)))
    return [1e3 * statistics.median(record) for record in times]


def _elapsed(turn: Callable[[], float]) -> float:
    """How long a turn really takes, after a first one."""
    turn()
    return clock(turn)()


def entries(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for JSON, times in milliseconds."""
    return [asdict(row) | {"ratio": row.ratio} for row in rows]


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
