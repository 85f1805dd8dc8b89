"""Linear programming: the exact maximum of linear scores over the local polytope, by HiGHS.

max <theta, b>   with   sum_y b_r(y) = 1,   sum of b_p over entries with label y at r = b_r(y),   b >= 0
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gspen_ner.graphs import CompiledGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def solve_linear_programs(graph: CompiledGraph, cells: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximiser of each example; the programs run one after another on the CPU."""
    from scipy.optimize import linprog

    constraints, right = _constraints(graph)
    scores = torch.cat([cells, entries], 1).detach().double().cpu().numpy()
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
