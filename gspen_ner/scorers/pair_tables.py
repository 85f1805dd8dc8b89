"""Scores of pairs of labels that are the same for every example: one table an edge."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class PairTables(nn.Module):
    """A learned table for each edge, zero at the start.

    Args:
        num_edges: edges.
        num_labels: labels of each node.
    """

    def __init__(self, num_edges: int, num_labels: int) -> None:
        super().__init__()
        self.tables = nn.Parameter(torch.zeros(num_edges, num_labels, num_labels))

    def forward(self, inputs: Tensor) -> Float[Tensor, "1 E L L"]:
        """The tables, shared by a batch whatever it is."""
        return self.tables[None]
