"""What a solver needs of the set of marginals M.

    marginals(theta)     = argmax_{p in M} <theta, p> + H(p)
    log_partition(theta) = max_{p in M}    <theta, p> + H(p)
    argmax(theta)        = argmax_{p in M} <theta, p>, as labels
    maximiser(theta)     = the same as a point of M

A polytope holds what a batch's examples share or differ in (lengths, a graph), never scores.
Values come in the widest float, marginals in the dtype of theta (single, if that is half).
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
    """The messages with which an iterative inference ended; None before the first."""

    def __init__(self, rows: Tensor | None = None) -> None:
        self.rows = rows

    def select(self, rows: Int[Tensor, " K"]) -> Messages:
        """Return the messages of some examples."""
        return Messages(None if self.rows is None else self.rows[rows])


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
        """True where an example has a variable, False on padding up to `positions`."""

    @abstractmethod
    def marginals(self, theta: Parts) -> Parts:
        """`argmax <theta, p> + H(p)`, with the edges laid out as those of theta."""

    @abstractmethod
    def log_partition(self, theta: Parts) -> Float[Tensor, " B"]:
        """`max <theta, p> + H(p)`; differentiable, its gradient is `marginals`."""

    @abstractmethod
    def sums(self, theta: Parts, with_edges: bool = True) -> tuple[Float[Tensor, " B"], Parts]:
        """Log partition and marginals in one pass; edge marginals only if asked for."""

    @abstractmethod
    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        """The best labelling; -1 on padding."""

    @abstractmethod
    def vertex(self, labels: Int[Tensor, "B N"], like: Parts) -> Parts:
        """A labelling as marginals, with the edges laid out as those of `like`."""

    @abstractmethod
    def entropy(self, marginals: Parts) -> Float[Tensor, " B"]:
        """H(p) of any marginals in the set; differentiable inside it."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " K"]) -> Polytope:
        """Some examples of the batch."""

    @abstractmethod
    def join(self, others: Sequence[Any]) -> Polytope:
        """Return this batch and others of the same class as one batch."""

    def maximiser(self, theta: Parts) -> Parts:
        """A point that maximises `<theta, p>`, Frank-Wolfe's target: the best labelling, if there is one."""
        return self.vertex(self.argmax(theta), theta)

    def warmed(self, messages: Messages) -> Polytope:
        """Return the same set for a sequence of similar scores, which may start where the last ended.

        Args:
            messages: where the last inference ended; a solver keeps it in its state.
        """
        return self

    def expand(self, scores: Parts) -> Parts:
        """Scores whose marginals determine the entropy (a chain needs a table per position)."""
        return scores

    def score(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """`<theta, y>` of given labellings; differentiable in theta."""
        return theta.dot(self.vertex(labels, theta))

    def log_likelihood(self, theta: Parts, labels: Int[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """Score - log_partition: the log probability of given labellings; differentiable in theta."""
        score = self.score(theta, labels)
        check_gold(score)
        return score - self.log_partition(theta)
