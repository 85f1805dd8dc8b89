"""Linear chains: the exact marginal polytope of a sequence, by forward-backward and Viterbi.

    H(p) = sum_t H(p_{t,t+1}) - sum_{inner t} H(p_t)        (exact on a chain; `Simplex` has no edges)

Sentences of different lengths share a batch; scores on padding never change a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner import kernels
from gspen_ner.kernels.backends import Want
from gspen_ner.kernels.checks import check_shapes, check_tags
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.polytope import POLYTOPES, Messages, Polytope
from gspen_ner.polytopes.simplex import entropies


@POLYTOPES.register("chain", given=["lengths"])
class Chain(Polytope):
    """A batch of linear chains.

    Args:
        lengths: `[B]`, number of positions of each chain.

    Example:
        >>> chain = Chain(torch.tensor([3, 1]))
        >>> theta = chain.potentials(torch.zeros(2, 3, 2), torch.zeros(2, 2), start=torch.tensor([1.0, 0.0]))
        >>> chain.argmax(theta)
        tensor([[ 0,  0,  0],
                [ 0, -1, -1]])
    """

    def __init__(self, lengths: Int[Tensor, " B"]) -> None:
        self.lengths = lengths

    def mask(self, positions: int) -> Bool[Tensor, "B N"]:
        return torch.arange(positions, device=self.lengths.device) < self.lengths[:, None]

    def potentials(
        self,
        nodes: Float[Tensor, "B T L"],
        edges: Float[Tensor, ...],
        start: Float[Tensor, " L"] | None = None,
        end: Float[Tensor, " L"] | None = None,
    ) -> Parts:
        """Return the scores of the chains, with start and end scores added to the first and last nodes."""
        return Parts(kernels.fold_boundaries(nodes, self.lengths, start, end), edges)

    def log_partition(self, theta: Parts, messages: Messages | None = None) -> Float[Tensor, " B"]:
        return kernels.log_partition(theta.nodes, _edges(theta), self.lengths)

    def sums(
        self, theta: Parts, with_edges: bool = True, messages: Messages | None = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        want: Want = "edges" if with_edges else "nodes"
        log_z, nodes, edges = kernels.forward_backward(theta.nodes, _edges(theta), self.lengths, want)
        assert nodes is not None
        return log_z, Parts(nodes, edges)

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        return self.viterbi(theta)[1]

    def viterbi(self, theta: Parts) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
        """Return the score of the best labelling of each chain, and the labelling."""
        return kernels.viterbi(theta.nodes, _edges(theta), self.lengths)

    def k_best(self, theta: Parts, k: int) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K N"]]:
        """Return the scores of the k best labellings, best first, and the labellings.

        A chain with fewer than k labellings has scores of -inf and labels of -1 for the missing ones.
        """
        return kernels.k_best(theta.nodes, _edges(theta), self.lengths, k)

    def sample(
        self, theta: Parts, count: int = 1, generator: torch.Generator | None = None
    ) -> Int[Tensor, "S B N"]:
        """Return `count` labellings drawn from `p(y) ~ exp <theta, y>`."""
        batch, length, _ = theta.nodes.shape
        device = theta.nodes.device
        # drawn on the CPU, so that a seed gives the same numbers for all devices
        uniforms = torch.rand(count, batch, length, generator=generator, dtype=torch.float64)
        uniforms = uniforms.to(device, wide_dtype(device))
        return kernels.sample(theta.nodes, _edges(theta), self.lengths, uniforms)

    def vertex(self, labels: Int[Tensor, "B N"], like: Parts) -> Parts:
        _, length, num_labels = like.nodes.shape
        check_shapes(like.nodes, _edges(like), self.lengths)
        check_tags(like.nodes, self.lengths, labels)
        per_position = like.edges is not None and like.edges.shape[1] == length - 1
        return Parts.one_hot(labels, self.mask(length), num_labels, like.nodes.dtype, per_position)

    def score(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        return kernels.sequence_score(theta.nodes, _edges(theta), self.lengths, labels)

    def log_likelihood(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        return kernels.log_likelihood(theta.nodes, _edges(theta), self.lengths, labels)

    def entropy(self, marginals: Parts) -> Float[Tensor, " B"]:
        length = marginals.nodes.shape[1]
        if marginals.edges is None or marginals.edges.shape[1] != length - 1:
            raise ValueError(
                "the entropy of a chain needs edge marginals per position, got "
                f"{'none' if marginals.edges is None else list(marginals.edges.shape)}; "
                "use distribution_entropy(theta), or marginals(theta.per_position())"
            )
        pairs = entropies(marginals.edges.flatten(2)).sum(1)
        inner = self.mask(length + 1)[:, 2:]  # True at t - 1 if position t has neighbours on both sides
        nodes = entropies(marginals.nodes)
        single = torch.where(self.lengths == 1, nodes[:, 0], 0.0)
        return pairs - (nodes[:, 1:] * inner).sum(1) + single

    def distribution_entropy(self, theta: Parts) -> Float[Tensor, " B"]:
        """Return the entropy of `p(y) ~ exp <theta, y>`, also for shared edge scores; differentiable."""
        wide = theta.map(lambda tensor: tensor.to(wide_dtype(tensor.device)))
        log_z, marginals = self.sums(wide)
        return log_z - wide.dot(marginals)

    def select(self, rows: Int[Tensor, " K"]) -> Chain:
        return Chain(self.lengths[rows])

    def join(self, others: Sequence[Chain]) -> Chain:
        return Chain(torch.cat([self.lengths, *(other.lengths for other in others)]))

    def expand(self, scores: Parts) -> Parts:
        return scores.per_position()


def _edges(theta: Parts) -> Tensor:
    if theta.edges is None:
        labels = theta.nodes.shape[-1]
        return theta.nodes.new_zeros(1, 1, labels, labels)
    return theta.edges
