"""The base class of solver states: selecting examples, and combining two states example by example.

A state is a dataclass with fields that are Parts, tensors whose first axis is the batch, or plain numbers
shared by all examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Messages


@dataclass(frozen=True)
class SolverState:
    """The iterate of a solver for each example of a batch.

    For coupled examples, `value` is the share of each example, `gap` the gap of the whole group.
    """

    marginals: Parts
    value: Float[Tensor, " B"]
    """F at the marginals."""
    gap: Float[Tensor, " B"]
    """Distance from a stationary point, as the solver defines it."""
    moved: Bool[Tensor, " B"]
    """Whether the last step was accepted."""
    messages: Messages = field(default_factory=Messages, kw_only=True)
    """Warm start of the polytope's inference."""

    def select(self, rows: Int[Tensor, " K"]) -> Self:
        """Return the state of some examples."""
        chosen = self._combine(self, lambda parts, _: parts.select(rows), lambda tensor, _: tensor[rows])
        return replace(chosen, messages=self.messages.select(rows))

    def where(self, keep: Bool[Tensor, " B"], other: Self) -> Self:
        """Return this state for the examples in `keep`, the other state for the rest."""
        return self._combine(
            other, lambda mine, its: mine.where(keep, its), lambda mine, its: torch.where(keep, mine, its)
        )

    def merge(self, rows: Int[Tensor, " K"], update: Self) -> Self:
        """Return a copy in which the given examples are replaced."""
        return self._combine(
            update, lambda mine, its: mine.merge(rows, its), lambda mine, its: mine.index_copy(0, rows, its)
        )

    def _combine(self, other: Self, parts: Callable, tensors: Callable) -> Self:
        """Return a copy with functions applied to the Parts and to the tensors of both states."""
        changed: dict[str, Any] = {}
        for name in (entry.name for entry in fields(self)):
            mine, its = getattr(self, name), getattr(other, name)
            if isinstance(mine, Parts | Tensor):
                changed[name] = (parts if isinstance(mine, Parts) else tensors)(mine, its)
        return replace(self, **changed)
