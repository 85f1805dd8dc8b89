"""A batch of examples on one factor graph of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.parts import Parts
from gspen_ner.polytopes.local import LocalPolytope


@dataclass(frozen=True)
class GraphProblem:
    """Examples with different random scores for all nodes and edges of the same graph."""

    name: str
    nodes: int
    labels: int
    edges: tuple[tuple[int, int], ...]
    batch: int = 128
    sweeps: int = 100

    def __str__(self) -> str:
        return self.name

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph."""
        return FactorGraph.of_edges([self.labels] * self.nodes, self.edges).compile()

    @cached_property
    def scores(self) -> Parts:
        """Scores of nodes `[B, N, L]` and edges `[B, E, L, L]`, float32."""
        random = torch.Generator().manual_seed(0)
        nodes = torch.randn(self.batch, self.nodes, self.labels, generator=random)
        tables = torch.randn(self.batch, len(self.edges), self.labels, self.labels, generator=random)
        return Parts(nodes, tables)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores of nodes and edges for numpy."""
        assert self.scores.edges is not None
        return self.scores.nodes.numpy(), self.scores.edges.numpy()

    @property
    def all_sweeps(self) -> str:
        """Name of the operation: all sweeps of message passing."""
        return f"{self.sweeps} sweeps"

    def local(self, sweeps: int | None = None) -> LocalPolytope:
        """Return our polytope for any graph, which takes a fixed number of sweeps."""
        return LocalPolytope(self.graph, "unit", max_sweeps=sweeps or self.sweeps, tolerance=0.0)
