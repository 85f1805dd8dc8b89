"""The paper's scorers of multilabel classification: from a row of binary features to scores of labels.

node scores     0 for "no", a 3-layer MLP for "yes"
pair scores     a 2-layer MLP, a table for each edge

Systems on top of a frozen FeatureNet get its scores behind the features, as further columns: `KnownScores`.
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
        inputs = features.float()
        if self.training and self.flips:
            inputs = torch.where(torch.rand_like(inputs) < self.flips, 1 - inputs, inputs)
        return _no_and_yes(self.layers(inputs))


class KnownScores(nn.Module):
    """Scores of binary variables that were computed before and stand behind the features.

    Args:
        num_features: columns before them.

    Example:
        >>> KnownScores(num_features=2)(torch.tensor([[1.0, 0.0, 2.5, -1.0]]))
        tensor([[[ 0.0000,  2.5000],
                 [ 0.0000, -1.0000]]])
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, inputs: Float[Tensor, "B columns"]) -> Float[Tensor, "B N 2"]:
        """Scores of no and yes."""
        return _no_and_yes(inputs[:, self.num_features :])


class PairNet(nn.Module):
    """Tables of pairs of labels that depend on the features; all zero at the start.

    Args:
        num_features: columns of the inputs that are read, from the first on.
        num_edges: tables.
        num_labels: of each variable.
        hidden: units of the hidden layer.
    """

    def __init__(self, num_features: int, num_edges: int, num_labels: int = 2, hidden: int = 1000) -> None:
        super().__init__()
        self.shape = (num_edges, num_labels, num_labels)
        self.hidden = nn.Linear(num_features, hidden)
        self.tables = nn.Linear(hidden, num_edges * num_labels**2)
        nn.init.zeros_(self.tables.weight)
        nn.init.zeros_(self.tables.bias)

    def forward(self, inputs: Tensor) -> Float[Tensor, "B E L L"]:
        """A table for each edge of each example."""
        features = inputs[:, : self.hidden.in_features].float()
        return self.tables(self.hidden(features).relu()).unflatten(1, self.shape)


def _no_and_yes(yes: Float[Tensor, "B N"]) -> Float[Tensor, "B N 2"]:
    return torch.stack([torch.zeros_like(yes), yes], -1)
