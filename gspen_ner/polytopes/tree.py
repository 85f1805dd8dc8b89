"""Forests: the exact marginal polytope of any factor graph without loops, by sum-product and max-product.

    H(p) = sum_p H(p_p) + sum_r (1 - degree_r) H(p_r)                        (exact on a forest)

Messages go from the leaves to the roots and back, once. On a chain it is `Chain`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.kernels.beliefs import Beliefs, Sweeps
from gspen_ner.kernels.messages import pass_messages
from gspen_ner.parts import Parts
from gspen_ner.polytopes.graph_polytope import GraphPolytope
from gspen_ner.polytopes.polytope import POLYTOPES


@POLYTOPES.register("tree", given=["graph"])
class Tree(GraphPolytope):
    """A factor graph without loops, whose factors may join any number of variables.

    Args:
        graph: the graph; one with a loop is refused.

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
            raise ValueError("the graph has a loop, so it is no tree; use LocalPolytope")
        super().__init__(graph, "bethe")
        levels = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()) + 1)]
        self._there_and_back = Sweeps([*levels[:0:-1], *levels], most=1, tolerance=0.0, exact=True)

    def beliefs(self, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]) -> Beliefs:
        return pass_messages(self.graph, self.counting_numbers, cells, entries, self._there_and_back)

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        return self.best(theta)[1]

    def best(self, theta: Parts) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
        """The best labelling of each example with its score."""
        return self._best_on_forest(theta)
