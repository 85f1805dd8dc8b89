"""Sharpness: a global term with a single weight, as a control for all others.

    T(p) = a / 2 sum_i |p_i|^2

With a > 0, every node is rewarded for a certain label, whichever it is. Any term can learn this, and it
lowers the training loss; so another term is useful only if it gains more than this one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("sharpness", given=["num_labels"])
class Sharpness(GlobalTerm):
    """Reward (or punish) certain marginals by one learned weight.

    Args:
        num_labels: number of labels of each node; has no effect.

    Example:
        >>> marginals = Parts(torch.full((1, 2, 4), 1 / 4))
        >>> Sharpness(num_labels=4)(marginals, marginals, Context(torch.ones(1, 2, dtype=torch.bool)))
        tensor([0.], grad_fn=<MulBackward0>)
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        squares = marginals.nodes.square().sum(-1).masked_fill(~context.mask, 0.0)
        return 0.5 * self.weight * squares.sum(1)
