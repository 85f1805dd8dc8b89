"""The paper's five systems on a graph of a fixed size. Wiring only.

    Unary      a scorer of single variables          argmax of each
    Struct     + tables of pairs                     <f, p> + tau H(p) over the graph
    SPEN       Unary + a global term                 <f, p> + T(f, p) + tau H(p), no edges
    NLStruct   Struct + a nonlinear function         T'(f * p) over the graph
    GSPEN      Struct + a global term                <f, p> + T(f, p) + tau H(p) over the graph

What a system stands on stays as it is: parts without anything to learn are in evaluation mode, always, but
where the dropout of scores is wanted in training, so that what learns on top of them has errors to mend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.head import GSPENHead
from gspen_ner.losses import linear_hinge
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Polytope


class SystemLoss(NamedTuple):
    """The mean loss of a batch, and what its inference did (zeros where there was none)."""

    loss: Tensor
    steps: float = 0.0
    negative: float = 0.0


class UnarySystem(nn.Module):
    """A scorer of single variables, trained by cross-entropy.

    Args:
        scorer: from inputs to scores of nodes `[B, N, L]`.
        scale: factor of the loss, which is a mean over variables: their number makes it a sum.
    """

    def __init__(self, scorer: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.scorer, self.scale = scorer, scale

    def forward(self, inputs: Tensor, labels: Int[Tensor, "B N"]) -> SystemLoss:
        """The loss of a batch."""
        loss = nn.functional.cross_entropy(self.scorer(inputs).flatten(0, 1), labels.flatten())
        return SystemLoss(self.scale * loss)

    def scores(self, inputs: Tensor) -> Float[Tensor, "B N L"]:
        """Scores of all labels."""
        return self.scorer(inputs)

    def predict(self, inputs: Tensor) -> Int[Tensor, "B N"]:
        """The best label of each variable."""
        return self.scores(inputs).argmax(-1)

    def marginals(self, inputs: Tensor) -> Float[Tensor, "B N L"]:
        """The probability of every label."""
        return self.scores(inputs).softmax(-1)


class GraphSystem(nn.Module):
    """Struct, SPEN, NLStruct or GSPEN.

    Args:
        polytope: that of a batch of so many examples: simplices for a SPEN, else the graph's.
        pairs: from inputs to tables of the edges, if there are any.
        head: the global term and its inference; None for Struct.
        scorer: from inputs to scores of nodes; if not given, the inputs are these scores.
        temperature: weight of the entropy in Struct's training.
        cost: weight of the Hamming cost in Struct's training.
        draws: keep the dropout of scorer and pairs in training, even if they learn nothing.

    Example:
        >>> import torch
        >>> from gspen_ner import Chain
        >>> from gspen_ner.scorers.pair_tables import PairTables
        >>> struct = GraphSystem(lambda batch: Chain(torch.full((batch,), 5)), PairTables(4, 26))
        >>> struct.predict(torch.zeros(2, 5, 26)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        polytope: Callable[[int], Polytope],
        pairs: nn.Module | None = None,
        head: GSPENHead | None = None,
        scorer: nn.Module | None = None,
        *,
        temperature: float = 1.0,
        cost: float = 1.0,
        draws: bool = False,
    ) -> None:
        super().__init__()
        self.polytope, self.pairs, self.head, self.scorer = polytope, pairs, head, scorer
        self.temperature, self.cost, self.draws = temperature, cost, draws

    def train(self, mode: bool = True) -> GraphSystem:
        super().train(mode)
        for part in self.children():
            learns = any(weight.requires_grad for weight in part.parameters())
            if not learns and (part is self.head or not self.draws):
                part.eval()
        return self

    def potentials(self, inputs: Tensor) -> Parts:
        """Scores of nodes and edges."""
        nodes = inputs if self.scorer is None else self.scorer(inputs)
        return Parts(nodes, None if self.pairs is None else self.pairs(inputs))

    def forward(self, inputs: Tensor, labels: Int[Tensor, "B N"]) -> SystemLoss:
        """The structured hinge loss of a batch."""
        potentials, polytope = self.potentials(inputs), self.polytope(len(inputs))
        if self.head is None:
            return SystemLoss(linear_hinge(potentials, polytope, labels, self.temperature, self.cost).mean())
        found = self.head.loss(potentials, polytope, labels)
        steps = float(found.solution.steps.float().mean())
        return SystemLoss(found.loss.mean(), steps, float(found.negative.float().mean()))

    def predict(self, inputs: Tensor) -> Int[Tensor, "B N"]:
        """The best labelling of each example."""
        potentials, polytope = self.potentials(inputs), self.polytope(len(inputs))
        if self.head is not None:
            potentials = self.head.infer(potentials, polytope).theta
        return polytope.argmax(potentials)

    def marginals(self, inputs: Tensor) -> Float[Tensor, "B N L"]:
        """The probability (or belief) of every label, at the temperature that the system was trained with."""
        potentials, polytope = self.potentials(inputs), self.polytope(len(inputs))
        if self.head is not None:
            return self.head.infer(potentials, polytope).marginals.nodes
        return polytope.sums(potentials * (1 / self.temperature), with_edges=False)[1].nodes

    def steps(self, inputs: Tensor) -> Int[Tensor, " B"]:
        """Steps of inference that a prediction takes; none without a global term."""
        if self.head is None:
            return torch.zeros(len(inputs), dtype=torch.long)
        return self.head.infer(self.potentials(inputs), self.polytope(len(inputs))).steps
