"""Brute force: every labelling of a small chain, its score, and all that follows from that, in float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from gspen_ner import Parts


@dataclass(frozen=True)
class Enumeration:
    """All labellings of one chain with nodes [T, L] and edges [T-1, L, L]."""

    nodes: np.ndarray
    edges: np.ndarray

    @cached_property
    def paths(self) -> np.ndarray:
        length, labels = self.nodes.shape
        return np.array(list(itertools.product(range(labels), repeat=length))).reshape(-1, length)

    @cached_property
    def scores(self) -> np.ndarray:
        positions = np.arange(self.paths.shape[1])
        total = self.nodes[positions, self.paths].sum(1)
        for t in positions[:-1]:
            total = total + self.edges[t, self.paths[:, t], self.paths[:, t + 1]]
        return total

    @cached_property
    def log_partition(self) -> float:
        return float(np.logaddexp.reduce(self.scores))

    @cached_property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.scores - self.log_partition)

    def node_marginals(self, weights: np.ndarray | None = None) -> np.ndarray:
        weights = self.probabilities if weights is None else weights
        return np.einsum("y,ytl->tl", weights, np.eye(self.nodes.shape[1])[self.paths])

    def edge_marginals(self, weights: np.ndarray | None = None) -> np.ndarray:
        weights = self.probabilities if weights is None else weights
        one_hot = np.eye(self.nodes.shape[1])[self.paths]
        return np.einsum("y,yti,ytj->tij", weights, one_hot[:, :-1], one_hot[:, 1:])

    @cached_property
    def entropy(self) -> float:
        p = self.probabilities[self.probabilities > 0]
        return float(-(p * np.log(p)).sum())

    def probability_of(self, event) -> float:
        """The summed probability of all labellings for which `event(list of labels)` holds."""
        return float(sum(p for y, p in zip(self.paths.tolist(), self.probabilities, strict=True) if event(y)))


def enumerate_row(theta: Parts, lengths: torch.Tensor, row: int) -> Enumeration:
    """The enumeration of one row of a batch of chains (its padding cut off)."""
    length = int(lengths[row])
    nodes = theta.nodes[row, :length].detach().double().cpu().numpy()
    labels = nodes.shape[1]
    edges = np.zeros((length - 1, labels, labels))
    if theta.edges is not None:
        table = theta.edges[row if theta.edges.shape[0] > 1 else 0].detach().double().cpu().numpy()
        edges[:] = table[: length - 1] if table.shape[0] > 1 else table
    return Enumeration(nodes, edges)
