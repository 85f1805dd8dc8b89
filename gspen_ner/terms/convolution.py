"""A global term for sentences of any length: a convolution over the label marginals, summed over positions.

    T(p) = sum_t w' softplus(sum_k W_k p_{t+k} + b)

It scores patterns of labels a few tokens wide, beyond the pairs that a chain scores, anywhere in a sentence.
The output weights start at zero, so a new term changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.components import Count
from gspen_ner.parts import Parts
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("convolution", given=["num_labels"])
class Convolution(GlobalTerm):
    """Score windows of label marginals by filters.

    Args:
        num_labels: number of labels of each node.
        hidden: number of filters.
        width: number of tokens that a filter sees; odd.

    Example:
        >>> import torch
        >>> term = Convolution(num_labels=3, hidden=8, width=5)
        >>> marginals = Parts(torch.full((2, 4, 3), 1 / 3))
        >>> term(marginals, marginals, Context.of_lengths(torch.tensor([4, 2]), 4)).shape
        torch.Size([2])
    """

    def __init__(self, num_labels: int, hidden: Count = 100, width: Count = 5) -> None:
        super().__init__()
        self.filters = nn.Conv1d(num_labels, hidden, width, padding=width // 2)
        self.output = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        """Raise a ValueError for windows without a middle."""
        if options["width"] % 2 == 0:
            raise ValueError(f"width must be odd, so that a window has a middle, got {options['width']}")

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        features = nn.functional.softplus(self.filters(marginals.nodes.mT)).mT
        return (self.output(features).squeeze(-1) * context.mask).sum(1)
