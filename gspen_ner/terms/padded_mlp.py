"""The paper's global term: a two-layer perceptron over the zero-padded marginals of a sentence.

    T(f, p) = w' softplus(W [dropout(p); dropout(f)] + b)

Inputs are ordered by position and padded with zeros to `max_length`. As zeros add nothing, only the columns
of W that a batch uses are multiplied. A sentence longer than `max_length` is divided into consecutive windows
of that length, and its score is the sum of their scores; for other sentences, the term is the paper's. The
output weights start at zero, so a new term does not change the base model's predictions.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gspen_ner.components import Count, DropRate
from gspen_ner.parts import Parts
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise

DEFAULT_LENGTH = 128


@TERMS.register("padded_mlp", given=["num_labels"])
class PaddedMLP(GlobalTerm):
    """Score a sentence's marginals by an MLP of fixed input size.

    Args:
        num_labels: number of labels of each node.
        max_length: number of positions that the input layer has weights for; longer sentences are read in
            windows. By default the longest training sentence in a recipe, 128 elsewhere.
        hidden: number of hidden units.
        dropout: probability of zeroing each input of a position (each marginal by itself) in training.
        edge_inputs: edge marginals that are also read: none, one table per position, or the expected counts
            of all transitions.
        read_potentials: whether the node potentials are also read.

    Example:
        >>> term = PaddedMLP(num_labels=3, max_length=5, hidden=8)
        >>> marginals = Parts(torch.full((1, 7, 3), 1 / 3))
        >>> term(marginals, marginals, Context.of_lengths(torch.tensor([7]), 7))  # two windows
        tensor([0.], grad_fn=<SumBackward1>)
    """

    def __init__(
        self,
        num_labels: Count,
        max_length: Count | None = None,
        hidden: Count = 500,
        dropout: DropRate = 0.0,
        edge_inputs: Literal["none", "counts", "positions"] = "none",
        read_potentials: bool = False,
    ) -> None:
        super().__init__()
        max_length = DEFAULT_LENGTH if max_length is None else max_length
        self.num_labels, self.max_length, self.dropout = num_labels, max_length, dropout
        self.edge_inputs, self.read_potentials = edge_inputs, read_potentials
        self.width = num_labels * (1 + read_potentials)  # inputs at each position
        if edge_inputs == "positions":
            self.width += num_labels**2
        self.input = nn.Linear(self.width * max_length, hidden)
        self.counts = nn.Linear(num_labels**2, hidden, bias=False) if edge_inputs == "counts" else None
        self.output = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    @classmethod
    def fitted_options(cls, options: dict[str, Any], longest: int) -> dict[str, Any]:
        return options | {"max_length": options["max_length"] or longest}

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        hidden, reached = self._hidden(potentials, marginals, context, noise)
        return (self.output(nn.functional.softplus(hidden)).squeeze(-1) * reached).sum(1)

    @torch.no_grad()
    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return both in closed form, in less than half the time of autograd."""
        hidden, reached = self._hidden(potentials, marginals, context, noise)
        value = (self.output(nn.functional.softplus(hidden)).squeeze(-1) * reached).sum(1)
        slopes = torch.sigmoid(hidden) * self.output.weight * reached[..., None]
        length, labels = marginals.nodes.shape[1:]
        columns = min(length, self.max_length) * self.width
        inputs = (slopes @ self.input.weight[:, :columns]).reshape(len(value), -1, self.width)[:, :length]
        inputs = inputs if noise is None else inputs * noise
        edges = None
        if self.edge_inputs == "positions":
            edges = inputs[:, :-1, -(labels**2) :].unflatten(-1, (labels, labels))
        elif self.counts is not None and marginals.edges is not None:
            counts = (slopes.sum(1) @ self.counts.weight).view(-1, 1, labels, labels)
            edges = counts.expand_as(marginals.edges)
        return value, Parts(inputs[..., :labels], edges)

    def _hidden(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise
    ) -> tuple[Float[Tensor, "B windows hidden"], Bool[Tensor, "B windows"]]:
        """Return the input of the softplus, and a mask of the windows in which a sentence has tokens."""
        inputs = self._inputs(potentials, marginals)
        if noise is not None:
            inputs = inputs * noise
        batch, length, width = inputs.shape
        rest = -length % self.max_length if length > self.max_length else 0  # padding of the last one
        inputs = nn.functional.pad(inputs, (0, 0, 0, rest)) if rest else inputs
        windows = inputs.reshape(batch, -1, min(length, self.max_length) * width)
        hidden = windows @ self.input.weight[:, : windows.shape[-1]].mT + self.input.bias
        if self.counts is not None:
            if marginals.edges is None:
                raise ValueError("the term needs expected transitions, got marginals without edges")
            hidden = hidden + self.counts(marginals.edges.sum(1).flatten(1))[:, None]
        reached = nn.functional.pad(context.mask, (0, rest))
        return hidden, reached.view(batch, hidden.shape[1], -1).any(2)

    def draw_noise(self, potentials: Parts, context: Context) -> Noise:
        if self.dropout == 0:
            return None
        batch, length, _ = potentials.nodes.shape
        keep = potentials.nodes.new_full((batch, length, self.width), 1 - self.dropout)
        return keep.bernoulli() / (1 - self.dropout)

    def _inputs(self, potentials: Parts, marginals: Parts) -> Float[Tensor, "B N width"]:
        """Return the inputs at each position, with zero for the potential of a forbidden label (-inf)."""
        length, num_labels = marginals.nodes.shape[1:]
        if num_labels != self.num_labels:
            raise ValueError(f"the term needs marginals of {self.num_labels} labels, got {num_labels}")
        inputs = [marginals.nodes]
        if self.read_potentials:
            finite = torch.isfinite(potentials.nodes) & (marginals.nodes.sum(-1, keepdim=True) > 0)
            inputs.append(torch.where(finite, potentials.nodes, 0.0))
        if self.edge_inputs == "positions":
            edges = marginals.edges
            if edges is None or edges.shape[1] != length - 1:
                raise ValueError("the term needs edge marginals per position; use potentials.per_position()")
            inputs.append(nn.functional.pad(edges.flatten(2), (0, 0, 0, 1)))
        return torch.cat(inputs, -1)
