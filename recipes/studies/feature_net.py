"""The paper's scorers of multilabel classification: from a row of binary features to scores of labels.

node scores     0 for "no", a 3-layer MLP for "yes"
pair scores     a 2-layer MLP, a table for each edge
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FeatureNet(nn.Module):
    """Scores of binary variables, each by itself.

    Args:
        num_features: inputs, 0 or 1 or any other numbers.
        num_nodes: variables.
        hidden: units of both hidden layers.
        input_dropout: before the first layer.
        hidden_dropout: before the second.
        flips: probability with which each (binary) input is flipped in training.

    Example:
        >>> FeatureNet(num_features=8, num_nodes=3)(torch.ones(2, 8, dtype=torch.uint8)).shape
        torch.Size([2, 3, 2])
    """

    def __init__(
        self,
        num_features: int,
        num_nodes: int,
        hidden: int = 150,
        input_dropout: float = 0.5,
        hidden_dropout: float = 0.5,
        flips: float = 0.0,
    ) -> None:
        super().__init__()
        self.flips = flips
        self.layers = nn.Sequential(
            nn.Dropout(input_dropout),
            nn.Linear(num_features, hidden),
            nn.ReLU(),
            nn.Dropout(hidden_dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, num_nodes),
        )

    def forward(self, features: Tensor) -> Float[Tensor, "B N 2"]:
        """Scores of no and yes."""
        yes = self.layers(_flipped(features.float(), self.flips if self.training else 0.0))
        return torch.stack([torch.zeros_like(yes), yes], -1)


class PairNet(nn.Module):
    """Tables of pairs of labels that depend on the features; all zero at the start.

    Args:
        num_features: inputs.
        num_edges: tables.
        num_labels: of each variable.
        hidden: units of the hidden layer.
        input_dropout: before the first layer.
        flips: probability with which each (binary) input is flipped in training.
    """

    def __init__(
        self,
        num_features: int,
        num_edges: int,
        num_labels: int = 2,
        hidden: int = 1000,
        input_dropout: float = 0.0,
        flips: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape, self.flips = (num_edges, num_labels, num_labels), flips
        self.dropout = nn.Dropout(input_dropout)
        self.hidden = nn.Linear(num_features, hidden)
        self.tables = nn.Linear(hidden, num_edges * num_labels**2)
        nn.init.zeros_(self.tables.weight)
        nn.init.zeros_(self.tables.bias)

    def forward(self, features: Tensor) -> Float[Tensor, "B E L L"]:
        """A table for each edge of each example."""
        inputs = self.dropout(_flipped(features.float(), self.flips if self.training else 0.0))
        return self.tables(self.hidden(inputs).relu()).unflatten(1, self.shape)


def _flipped(inputs: Float[Tensor, "B F"], probability: float) -> Float[Tensor, "B F"]:
    """Binary inputs, each of them perhaps turned around."""
    if not probability:
        return inputs
    return torch.where(torch.rand_like(inputs) < probability, 1 - inputs, inputs)
