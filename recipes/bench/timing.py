"""Contests of ours against peers: alternating runs, their medians, and the table of results."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, TypeVar

import numpy as np
from rich.table import Table
from torch import Tensor

from gspen_ner.parts import Parts
from recipes.studies.results import make_table

TURN_SECONDS = 0.01
"""Short calls are repeated for about this long in each turn, so that they are measured warm."""
MIN_TURNS = 5
Problem = TypeVar("Problem")
Targets = Mapping[tuple[str, str, str], float]
"""The wanted ratio by (case, what, peer)."""


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
        """The peer's time divided by ours."""
        return self.peer_ms / self.ours_ms


@dataclass(frozen=True)
class Contest:
    """An operation that ours and a peer perform on the same problem.

    Args:
        what: name of the operation.
        peer: name of the peer.
        ours: runs ours once and returns the seconds it took.
        theirs: runs the peer once, or a part to be extrapolated, and returns the seconds of the whole.
        results: returns the results of both, which must agree.
        tolerance: largest accepted difference, relative to the peer's largest value if that exceeds 1.
    """

    what: str
    peer: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    results: Callable[[], tuple[Any, Any]]
    tolerance: float = 1e-6

    def check(self) -> None:
        """Raise AssertionError unless both results agree."""
        pairs = zip(*map(_arrays, self.results()), strict=True)
        for number, (ours, theirs) in enumerate(pairs):
            difference = np.abs(ours - theirs).max()
            if not difference <= self.tolerance * max(1.0, np.abs(theirs).max()):
                raise AssertionError(f"result {number} differs by {difference:.2g}: nothing is measured")


def _arrays(result: Any) -> list[np.ndarray]:
    """Return the arrays of a result: a tensor, an array, a number, `Parts`, lists, or a tuple of these."""
    if isinstance(result, Parts):
        result = result.nodes, result.edges
    if isinstance(result, tuple):
        return [array for part in result for array in _arrays(part)]
    return [np.asarray(result.detach() if isinstance(result, Tensor) else result, dtype=float)]


class Peer(ABC, Generic[Problem]):
    """An implementation that ours is compared with."""

    name: str
    package: str | None = None
    wanted_version: str | None = None

    def missing(self) -> str | None:
        """Return why the peer cannot be measured here, or None."""
        if self.package is None:
            return None
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return f"{self.package} {self.wanted_version} is not installed (pip install 'gspen-ner[bench]')"
        if installed != self.wanted_version:
            return f"{self.package}: expected version {self.wanted_version}, but {installed} is installed"
        return None

    @abstractmethod
    def contests(self, problem: Problem) -> Generator[Contest]:
        """Yield the contests on a problem; closing the generator ends the processes that it started."""


def run_contests(peer: Peer[Problem], problem: Problem, seconds: float) -> Iterator[Row]:
    """Check and time all contests with one peer on one problem.

    The problem's string is the case of the rows, each of which is measured for some seconds at least.
    """
    with closing(peer.contests(problem)) as contests:
        for contest in contests:
            contest.check()
            ours, theirs = take_turns((contest.ours, contest.theirs), seconds)
            yield Row(str(problem), contest.what, ours, contest.peer, theirs)


def clock(function: Callable[[], object], scale: float = 1.0) -> Callable[[], float]:
    """Return a function that runs another and returns the seconds it took, multiplied by `scale`."""

    def run() -> float:
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) * scale

    return run


def compare(ours: Callable, peer: Callable, seconds: float) -> tuple[float, float]:
    """Return the median milliseconds of a call of each, measured in alternating turns."""
    our_time, peer_time = take_turns((clock(ours), clock(peer)), seconds)
    return our_time, peer_time


def take_turns(runs: Sequence[Callable[[], float]], seconds: float) -> list[float]:
    """Return the median milliseconds of short runs, measured in alternating turns after a warm-up.

    Args:
        runs: each returns the seconds to record, and is repeated in a turn if it takes little time.
        seconds: minimum duration of the measurement.
    """
    repeats = []
    for run in runs:
        run()  # may compile
        repeats.append(max(1, round(TURN_SECONDS / clock(run)())))
    times: list[list[float]] = [[] for _ in runs]
    stop = time.perf_counter() + seconds
    while len(times[0]) < MIN_TURNS or time.perf_counter() < stop:
        for run, count, record in zip(runs, repeats, times, strict=True):
            record.append(statistics.fmean(run() for _ in range(count)))
    return [1e3 * statistics.median(record) for record in times]


def take_rounds(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of long runs, which return seconds, in rounds after a warm-up round."""
    times = [{name: run() for name, run in runs.items()} for _ in range(rounds + 1)]
    return {name: 1e3 * statistics.median(turn[name] for turn in times[1:]) for name in runs}


def as_table(title: str, rows: Iterable[Row], targets: Targets) -> Table:
    """Return the rows as a table that marks each target as met or missed."""
    cells = []
    for row in rows:
        target = targets.get((row.case, row.what, row.peer))
        verdict = "met" if target is not None and row.ratio >= target else "MISSED"
        cells.append(
            {
                "case": row.case,
                "what": row.what,
                "ours, ms": f"{row.ours_ms:.3f}",
                "peer": row.peer,
                "peer, ms": f"{row.peer_ms:.3f}",
                "ratio": f"{row.ratio:.1f}x" if row.ratio >= 2 else f"{row.ratio:.2f}x",
                "target": "" if target is None else f"{target:g}x {verdict}",
            }
        )
    return make_table(title, cells, text=("case", "what", "peer"), sections=True)
