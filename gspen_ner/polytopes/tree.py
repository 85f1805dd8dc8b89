"""Forests: the exact marginal polytope of any factor graph without loops, by sum-product and max-product.

    H(p) = sum_p H(p_p) + sum_r (1 - degree_r) H(p_r)                        (exact on a forest)

Messages pass once from the leaves to the roots and once back. For a graph that is a chain, results equal
those of `Chain`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.graphs.compiled import Cells, Entries
from gspen_ner.kernels.messages import Beliefs, Sweeps, pass_messages
from gspen_ner.parts import Parts
from gspen_ner.polytopes.graph_polytope import GraphPolytope
from gspen_ner.polytopes.polytope import POLYTOPES, Messages


@POLYTOPES.register("tree", given=["graph"])
class Tree(GraphPolytope):
    """A factor graph without loops, with factors over any number of variables.

    Args:
        graph: the graph; a graph with a loop raises a ValueError.

    Example:
        >>> import torch
        >>> star = Tree(FactorGraph.of_edges([2, 2, 3], [(0, 1), (0, 2)]))
        >>> theta = star.graph.potentials({0: torch.tensor([[0.0, 1.0]]), (0, 2): torch.eye(2, 3)})
        >>> star.argmax(theta)
        tensor([[1, 0, 1]])
    """

    def __init__(self, graph: FactorGraph | CompiledGraph) -> None:
        graph = graph.compile() if isinstance(graph, FactorGraph) else graph
        depths = graph.index.depths
        if depths is None:
            raise ValueError("Tree needs a graph without loops, this graph has one; use LocalPolytope")
        super().__init__(graph, "bethe")
        levels = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()) + 1)]
        to_roots_and_back = [*levels[:0:-1], *levels]
        self._sweeps = Sweeps(to_roots_and_back, max_sweeps=1, tolerance=0.0, exact=True)

    def beliefs(self, cells: Cells, entries: Entries, messages: Messages | None = None) -> Beliefs:
        return pass_messages(self.graph, self.counting_numbers, cells, entries, self._sweeps)

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        return self.best(theta)[1]

    def best(self, theta: Parts) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
        """Return the score of the best labelling of each example, and the labelling."""
        return self._best_on_forest(theta)
