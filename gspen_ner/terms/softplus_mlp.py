"""The two-layer perceptron of the paper's terms: w' softplus(W x + b)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SoftplusMLP(nn.Module):
    """A scalar function of a vector.

    Args:
        size: length of the vector.
        hidden: number of hidden units.

    Example:
        >>> SoftplusMLP(4, hidden=3)(torch.ones(2, 4))  # a new one has output weights of zero
        tensor([0., 0.], grad_fn=<SqueezeBackward1>)
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        if min(size, hidden) < 1:
            raise ValueError(f"sizes must be positive, got {size=}, {hidden=}")
        self.input = nn.Linear(size, hidden)
        self.output = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, inputs: Float[Tensor, "B size"]) -> Float[Tensor, " B"]:
        """Return the value of each row."""
        return self.output(nn.functional.softplus(self.input(inputs))).squeeze(-1)

    @torch.no_grad()
    def value_and_grad(
        self, inputs: Float[Tensor, "B size"]
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, "B size"]]:
        """Return the values and their gradients in the inputs, in closed form."""
        hidden = self.input(inputs)
        value = self.output(nn.functional.softplus(hidden)).squeeze(-1)
        return value, (torch.sigmoid(hidden) * self.output.weight) @ self.input.weight
