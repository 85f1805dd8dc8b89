"""Message passing on factor graphs beside a plain loop and PGMax."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import combinations, pairwise
from pathlib import Path

from recipes.bench.graph_numpy import NumpyLoop
from recipes.bench.graph_peers import SUM_PRODUCT, GraphPeer, GraphProblem
from recipes.bench.graph_pgmax import PGMax
from recipes.bench.timing import Row, clock, take_turns


def _grid(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Each node joined to its right and its lower neighbour."""
    right = [(node, node + 1) for node in range(rows * columns) if (node + 1) % columns]
    return tuple(right + [(node, node + columns) for node in range((rows - 1) * columns)])


CHAIN = GraphProblem("chain 5x26", 5, 26, tuple(pairwise(range(5))))
STAR = GraphProblem("star 159x2", 159, 2, tuple((0, leaf) for leaf in range(1, 159)))
MAIN = GraphProblem("complete 24x2", 24, 2, tuple(combinations(range(24), 2)))
GRID = GraphProblem("grid 20x20x2", 400, 2, _grid(20, 20))
CASES = (CHAIN, STAR, MAIN, GRID)
BARS = {
    **{(case.name, case.all_sweeps, NumpyLoop.name): 50.0 for case in CASES},
    **{(case.name, SUM_PRODUCT, NumpyLoop.tree_name): 50.0 for case in (CHAIN, STAR)},
    (MAIN.name, MAIN.all_sweeps, PGMax.name): 4.0,
}


def find_peers(pgmax_python: Path | None) -> tuple[list[GraphPeer], list[str]]:
    """Those that can be compared here, and why others cannot."""
    peers: list[GraphPeer] = [NumpyLoop(), PGMax(pgmax_python)]
    found, missing = [], []
    for peer in peers:
        reason = peer.missing()
        if reason is None:
            found.append(peer)
        else:
            missing.append(reason)
    return found, missing


def run_contest(problem: GraphProblem, peer: GraphPeer, seconds: float) -> Iterator[Row]:
    """All that one peer can do on one problem; each is first checked to agree with ours."""
    with closing(peer.contests(problem)) as contests:
        for contest in contests:
            contest.check()
            ours, theirs = take_turns((clock(contest.ours), contest.turn), seconds)
            yield Row(str(problem), contest.what, ours, contest.peer, theirs)
