"""Scorers for a graph that all examples share: scores of nodes, and tables of edges.

inputs -> nodes [B, N, L], edges [B or 1, E, L, L], over the polytope of a batch
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.polytopes import Polytope


class GraphScorer(nn.Module):
    """Score the nodes and edges of a graph.

    Args:
        polytope: function that returns the polytope for a batch size.
        nodes: module that maps inputs to node scores; by default the inputs are the node scores.
        pairs: module that maps inputs to a table for each edge; by default there are no edges.

    Example:
        >>> from gspen_ner import Chain
        >>> scorer = GraphScorer(lambda batch: Chain(torch.full((batch,), 5)), pairs=PairTables(4, 26))
        >>> potentials, chain = scorer(torch.zeros(2, 5, 26))
        >>> potentials.edges.shape
        torch.Size([1, 4, 26, 26])
    """

    def __init__(
        self,
        polytope: Callable[[int], Polytope],
        nodes: nn.Module | None = None,
        pairs: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.polytope, self.nodes, self.pairs = polytope, nodes, pairs

    def forward(self, inputs: Tensor) -> tuple[Parts, Polytope]:
        """Return the potentials of a batch and their polytope."""
        nodes = inputs if self.nodes is None else self.nodes(inputs)
        edges = None if self.pairs is None else self.pairs(inputs)
        return Parts(nodes, edges), self.polytope(len(inputs))


class PairTables(nn.Module):
    """A learned table for each edge, shared by all examples; zero at the start.

    Args:
        num_edges: number of edges.
        num_labels: number of labels of each node.
    """

    def __init__(self, num_edges: int, num_labels: int) -> None:
        super().__init__()
        self.tables = nn.Parameter(torch.zeros(num_edges, num_labels, num_labels))

    def forward(self, inputs: Tensor) -> Float[Tensor, "1 E L L"]:
        """Return the tables, which do not depend on the inputs."""
        return self.tables[None]
