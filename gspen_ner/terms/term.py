"""The base class of global terms: modules that score the marginals of each example of a batch.

    F(p) = <f, p> + T(f, p) + temperature * H(p)                  (the paper's section 3.1)

A term draws random numbers only in `draw_noise`, once for a batch. The same noise is then given to all
evaluations of the batch, so that inference and loss use the same function. Noise is None, a tensor whose
first axis is the batch, or a tuple of noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gspen_ner.components import Registry
from gspen_ner.parts import Parts, outside_graph, value_and_gradient

Noise = Any


@dataclass(frozen=True)
class Context:
    """Information about a batch, besides its scores, that a term can use.

    Args:
        mask: `[B, N]`, True where an example has a variable.
        documents: `[B]`, equal numbers for sentences of the same document; None if each is by itself.
        mentions: `[B, N, R]`, for each of R relations, equal numbers for related tokens of a document, and -1
            for tokens without relation; see `match_mentions`.

    Example:
        >>> Context.of_lengths(torch.tensor([3, 1]), positions=3).mask
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """

    mask: Bool[Tensor, "B N"]
    documents: Int[Tensor, " B"] | None = None
    mentions: Int[Tensor, "B N R"] | None = None

    def __post_init__(self) -> None:
        if self.mentions is not None and self.documents is None:
            raise ValueError("mentions couple the sentences of a document; give `documents` as well")

    @classmethod
    def of_lengths(cls, lengths: Int[Tensor, " B"], positions: int) -> Context:
        """Return the context of sentences without documents, given their lengths."""
        return cls(torch.arange(positions, device=lengths.device) < lengths[:, None])

    def select(self, rows: Int[Tensor, " K"]) -> Context:
        """Return the context of some examples, which must be whole documents."""
        return self._map(lambda tensor: tensor[rows])

    @staticmethod
    def join(batches: Sequence[Context]) -> Context:
        """Return several batches as one."""
        columns = zip(*((batch.documents, batch.mentions) for batch in batches), strict=True)
        joined = (None if column[0] is None else torch.cat(column) for column in columns)
        return Context(torch.cat([batch.mask for batch in batches]), *joined)

    def detach(self) -> Context:
        """Return the same context in tensors that autograd can save, also inside `inference_mode`."""
        return self._map(outside_graph)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Context:
        columns = self.documents, self.mentions
        return Context(
            function(self.mask), *(None if column is None else function(column) for column in columns)
        )


class GlobalTerm(nn.Module, ABC):
    """A score of marginals that need not decompose over nodes and edges.

    Example:
        >>> class Agreement(GlobalTerm):
        ...     def forward(self, potentials, marginals, context, noise=None):
        ...         return (marginals.nodes[:, :-1] * marginals.nodes[:, 1:]).sum((1, 2))
        >>> same = Parts(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]))
        >>> value, slope = Agreement().value_and_grad(same, same, Context.of_lengths(torch.tensor([2]), 2))
        >>> value
        tensor([1.])
    """

    edge_inputs: Literal["none", "counts", "positions"] = "none"
    """Whether the term reads edge marginals: not at all, as expected counts, or per position."""

    @abstractmethod
    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        """Return the score of each example's marginals (its share of its document's score)."""

    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return the score and its gradient in the marginals, without edges if the term does not read them.

        They are computed by autograd; a term can override this method by a faster one.
        """
        return self.differentiate(potentials, marginals, context, noise)

    def differentiate(
        self,
        potentials: Parts,
        marginals: Parts,
        context: Context,
        noise: Noise = None,
        create_graph: bool = False,
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return the score and its gradient in the marginals by autograd; see `value_and_gradient`."""
        read = Parts(marginals.nodes) if self.edge_inputs == "none" else marginals
        return value_and_gradient(lambda p: self(potentials, p, context, noise), read, create_graph)

    @classmethod
    def fitted_options(cls, options: dict[str, Any], longest: int) -> dict[str, Any]:
        """Return the options of a new term, given the number of tokens of the longest training sentence."""
        return options

    def draw_noise(self, potentials: Parts, context: Context) -> Noise:
        """Return dropout masks for one batch; None for a term without dropout."""
        return None

    def groups(self, context: Context) -> Int[Tensor, " B"] | None:
        """Return equal numbers for examples that the term couples; None if it scores each by itself."""
        return None

    def __add__(self, other: GlobalTerm) -> TermSum:
        return TermSum(*summands(self), *summands(other))


TERMS: Registry[GlobalTerm] = Registry("term")
"""Terms by the names that recipes and model files use."""


class TermSum(GlobalTerm):
    """The sum of several terms; also written `first + second`.

    Example:
        >>> from gspen_ner import Convolution
        >>> from gspen_ner.terms import Sharpness
        >>> both = Convolution(num_labels=3) + Sharpness(num_labels=3)
        >>> [type(term).__name__ for term in both.terms]
        ['Convolution', 'Sharpness']
    """

    def __init__(self, *terms: GlobalTerm) -> None:
        super().__init__()
        if not terms:
            raise ValueError("a sum of terms needs at least one term")
        layouts = {term.edge_inputs for term in terms} - {"none"}
        if len(layouts) > 1:
            raise ValueError(
                f"terms of one sum must read edge marginals in the same layout, got {sorted(layouts)}"
            )
        self.summands = nn.ModuleList(terms)
        self.edge_inputs = layouts.pop() if layouts else "none"

    @property
    def terms(self) -> list[GlobalTerm]:
        """The terms that are added."""
        return cast(list[GlobalTerm], list(self.summands))

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        noises = noise if isinstance(noise, tuple) else (None,) * len(self.terms)
        scores = [
            term(potentials, marginals, context, own) for term, own in zip(self.terms, noises, strict=True)
        ]
        return torch.stack(scores).sum(0)

    def draw_noise(self, potentials: Parts, context: Context) -> Noise:
        return tuple(term.draw_noise(potentials, context) for term in self.terms)

    def groups(self, context: Context) -> Int[Tensor, " B"] | None:
        coupled = [groups for term in self.terms if (groups := term.groups(context)) is not None]
        if any(not torch.equal(groups, coupled[0]) for groups in coupled):
            raise ValueError("terms of one sum must couple the same examples")
        return coupled[0] if coupled else None


def select_noise(noise: Noise, rows: Int[Tensor, " K"]) -> Noise:
    """Return the noise of some examples of a batch."""
    if isinstance(noise, tuple):
        return tuple(select_noise(part, rows) for part in noise)
    return None if noise is None else noise[rows]


def summands(term: GlobalTerm) -> list[GlobalTerm]:
    """Return the terms of a sum, or the term itself."""
    return term.terms if isinstance(term, TermSum) else [term]
