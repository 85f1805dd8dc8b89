"""The exact maximum of linear scores over the local polytope of a factor graph.

    max <theta, b>   with   sum_y b_r(y) = 1,   sum of b_p over entries with label y at r = b_r(y),   b >= 0

max-product         forests; the maximiser is a labelling
minimum cuts        pairs of binary variables; the maximiser is half-integral: the belief of a node in label 1
                    is 0, 1/2 or 1, and the belief of a pair in (1, 1) is the largest that its nodes allow if
                    the pair attracts, else the smallest
linear programming  any graph, by HiGHS
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph
from gspen_ner.graphs.compiled import Cells, Entries
from gspen_ner.kernels.loops.graph import Graph
from gspen_ner.kernels.thread_pool import over_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def best_labellings(
    graph: CompiledGraph, cells: Cells, entries: Entries
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
    """Return the score of the best labelling of each example of a forest, and the labelling; on the CPU."""
    from gspen_ner.kernels.loops import forests  # compiled on first use

    index = graph.index
    assert index.depths is not None
    labels = np.empty((len(cells), graph.num_nodes), dtype=np.int64)
    scores = np.empty(len(cells))
    leaves_first = np.argsort(-index.depths, kind="stable")
    forests.best_labellings(
        _doubles(entries),
        _doubles(cells),
        Graph.of(index),
        index.factor_parents,
        leaves_first,
        labels,
        scores,
    )
    return torch.from_numpy(scores).to(cells.device), torch.from_numpy(labels).to(cells.device)


def can_be_cut(graph: CompiledGraph) -> bool:
    """Return whether all variables have two labels and all factors are over two variables."""
    return set(graph.label_counts) == {2} and graph.num_edges == len(graph.scopes)


def solve_by_cuts(graph: CompiledGraph, cells: Cells, entries: Entries) -> tuple[Cells, Entries]:
    """Return the maximiser of each example for finite scores; on the CPU."""
    beliefs = 0.5 * _halves(graph, cells, entries)[0].to(cells)  # in label 1
    first, second = (beliefs[:, list(nodes)] for nodes in zip(*graph.scopes, strict=True))
    tables = entries.unflatten(1, (-1, 4))
    most, least = torch.minimum(first, second), (first + second - 1).clamp_min(0.0)
    both = torch.where(tables[..., 0] + tables[..., 3] > tables[..., 1] + tables[..., 2], most, least)
    pairs = torch.stack([1 - first - second + both, second - both, first - both, both], -1)
    return torch.stack([1 - beliefs, beliefs], -1).flatten(1), pairs.flatten(1)


def labellings_by_cuts(graph: CompiledGraph, cells: Cells, entries: Entries) -> Int[Tensor, "B N"]:
    """Return the maximiser if it is a labelling, else a labelling that no change of one label improves."""
    return _halves(graph, cells, entries)[1]


def _halves(graph: CompiledGraph, cells: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """Return twice the beliefs in label 1, and labellings."""
    from gspen_ner.kernels.loops import minimum_cut  # compiled on first use

    scores, tables = _doubles(cells), _doubles(entries)
    first, second = np.array(graph.scopes, dtype=np.int64).T
    doubled = np.empty((len(scores), graph.num_nodes), dtype=np.int64)
    labels = np.empty_like(doubled)

    def work(start: int, stop: int) -> None:
        rows = slice(start, stop)
        minimum_cut.halves(scores[rows], tables[rows], first, second, doubled[rows], labels[rows])

    over_rows(work, len(scores), len(scores) * 20 * (2 * graph.num_nodes) ** 2)
    return torch.from_numpy(doubled).to(cells.device), torch.from_numpy(labels).to(cells.device)


def _doubles(rows: Tensor) -> np.ndarray:
    return rows.detach().double().cpu().contiguous().numpy()


def solve_linear_programs(graph: CompiledGraph, cells: Cells, entries: Entries) -> tuple[Cells, Entries]:
    """Return the maximiser of each example; the programs run one after another on the CPU."""
    from scipy.optimize import linprog

    constraints, right = _constraints(graph)
    scores = _doubles(torch.cat([cells, entries], 1))
    solutions = np.empty_like(scores)
    for row, values in enumerate(scores):
        possible = np.isfinite(values)
        bounds = np.stack([np.zeros(len(values)), possible.astype(float)], 1)
        result = linprog(
            -np.where(possible, values, 0.0), A_eq=constraints, b_eq=right, bounds=bounds, method="highs"
        )
        if result.x is None:
            raise ValueError(f"row {row}: the linear program has no solution: {result.message}")
        solutions[row] = np.clip(result.x, 0.0, 1.0)
    points = torch.from_numpy(solutions).to(cells)
    return points[:, : cells.shape[1]], points[:, cells.shape[1] :]


@lru_cache(maxsize=16)
def _constraints(graph: CompiledGraph) -> tuple[csr_array, np.ndarray]:
    """Return matrix and right side of the equations: beliefs sum to one, factors agree with nodes."""
    from scipy.sparse import coo_array

    index = graph.index
    nodes, cells, visits = graph.num_nodes, index.num_cells, index.entry_messages
    rows = np.concatenate([index.cell_nodes, nodes + visits, nodes + np.arange(index.num_messages)])
    columns = np.concatenate([np.arange(cells), cells + index.visit_entries, index.message_cells])
    signs = np.concatenate([np.ones(cells), np.ones(len(visits)), -np.ones(index.num_messages)])
    shape = (nodes + index.num_messages, cells + index.num_entries)
    right = np.concatenate([np.ones(nodes), np.zeros(index.num_messages)])
    return coo_array((signs, (rows, columns)), shape=shape).tocsr(), right
