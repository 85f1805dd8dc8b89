"""The function of a batch's marginals that inference maximises over a polytope.

    F(p) = <f + cost, p> + T(f, p) + temperature * H(p)          (the paper's equations 5 and 6)

It holds the scores, term, noise and context of a batch. Solvers ask it for values and gradients, and for the
same function restricted to the examples that have not converged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.terms.term import Context, GlobalTerm, Noise, select_noise


@dataclass(frozen=True)
class Objective:
    """The function F of a batch.

    Args:
        potentials: f, the base model's scores.
        polytope: set of feasible marginals.
        term: T, or None for the base model alone.
        context: mask, documents and mentions of the batch, as input of the term.
        temperature: weight of the entropy; 1 gives the CRF's marginals, 0 its best labelling.
        cost: scores added in loss-augmented inference, which the term does not see; None adds none.
        noise: dropout masks of the term; None in evaluation.

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
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")

    @cached_property
    def linear(self) -> Parts:
        """The linear scores of F: f + cost."""
        return self.potentials if self.cost is None else self.potentials + self.cost

    @property
    def reads_edges(self) -> bool:
        """Whether the term reads edge marginals."""
        return self.term is not None and self.term.edge_inputs != "none"

    def term_value(self, marginals: Parts) -> Float[Tensor, " B"]:
        """Return T(f, p), differentiable in f, p and the term's parameters."""
        if self.term is None:
            return marginals.nodes.new_zeros(len(marginals.nodes))
        # Without autocast: in half precision, inference would not converge.
        with torch.autocast(marginals.nodes.device.type, enabled=False):
            return self.term(self.potentials, marginals, self.context, self.noise)

    def term_value_and_grad(
        self, marginals: Parts, create_graph: bool = False
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return T and its gradient in p; its edges are None if the term does not read edge marginals.

        Args:
            marginals: p.
            create_graph: whether the gradient stays differentiable in the term's parameters.
        """
        if self.term is None:
            return self.term_value(marginals), Parts(torch.zeros_like(marginals.nodes))
        with torch.autocast(marginals.nodes.device.type, enabled=False):
            arguments = self.potentials, marginals, self.context, self.noise
            if create_graph:
                return self.term.differentiate(*arguments, create_graph)
            return self.term.value_and_grad(*arguments)

    def pool(self, values: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Return, for each example, the sum of the values over its group of coupled examples."""
        group = self._group
        return values if group is None else torch.zeros_like(values).index_add(0, group, values)[group]

    @cached_property
    def _group(self) -> Int[Tensor, " B"] | None:
        """The group number of each example, from 0; None if the term couples no examples."""
        groups = None if self.term is None else self.term.groups(self.context)
        return None if groups is None else torch.unique(groups, return_inverse=True)[1]

    def select(self, rows: Int[Tensor, " K"]) -> Objective:
        """Return the objective of some examples; they must be whole groups."""
        return replace(
            self,
            potentials=self.potentials.select(rows),
            polytope=self.polytope.select(rows),
            context=self.context.select(rows),
            cost=None if self.cost is None else self.cost.select(rows),
            noise=select_noise(self.noise, rows),
        )

    def detach(self) -> Objective:
        """Return the same objective without gradients to the base model, also usable in inference_mode."""
        return replace(
            self,
            potentials=self.potentials.detach(),
            context=self.context.detach(),
            cost=None if self.cost is None else self.cost.detach(),
        )


def hamming_cost(gold: Parts, weight: float = 1.0) -> Parts:
    """Return the Hamming cost, `weight` for every wrong label, as node scores: the paper's L(y, y').

    Example:
        >>> hamming_cost(Parts(torch.tensor([[[1.0, 0.0, 0.0]]])), weight=2.0).nodes
        tensor([[[0., 2., 2.]]])
    """
    present = gold.nodes.sum(-1, keepdim=True)
    return Parts(weight * (present - gold.nodes))
