"""Counting numbers: how often each region's entropy counts in H(p) = sum_r c_r H(p_r) + sum_p c_p H(p_p).

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
        nodes: one a variable.
        factors: one a factor over two or more variables; must be positive.

    Example:
        >>> from gspen_ner import FactorGraph
        >>> graph = FactorGraph.of_edges([2, 2, 2], [(0, 1), (1, 2)]).compile()
        >>> CountingNumbers.of(graph, "bethe").nodes  # the middle one is in two factors
        tensor([ 0., -1.,  0.], dtype=torch.float64)
    """

    nodes: Float[Tensor, " N"]
    factors: Float[Tensor, " F"]

    @classmethod
    def of(cls, graph: CompiledGraph, kind: Literal["unit", "bethe"] | CountingNumbers) -> CountingNumbers:
        """The numbers of a graph, by name or as they are, checked.

        Raises:
            ValueError: for numbers with which message passing need not converge: a factor's below or at
                zero, or a node's below zero (on a forest, below Bethe's).
        """
        degrees = torch.tensor(graph.index.degrees).double()
        factors = torch.ones(len(graph.scopes), dtype=torch.float64)
        if isinstance(kind, CountingNumbers):
            numbers = cls(kind.nodes.double(), kind.factors.double())
        elif kind == "unit":
            numbers = cls(torch.ones_like(degrees), factors)
        elif kind == "bethe":
            numbers = cls(1 - degrees, factors)
        else:
            raise ValueError(f'counting numbers are "unit", "bethe" or CountingNumbers, got {kind!r}')
        numbers._check(graph)
        return numbers

    def totals(self, graph: CompiledGraph) -> Float[Tensor, " N"]:
        """Each node's number with those of its factors added."""
        slots = torch.tensor(graph.index.slot_nodes)
        return self.nodes.index_add(0, slots, self.factors[torch.tensor(graph.index.slot_factors)])

    def _check(self, graph: CompiledGraph) -> None:
        shapes = (tuple(self.nodes.shape), tuple(self.factors.shape))
        if shapes != ((graph.num_nodes,), (len(graph.scopes),)):
            raise ValueError(
                f"this graph needs {graph.num_nodes} counting numbers of nodes and {len(graph.scopes)} of "
                f"factors; got {list(self.nodes.shape)} and {list(self.factors.shape)}"
            )
        if not (self.factors > 0).all():
            raise ValueError("counting numbers of factors must be positive")
        if not (self.totals(graph) > 0).all():
            raise ValueError("a node's counting number and those of its factors must have a positive sum")
        degrees = torch.tensor(graph.index.degrees)
        low = self.nodes < (1 - degrees).clamp_max(0) if graph.is_forest else self.nodes < 0
        if graph.is_forest and (self.nodes < 0).any() and not (self.factors >= 1).all():
            raise ValueError("negative counting numbers of nodes need factors' numbers of at least one")
        if graph.is_forest and low.any():
            node = int(low.nonzero()[0])
            raise ValueError(
                f"the counting number of {graph.names[node]!r} is {float(self.nodes[node]):g}, below Bethe's "
                f"{min(1 - int(degrees[node]), 0)}: the entropy need not be concave"
            )
        if low.any():
            node = int(low.nonzero()[0])
            raise ValueError(
                f"the graph has loops, and the counting number of {graph.names[node]!r} is "
                f"{float(self.nodes[node]):g}: message passing need not converge; use 'unit' or numbers >= 0"
            )
