"""The interface of the sets of marginals M that solvers work on.

    marginals(theta)     = argmax_{p in M} <theta, p> + H(p)
    log_partition(theta) = max_{p in M}    <theta, p> + H(p)
    argmax(theta)        = argmax_{p in M} <theta, p>, as labels
    maximiser(theta)     = the same as a point of M

A polytope holds the structure of a batch (lengths, a mask or a graph), neither scores nor other state.
Log partitions, scores and entropies are float64 (float32 on devices without it). Marginals have the dtype of
theta, or float32 if theta is in half precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.components import Registry
from gspen_ner.kernels.checks import check_gold
from gspen_ner.parts import Parts

POLYTOPES: Registry[Polytope] = Registry("polytope")
"""Polytopes by the names that recipes use."""


class Messages:
    """The messages of an iterative inference, from which the next inference on similar scores can start.

    A solver keeps them in its state and passes them to each inference, which updates them in place.

    Args:
        values: `[B, messages]`, the final messages of the last inference; None before the first one.
    """

    def __init__(self, values: Tensor | None = None) -> None:
        self.values = values

    def select(self, rows: Int[Tensor, " K"]) -> Messages:
        """Return the messages of some examples."""
        return Messages(None if self.values is None else self.values[rows])


class Polytope(ABC):
    """A batch of feasible sets of marginals.

    Example:
        >>> import torch
        >>> from gspen_ner import Chain
        >>> chain = Chain(torch.tensor([2]))
        >>> isinstance(chain, Polytope)
        True
        >>> theta = Parts(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]]))
        >>> labels = chain.argmax(theta)
        >>> labels, chain.score(theta, labels)
        (tensor([[1, 0]]), tensor([3.], dtype=torch.float64))
    """

    @abstractmethod
    def mask(self, positions: int) -> Bool[Tensor, "B_or_1 N"]:
        """Return a mask: True where an example has a variable, False on padding up to `positions`."""

    @abstractmethod
    def sums(
        self, theta: Parts, with_edges: bool = True, messages: Messages | None = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return the log partition and the marginals, computed in one pass.

        Args:
            theta: scores.
            with_edges: whether edge marginals are needed; if False, they may be None.
            messages: start of an iterative inference, updated in place with its final messages; None starts
                anew. Polytopes with exact inference ignore it.
        """

    @abstractmethod
    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        """Return the best labelling; -1 on padding."""

    @abstractmethod
    def vertex(self, labels: Int[Tensor, "B N"], like: Parts) -> Parts:
        """Return a labelling as marginals, with the edges laid out like those of `like`."""

    @abstractmethod
    def entropy(self, marginals: Parts) -> Float[Tensor, " B"]:
        """Return H(p) of any marginals in the set; differentiable in the interior."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " K"]) -> Polytope:
        """Return the polytope of some examples of the batch."""

    def marginals(self, theta: Parts, messages: Messages | None = None) -> Parts:
        """Return `argmax <theta, p> + H(p)`, with the edges laid out like those of theta; see `sums`."""
        return self.sums(theta, messages=messages)[1]

    def log_partition(self, theta: Parts, messages: Messages | None = None) -> Float[Tensor, " B"]:
        """Return `max <theta, p> + H(p)`, whose gradient in theta is `marginals`; see `sums`."""
        return self.sums(theta, with_edges=False, messages=messages)[0]

    @abstractmethod
    def join(self, others: Sequence[Any]) -> Polytope:
        """Return this batch and others of the same class as one batch."""

    def maximiser(self, theta: Parts) -> Parts:
        """Return a point that maximises `<theta, p>`: by default the best labelling as a vertex."""
        return self.vertex(self.argmax(theta), theta)

    def expand(self, scores: Parts) -> Parts:
        """Return scores in the layout whose marginals determine the entropy: on a chain, a table per edge."""
        return scores

    def score(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """Return `<theta, y>` of given labellings; differentiable in theta."""
        return theta.dot(self.vertex(labels, theta))

    def log_likelihood(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """Return the log probability of given labellings, score - log_partition; differentiable in theta."""
        score = self.score(theta, labels)
        check_gold(score)
        return score - self.log_partition(theta)
