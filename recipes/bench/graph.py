"""Message passing on factor graphs against a plain numpy loop and PGMax."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

from recipes.bench.graph_peers import SUM_PRODUCT, GraphProblem, NumpyLoop, PGMax
from recipes.bench.timing import Peer


def _grid(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Return the edges from each node to its right and its lower neighbour."""
    right = [(node, node + 1) for node in range(rows * columns) if (node + 1) % columns]
    return tuple(right + [(node, node + columns) for node in range((rows - 1) * columns)])


CHAIN = GraphProblem("chain 5x26", 5, 26, tuple(pairwise(range(5))))
STAR = GraphProblem("star 159x2", 159, 2, tuple((0, leaf) for leaf in range(1, 159)))
MAIN = GraphProblem("complete 24x2", 24, 2, tuple(combinations(range(24), 2)))
GRID = GraphProblem("grid 20x20x2", 400, 2, _grid(20, 20))
CASES = (CHAIN, STAR, MAIN, GRID)
TARGETS = {
    **{(case.name, case.all_sweeps, NumpyLoop.name): 50.0 for case in CASES},
    **{(case.name, SUM_PRODUCT, NumpyLoop.tree_name): 50.0 for case in (CHAIN, STAR)},
    (MAIN.name, MAIN.all_sweeps, PGMax.name): 4.0,
}


def peers(pgmax_python: Path | None) -> list[Peer[GraphProblem]]:
    """Return all peers, given an interpreter that has PGMax; None is this one."""
    return [NumpyLoop(), PGMax(pgmax_python)]
