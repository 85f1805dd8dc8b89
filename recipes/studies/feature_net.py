"""The paper's scorers of multilabel classification: from a row of binary features to scores of labels.

node scores     0 for "no", a 3-layer MLP for "yes"
pair scores     a 2-layer MLP, a table for each edge
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.components import Count, DropRate, configurable


@configurable(given=["num_features", "num_nodes"])
class FeatureNet(nn.Module):
    """A 3-layer MLP from features to scores of binary labels, each label by itself.

    Args:
        num_features: number of features.
        num_nodes: number of labels.
        hidden: number of units of both hidden layers.
        input_dropout: dropout of the features.
        hidden_dropout: dropout between the hidden layers.
        flips: probability of flipping a (binary) feature in training.

    Example:
        >>> FeatureNet(num_features=8, num_nodes=3)(torch.ones(2, 8, dtype=torch.uint8)).shape
        torch.Size([2, 3, 2])
    """

    def __init__(
        self,
        num_features: int,
        num_nodes: int,
        hidden: Count = 150,
        input_dropout: DropRate = 0.5,
        hidden_dropout: DropRate = 0.5,
        flips: DropRate = 0.0,
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
        """Return the scores of no and yes."""
        yes = self.layers(_flipped(features.float(), self.flips if self.training else 0.0))
        return torch.stack([torch.zeros_like(yes), yes], -1)


@configurable(given=["num_features", "num_edges", "num_labels"])
class PairNet(nn.Module):
    """A 2-layer MLP from features to tables of pairs of labels; all tables are zero at the start.

    Args:
        num_features: number of features.
        num_edges: number of tables.
        num_labels: number of labels of each node.
        hidden: number of units of the hidden layer.
        input_dropout: dropout of the features.
        flips: probability of flipping a (binary) feature in training.
    """

    def __init__(
        self,
        num_features: int,
        num_edges: int,
        num_labels: int = 2,
        hidden: Count = 1000,
        input_dropout: DropRate = 0.0,
        flips: DropRate = 0.0,
    ) -> None:
        super().__init__()
        self.shape, self.flips = (num_edges, num_labels, num_labels), flips
        self.dropout = nn.Dropout(input_dropout)
        self.hidden = nn.Linear(num_features, hidden)
        self.tables = nn.Linear(hidden, num_edges * num_labels**2)
        nn.init.zeros_(self.tables.weight)
        nn.init.zeros_(self.tables.bias)

    def forward(self, features: Tensor) -> Float[Tensor, "B E L L"]:
        """Return a table for each edge of each example."""
        inputs = self.dropout(_flipped(features.float(), self.flips if self.training else 0.0))
        return self.tables(self.hidden(inputs).relu()).unflatten(1, self.shape)


def _flipped(features: Float[Tensor, "B F"], probability: float) -> Float[Tensor, "B F"]:
    """Return binary features, each flipped with a probability."""
    if not probability:
        return features
    return torch.where(torch.rand_like(features) < probability, 1 - features, features)
