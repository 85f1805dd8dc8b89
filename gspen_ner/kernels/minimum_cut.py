"""Minimum cuts: the exact maximum of linear scores over the local polytope, for pairs of binary variables.

    max <theta, b>   b locally consistent

The solution is half-integral: the belief of a node in label 1 is 0, 1/2 or 1. The belief of a pair in (1, 1)
is the largest that its nodes allow if the pair attracts, else the smallest.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph
from gspen_ner.kernels.thread_pool import over_rows


def can_be_cut(graph: CompiledGraph) -> bool:
    """Return whether all variables have two labels and all factors are over two variables."""
    return set(graph.label_counts) == {2} and graph.num_edges == len(graph.scopes)


def solve_by_cuts(
    graph: CompiledGraph, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]
) -> tuple[Float[Tensor, "B cells"], Float[Tensor, "B entries"]]:
    """Return the maximiser of each example for finite scores; on the CPU."""
    doubled, _ = _halves(graph, cells, entries)
    beliefs = 0.5 * doubled.to(cells)  # in label 1
    first, second = (beliefs[:, list(nodes)] for nodes in zip(*graph.scopes, strict=True))
    tables = entries.unflatten(1, (-1, 4))
    most, least = torch.minimum(first, second), (first + second - 1).clamp_min(0.0)
    both = torch.where(tables[..., 0] + tables[..., 3] > tables[..., 1] + tables[..., 2], most, least)
    pairs = torch.stack([1 - first - second + both, second - both, first - both, both], -1)
    return torch.stack([1 - beliefs, beliefs], -1).flatten(1), pairs.flatten(1)


def labellings_by_cuts(
    graph: CompiledGraph, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]
) -> Int[Tensor, "B N"]:
    """Return the maximiser if it is a labelling, else a labelling that no change of one label improves."""
    return _halves(graph, cells, entries)[1]


def _halves(graph: CompiledGraph, cells: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """Return twice the beliefs in label 1, and labellings."""
    from gspen_ner.kernels.loops import minimum_cut  # compiled on first use

    scores, tables = (rows.detach().double().cpu().contiguous().numpy() for rows in (cells, entries))
    first, second = np.array(graph.scopes, dtype=np.int64).T
    doubled = np.empty((len(scores), graph.num_nodes), dtype=np.int64)
    labels = np.empty_like(doubled)

    def work(start: int, stop: int) -> None:
        rows = slice(start, stop)
        minimum_cut.halves(scores[rows], tables[rows], first, second, doubled[rows], labels[rows])

    over_rows(work, len(scores), len(scores) * 20 * (2 * graph.num_nodes) ** 2)
    return torch.from_numpy(doubled).to(cells.device), torch.from_numpy(labels).to(cells.device)
