"""What every solver's state can do: be cut to some examples, mixed, and written back.

A state is a dataclass whose fields are Parts, tensors with the batch as first axis, or plain numbers
that all examples share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Messages


@dataclass(frozen=True)
class SolverState:
    """Where a solver stands, for each example of a batch.

    `value` is F at the marginals, `gap` tells how far they are from stationary (see the solver), `moved`
    whether the last step was accepted. Of coupled examples, value is each one's share, gap the whole
    group's.
    """

    marginals: Parts
    value: Float[Tensor, " B"]
    gap: Float[Tensor, " B"]
    moved: Bool[Tensor, " B"]
    messages: Messages
    """Where the last inference of the polytope ended, for the next to start from."""

    def select(self, rows: Int[Tensor, " K"]) -> Self:
        """The state of some examples."""
        return self._combine(lambda mine, _: mine.select(rows), lambda mine, _: mine[rows], rows=rows)

    def where(self, keep: Bool[Tensor, " B"], other: Self) -> Self:
        """Self where `keep`, else the other."""
        return self._combine(
            lambda mine, its: mine.where(keep, its), lambda mine, its: torch.where(keep, mine, its), other
        )

    def merge(self, rows: Int[Tensor, " K"], update: Self) -> Self:
        """A copy in which the given examples are replaced."""
        return self._combine(
            lambda mine, its: mine.merge(rows, its), lambda mine, its: mine.index_copy(0, rows, its), update
        )

    def _combine(
        self,
        parts: Callable,
        tensors: Callable,
        other: Self | None = None,
        rows: Int[Tensor, " K"] | None = None,
    ) -> Self:
        changed: dict[str, Any] = {}
        for field in fields(self):
            mine = getattr(self, field.name)
            its = None if other is None else getattr(other, field.name)
            if isinstance(mine, Parts):
                changed[field.name] = parts(mine, its)
            elif isinstance(mine, Messages):
                changed[field.name] = mine if rows is None else mine.select(rows)
            elif isinstance(mine, Tensor):
                changed[field.name] = tensors(mine, its)
        return replace(self, **changed)
