"""The paper's five systems on a graph of a fixed size. Wiring only.

    Unary      a scorer of single variables          argmax of each
    Struct     + tables of pairs                     <f, p> + tau H(p) over the graph
    SPEN       Unary + a global term                 <f, p> + T(f, p) + tau H(p), no edges
    NLStruct   Struct + a nonlinear function         T'(f * p) over the graph
    GSPEN      Struct + a global term                <f, p> + T(f, p) + tau H(p) over the graph

All but Unary stand on scores of variables that stay as they are, so these are their input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.head import GSPENHead
from gspen_ner.losses import linear_hinge
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Polytope
from gspen_ner.scorers.pair_tables import PairTables


class SystemLoss(NamedTuple):
    """The mean loss of a batch, and what its inference did (zeros where there was none)."""

    loss: Tensor
    steps: float = 0.0
    negative: float = 0.0


class UnarySystem(nn.Module):
    """A scorer of single variables, trained by cross-entropy.

    Args:
        scorer: from inputs to scores of nodes `[B, N, L]`.
    """

    def __init__(self, scorer: nn.Module) -> None:
        super().__init__()
        self.scorer = scorer

    def forward(self, inputs: Tensor, labels: Int[Tensor, "B N"]) -> SystemLoss:
        """The loss of a batch."""
        return SystemLoss(nn.functional.cross_entropy(self.scorer(inputs).flatten(0, 1), labels.flatten()))

    def scores(self, inputs: Tensor) -> Float[Tensor, "B N L"]:
        """Scores of all labels."""
        return self.scorer(inputs)

    def predict(self, inputs: Tensor) -> Int[Tensor, "B N"]:
        """The best label of each variable."""
        return self.scores(inputs).argmax(-1)


class GraphSystem(nn.Module):
    """Struct, SPEN, NLStruct or GSPEN over given scores of nodes.

    Args:
        polytope: that of a batch of so many examples: simplices for a SPEN, else the graph's.
        pairs: tables of the edges, if there are any.
        head: the global term and its inference; None for Struct.
        temperature: weight of the entropy in Struct's training.
        cost: weight of the Hamming cost in Struct's training.

    Example:
        >>> import torch
        >>> from gspen_ner import Chain
        >>> struct = GraphSystem(lambda batch: Chain(torch.full((batch,), 5)), PairTables(4, 26))
        >>> struct.predict(torch.zeros(2, 5, 26)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        polytope: Callable[[int], Polytope],
        pairs: PairTables | None = None,
        head: GSPENHead | None = None,
        *,
        temperature: float = 1.0,
        cost: float = 1.0,
    ) -> None:
        super().__init__()
        self.polytope, self.pairs, self.head = polytope, pairs, head
        self.temperature, self.cost = temperature, cost

    def potentials(self, nodes: Float[Tensor, "B N L"]) -> Parts:
        """Scores of nodes and edges."""
        return Parts(nodes, None if self.pairs is None else self.pairs())

    def forward(self, inputs: Float[Tensor, "B N L"], labels: Int[Tensor, "B N"]) -> SystemLoss:
        """The structured hinge loss of a batch."""
        potentials, polytope = self.potentials(inputs), self.polytope(len(inputs))
        if self.head is None:
            return SystemLoss(linear_hinge(potentials, polytope, labels, self.temperature, self.cost).mean())
        found = self.head.loss(potentials, polytope, labels)
        steps = float(found.solution.steps.float().mean())
        return SystemLoss(found.loss.mean(), steps, float(found.negative.float().mean()))

    def predict(self, inputs: Float[Tensor, "B N L"]) -> Int[Tensor, "B N"]:
        """The best labelling of each example."""
        potentials, polytope = self.potentials(inputs), self.polytope(len(inputs))
        if self.head is not None:
            potentials = self.head.infer(potentials, polytope).theta
        return polytope.argmax(potentials)
