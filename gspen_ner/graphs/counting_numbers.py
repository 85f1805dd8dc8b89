"""Counting numbers: the weights of the regions' entropies in H(p) = sum_r c_r H(p_r) + sum_p c_p H(p_p).

unit     c_r = c_p = 1: the paper's fractional entropy, concave on every graph
bethe    c_p = 1, c_r = 1 - (number of r's factors): the true entropy on a forest
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.graphs.compiled import CompiledGraph


@dataclass(frozen=True)
class CountingNumbers:
    """Weights of the entropies of nodes and factors.

    Args:
        nodes: weight c_r of each variable.
        factors: weight c_p of each factor over two or more variables; must be positive.

    Example:
        >>> from gspen_ner import FactorGraph
        >>> graph = FactorGraph.of_edges([2, 2, 2], [(0, 1), (1, 2)]).compile()
        >>> CountingNumbers.of(graph, "bethe").nodes  # the middle variable is in two factors
        tensor([ 0., -1.,  0.], dtype=torch.float64)
    """

    nodes: Float[Tensor, " N"]
    factors: Float[Tensor, " F"]

    @classmethod
    def of(cls, graph: CompiledGraph, choice: Literal["unit", "bethe"] | CountingNumbers) -> CountingNumbers:
        """Return the counting numbers of a graph, by name or as given, after checking them.

        Raises:
            ValueError: for numbers with which message passing may not converge: if a factor's number is not
                positive, or a node's number is negative (on a forest, below its Bethe number).
        """
        degrees = torch.tensor(graph.index.degrees).double()
        factors = torch.ones(len(graph.scopes), dtype=torch.float64)
        if isinstance(choice, CountingNumbers):
            numbers = cls(choice.nodes.double(), choice.factors.double())
        elif choice == "unit":
            numbers = cls(torch.ones_like(degrees), factors)
        elif choice == "bethe":
            numbers = cls(1 - degrees, factors)
        else:
            raise ValueError(f'counting numbers must be "unit", "bethe" or CountingNumbers, got {choice!r}')
        numbers._check(graph)
        return numbers

    def totals(self, graph: CompiledGraph) -> Float[Tensor, " N"]:
        """Return the sum of each node's number and those of its factors."""
        slots = torch.tensor(graph.index.slot_nodes)
        return self.nodes.index_add(0, slots, self.factors[torch.tensor(graph.index.slot_factors)])

    def _check(self, graph: CompiledGraph) -> None:
        shapes = (tuple(self.nodes.shape), tuple(self.factors.shape))
        if shapes != ((graph.num_nodes,), (len(graph.scopes),)):
            raise ValueError(
                f"this graph needs {graph.num_nodes} counting numbers of nodes and {len(graph.scopes)} of "
                f"factors, got {list(self.nodes.shape)} and {list(self.factors.shape)}"
            )
        if not (self.factors > 0).all():
            raise ValueError(f"counting numbers of factors must be positive, got {self.factors.min():g}")
        if not (self.totals(graph) > 0).all():
            raise ValueError("a node's counting number plus those of its factors must be positive")
        if graph.is_forest and (self.nodes < 0).any() and not (self.factors >= 1).all():
            raise ValueError("negative counting numbers of nodes need counting numbers of factors >= 1")
        degrees = torch.tensor(graph.index.degrees)
        lowest = (1 - degrees).clamp_max(0) if graph.is_forest else torch.zeros_like(degrees)
        if (self.nodes < lowest).any():
            node = int((self.nodes < lowest).nonzero()[0])
            structure = "is a forest" if graph.is_forest else "has loops"
            raise ValueError(
                f"the graph {structure}: the counting number of {graph.names[node]!r} must be at least "
                f"{int(lowest[node])} for message passing to converge, got {float(self.nodes[node]):g}; "
                'use "unit" or larger numbers'
            )
