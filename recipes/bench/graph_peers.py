"""What it takes to measure message passing on factor graphs beside others, on the very same problem.

The peers are `graph_numpy` and `graph_pgmax`. A peer's turn says itself how many seconds it took, or would
take for the whole batch. What a peer needs to be given (its own layout of scores, compiled code) is prepared
beforehand and not timed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.parts import Parts
from gspen_ner.polytopes.local import LocalPolytope

SUM_PRODUCT = "sum-product"


@dataclass(frozen=True)
class GraphProblem:
    """A batch of examples on one graph of pairs, with random scores of their own for all nodes and edges."""

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
        """The graph."""
        return FactorGraph.of_edges([self.labels] * self.nodes, self.edges).compile()

    @cached_property
    def scores(self) -> Parts:
        """Nodes `[B, N, L]` and edges `[B, E, L, L]`, float32."""
        random = torch.Generator().manual_seed(0)
        nodes = torch.randn(self.batch, self.nodes, self.labels, generator=random)
        tables = torch.randn(self.batch, len(self.edges), self.labels, self.labels, generator=random)
        return Parts(nodes, tables)

    def few(self, examples: int) -> Parts:
        """The scores of the first examples."""
        assert self.scores.edges is not None
        return Parts(self.scores.nodes[:examples], self.scores.edges[:examples])

    @property
    def all_sweeps(self) -> str:
        """What ours does on any graph."""
        return f"{self.sweeps} sweeps"

    def local(self, sweeps: int | None = None) -> LocalPolytope:
        """Ours on any graph, taking all sweeps."""
        return LocalPolytope(self.graph, "unit", max_sweeps=sweeps or self.sweeps, tolerance=0.0)


@dataclass(frozen=True)
class GraphContest:
    """Two that do the same; `check` raises AssertionError if they do not."""

    what: str
    peer: str
    ours: Callable[[], Any]
    turn: Callable[[], float]
    """A turn of the peer; the seconds that the whole batch takes."""
    check: Callable[[], None]


class GraphPeer(ABC):
    """Another way to pass messages."""

    def missing(self) -> str | None:
        """What to say if the peer cannot be run, else None."""
        return None

    @abstractmethod
    def contests(self, problem: GraphProblem) -> Generator[GraphContest]:
        """What the peer does on a problem; what it started ends when the generator is closed."""


def check_close(ours: Tensor, peer: np.ndarray, tolerance: float) -> None:
    """Raise AssertionError unless beliefs are the same."""
    difference = float(np.abs(ours.numpy() - peer).max())
    if not difference <= tolerance:
        raise AssertionError(f"beliefs differ by {difference:.2g}: nothing is measured")
