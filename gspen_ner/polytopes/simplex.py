"""Independent variables: the product of simplices, for Unary models and SPENs.

marginals(theta) = softmax(theta) of every node;   H(p) = - sum_i sum_l p_i(l) log p_i(l)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.kernels.checks import check_possible, check_tags
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.polytope import POLYTOPES, Messages, Polytope


@POLYTOPES.register("simplex", given=["mask"])
class Simplex(Polytope):
    """One probability simplex per node; edges are ignored.

    Args:
        mask: `[B, N]`, True where an example has a variable, False on padding.

    Example:
        >>> simplex = Simplex(torch.ones(1, 2, dtype=torch.bool))
        >>> simplex.marginals(Parts(torch.zeros(1, 2, 4))).nodes[0, 0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def __init__(self, mask: Bool[Tensor, "B N"]) -> None:
        self.present = mask

    def mask(self, positions: int) -> Bool[Tensor, "B N"]:
        return self.present

    def sums(
        self, theta: Parts, with_edges: bool = True, messages: Messages | None = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        scores = self._scores(theta)
        log_z = scores.logsumexp(-1).sum(1)
        self._check(log_z, scores)
        probabilities = torch.softmax(scores, -1) * self.present[..., None]
        return log_z, Parts(probabilities.to(theta.nodes.dtype))

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        scores = self._scores(theta)
        self._check(scores.amax(-1).sum(1), scores)
        return scores.argmax(-1).masked_fill(~self.present, -1)

    def vertex(self, labels: Int[Tensor, "B N"], like: Parts) -> Parts:
        labels = labels.masked_fill(~self.present, 0)
        lengths = torch.full(labels.shape[:1], labels.shape[1], device=labels.device)
        check_tags(like.nodes, lengths, labels)
        return Parts(Parts.one_hot(labels, self.present, like.nodes.shape[-1], like.nodes.dtype).nodes)

    def entropy(self, marginals: Parts) -> Float[Tensor, " B"]:
        return entropies(marginals.nodes).sum(1)

    def select(self, rows: Int[Tensor, " K"]) -> Simplex:
        return Simplex(self.present[rows])

    def join(self, others: Sequence[Simplex]) -> Simplex:
        return Simplex(torch.cat([self.present, *(other.present for other in others)]))

    def _check(self, values: Tensor, scores: Tensor) -> None:
        batch, nodes, labels = scores.shape
        check_possible(values, scores, scores.new_zeros(1, 1, labels, labels), torch.full((batch,), nodes))

    def _scores(self, theta: Parts) -> Tensor:
        """Return the node scores; on padding, label 0 is certain, which adds zero to log Z."""
        wide = theta.nodes.to(wide_dtype(theta.nodes.device))
        certain = torch.full_like(wide, -torch.inf)
        certain[..., 0] = 0.0
        return torch.where(self.present[..., None], wide, certain)


def entropies(probabilities: Float[Tensor, "... L"]) -> Float[Tensor, ...]:
    """Return - sum p log p over the last axis, in float64, with a finite derivative at zero."""
    return entropy_shares(probabilities).sum(-1)


def entropy_shares(probabilities: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return - p log p of each probability, in float64, with a finite derivative at zero."""
    wide = probabilities.to(wide_dtype(probabilities.device))
    return -(wide * wide.clamp_min(torch.finfo(torch.float32).tiny).log())
