"""Exact best labellings of a forest: argmax_y <theta, y>."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph
from gspen_ner.kernels.loops.graph import Graph


def best_labellings(
    graph: CompiledGraph, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
    """Return the score of the best labelling of each example of a forest, and the labelling; on the CPU."""
    from gspen_ner.kernels.loops import forests  # compiled on first use

    index = graph.index
    assert index.depths is not None
    labels = np.empty((len(cells), graph.num_nodes), dtype=np.int64)
    scores = np.empty(len(cells))
    tables, nodes = (rows.detach().double().cpu().contiguous().numpy() for rows in (entries, cells))
    leaves_first = np.argsort(-index.depths, kind="stable")
    forests.best_labellings(
        tables, nodes, Graph.of(index), index.factor_parents, leaves_first, labels, scores
    )
    return torch.from_numpy(scores).to(cells.device), torch.from_numpy(labels).to(cells.device)
