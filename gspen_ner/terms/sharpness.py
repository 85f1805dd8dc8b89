"""Sharpness: the least that a global term can learn, one number; a control for all the others.

    T(p) = a / 2 sum_i |p_i|^2

With a > 0 every node is rewarded for being sure of its label, whichever it is. Any term can learn this, and
it lowers the training loss: what another term gains has to be more than this one does.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("sharpness", given=["num_labels"])
class Sharpness(GlobalTerm):
    """Rewards (or punishes) sure marginals, by one learned weight.

    Args:
        num_labels: number of labels of each node; not used.

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
