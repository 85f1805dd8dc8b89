"""A global term without a length: a convolution over the label marginals, summed over the sentence.

    T(p) = sum_t w' softplus(sum_k W_k p_{t+k} + b)

It scores patterns of labels a few tokens wide, beyond the pairs that a chain sees, anywhere in a
sentence. The output weights start at zero, so a new term changes nothing.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.term import Context, GlobalTerm, Noise


class Convolution(GlobalTerm):
    """Scores windows of label marginals.

    Args:
        num_labels: labels of each node.
        hidden: filters.
        width: tokens a filter sees; odd.

    Example:
        >>> import torch
        >>> term = Convolution(num_labels=3, hidden=8, width=5)
        >>> marginals = Parts(torch.full((2, 4, 3), 1 / 3))
        >>> term(marginals, marginals, Context.of_lengths(torch.tensor([4, 2]), 4)).shape
        torch.Size([2])
    """

    def __init__(self, num_labels: int, hidden: int = 100, width: int = 5) -> None:
        super().__init__()
        if width < 1 or width % 2 == 0:
            raise ValueError(f"width must be odd, so that a window has a middle; got {width}")
        self.filters = nn.Conv1d(num_labels, hidden, width, padding=width // 2)
        self.output = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        features = nn.functional.softplus(self.filters(marginals.nodes.mT)).mT
        return (self.output(features).squeeze(-1) * context.mask).sum(1)
