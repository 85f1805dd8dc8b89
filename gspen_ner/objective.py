"""The function that inference maximises over a polytope, at one batch.

    F(p) = <f + cost, p> + T(f, p) + temperature * H(p)          (the paper's equations 5 and 6)

It ties scores, term, noise and context of a batch together, so that a solver sees a value and a
gradient, and can drop examples that are done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Messages, Polytope
from gspen_ner.terms.term import Context, GlobalTerm, Noise, select_noise


@dataclass(frozen=True)
class Objective:
    """F at one batch.

    Args:
        potentials: f, the base model's scores.
        polytope: where the marginals live.
        term: T, or None for the base model alone.
        context: what the term may know of the batch.
        temperature: weight of the entropy; 1 gives the CRF's marginals, 0 its best labelling.
        cost: added to the scores in loss-augmented inference; the term never sees it.
        noise: the term's dropout masks; None in evaluation.

    Example:
        >>> from gspen_ner import Chain
        >>> chain = Chain(torch.tensor([2]))
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> gold = chain.vertex(torch.tensor([[0, 1]]), potentials)
        >>> context = Context.of_lengths(chain.lengths, 2)
        >>> objective = Objective(potentials, chain, None, context, cost=hamming_cost(gold))
        >>> objective.linear.nodes
        tensor([[[0., 1., 1.],
                 [1., 0., 1.]]])
    """

    potentials: Parts
    polytope: Polytope
    term: GlobalTerm | None
    context: Context
    temperature: float = 1.0
    cost: Parts | None = None
    noise: Noise = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")

    @cached_property
    def linear(self) -> Parts:
        """The scores that F is linear in: f + cost."""
        return self.potentials if self.cost is None else self.potentials + self.cost

    @property
    def reads_edges(self) -> bool:
        """Whether the term looks at edge marginals."""
        return self.term is not None and self.term.edge_inputs != "none"

    def term_value(self, marginals: Parts) -> Float[Tensor, " B"]:
        """T(f, p), differentiable in everything."""
        if self.term is None:
            return marginals.nodes.new_zeros(len(marginals.nodes))
        with torch.autocast(marginals.nodes.device.type, enabled=False):  # too coarse to converge in
            return self.term(self.potentials, marginals, self.context, self.noise)

    def term_value_and_grad(
        self, marginals: Parts, create_graph: bool = False
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """T and its gradient in p; edges None where the term does not read them.

        With `create_graph` the gradient stays differentiable in the term's parameters.
        """
        if self.term is None:
            return self.term_value(marginals), Parts(torch.zeros_like(marginals.nodes))
        with torch.autocast(marginals.nodes.device.type, enabled=False):
            arguments = self.potentials, marginals, self.context, self.noise
            if create_graph:
                return self.term.differentiate(*arguments, create_graph)
            return self.term.value_and_grad(*arguments)

    def pool(self, values: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Sum over each group of coupled examples, given back to each of its members."""
        group = self._group
        return values if group is None else torch.zeros_like(values).index_add(0, group, values)[group]

    @cached_property
    def _group(self) -> Int[Tensor, " B"] | None:
        """Which examples the term couples, numbered from zero; None if it couples none."""
        groups = None if self.term is None else self.term.groups(self.context)
        return None if groups is None else torch.unique(groups, return_inverse=True)[1]

    def warmed(self, messages: Messages) -> Objective:
        """Return the same objective, whose polytope starts each inference from these messages."""
        return replace(self, polytope=self.polytope.warmed(messages))

    def select(self, rows: Int[Tensor, " K"]) -> Objective:
        """The objective of some examples (whole groups)."""
        return replace(
            self,
            potentials=self.potentials.select(rows),
            polytope=self.polytope.select(rows),
            context=self.context.select(rows),
            cost=None if self.cost is None else self.cost.select(rows),
            noise=select_noise(self.noise, rows),
        )

    def detach(self) -> Objective:
        """The same objective for inference: no gradients to the base model, safe in inference_mode."""
        return replace(
            self,
            potentials=self.potentials.detach(),
            context=self.context.detach(),
            cost=None if self.cost is None else self.cost.detach(),
        )


def hamming_cost(gold: Parts, weight: float = 1.0) -> Parts:
    """`weight` for every wrong label: the paper's L(y, y'), as scores of nodes.

    Example:
        >>> hamming_cost(Parts(torch.tensor([[[1.0, 0.0, 0.0]]])), weight=2.0).nodes
        tensor([[[0., 2., 2.]]])
    """
    present = gold.nodes.sum(-1, keepdim=True)
    return Parts(weight * (present - gold.nodes))
