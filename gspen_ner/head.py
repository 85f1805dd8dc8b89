"""GSPENHead: a global term (or none) and a solver for the potentials of any scorer.

potentials -> Objective -> solve -> Solution -> loss or labels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from annotated_types import Ge
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gspen_ner.components import NonNegative, configurable, options_of
from gspen_ner.decode import label_lists
from gspen_ner.losses import (
    fixed_point_f1,
    fixed_point_likelihood,
    linear_hinge,
    negative_log_likelihood,
    positive_part,
    structured_hinge,
)
from gspen_ner.objective import Objective, hamming_cost
from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.solvers import SOLVERS, MirrorDescent, Solution, Solver, solve
from gspen_ner.solvers.solve import MAX_STEPS, STOP, TOLERANCE, Stop
from gspen_ner.terms import TERMS, Context, GlobalTerm, TermSum
from gspen_ner.terms.term import summands

LOSSES = {"hinge": structured_hinge, "fixed_point": fixed_point_likelihood, "f1": fixed_point_f1}
Loss: Any = Literal[tuple(LOSSES)]


class HeadLoss(NamedTuple):
    """The losses of a batch, and the result of inference.

    Example:
        >>> from gspen_ner import Chain
        >>> from gspen_ner.terms import Sharpness
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> result = GSPENHead(Sharpness(3), cost=0.0).loss(Parts(torch.zeros(1, 2, 3)), chain, gold)
        >>> result.loss.detach(), result.negative, result.solution.steps  # a new term: the CRF's likelihood
        (tensor([2.1972], dtype=torch.float64), tensor([False]), tensor([0]))
    """

    loss: Float[Tensor, " B"]
    negative: Bool[Tensor, " B"]
    """Whether inference ended below the value of the gold labels; `positive_part` sets the loss to zero."""
    solution: Solution | None
    """None without a term."""


@configurable(given=["term"])
class GSPENHead(nn.Module):
    """A global term on top of the potentials of a base model.

    Without a term, it is the base model's own loss and decoder: the likelihood of a CRF (with `cost=0`), or a
    structured hinge.

    Args:
        term: the global term, or None.
        solver: the algorithm of inference.
        temperature: weight of the entropy; 1 for marginals, 0 for the best labelling.
        cost: weight of the Hamming cost in training; 0 trains without a margin.
        loss: the structured hinge (the paper's), or the likelihood or F1 at the fixed point.
        positive_part: whether negative losses are cut off, as in the paper.
        max_steps: largest number of steps of inference.
        tolerance: residual below which inference ends.
        stop: the residual: the solver's gap, or the change of the objective.

    Example:
        >>> import torch
        >>> from gspen_ner import Chain, GSPENHead, PaddedMLP
        >>> head = GSPENHead(PaddedMLP(num_labels=3, max_length=10))
        >>> chain = Chain(torch.tensor([4, 2]))
        >>> potentials = chain.potentials(torch.randn(2, 4, 3), torch.randn(3, 3))
        >>> loss = head.loss(potentials, chain, torch.zeros(2, 4, dtype=torch.long)).loss.mean()
        >>> labels = head.decode(potentials, chain)
        >>> [len(row) for row in labels]
        [4, 2]
    """

    def __init__(
        self,
        term: GlobalTerm | None = None,
        solver: Annotated[Solver, SOLVERS] = MirrorDescent(),  # noqa: B008, it is frozen
        *,
        temperature: NonNegative = 1.0,
        cost: NonNegative = 1.0,
        loss: Loss = "hinge",
        positive_part: bool = True,
        max_steps: Annotated[int, Ge(0)] = MAX_STEPS,
        tolerance: NonNegative = TOLERANCE,
        stop: Stop = STOP,
    ) -> None:
        super().__init__()
        self.term, self.solver = term, solver
        self.temperature, self.cost = temperature, cost
        self.loss_function, self.positive_part = LOSSES[loss], positive_part
        self.max_steps, self.tolerance, self.stop = max_steps, tolerance, stop

    @property
    def couples_documents(self) -> bool:
        """Whether the term scores documents as a whole, so that their sentences must share a batch."""
        sentence = Context(torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
        return self.term is not None and self.term.groups(sentence) is not None

    def configuration(self) -> dict[str, Any]:
        """Return the terms and options from which `make_head` makes an equal head."""
        terms = [] if self.term is None else summands(self.term)
        return {"terms": [TERMS.entry_of(term) for term in terms], "inference": options_of(self)}

    def infer(
        self,
        potentials: Parts,
        polytope: Polytope,
        context: Context | None = None,
        record_trace: bool = False,
    ) -> Solution:
        """Return marginals, and scores to decode, of base model and term together."""
        return self._solve(self._objective(potentials, polytope, context), record_trace)

    def loss(
        self,
        potentials: Parts,
        polytope: Polytope,
        labels: Int[Tensor, "B N"],
        context: Context | None = None,
    ) -> HeadLoss:
        """Return the training loss of each example; dropout is on in training mode."""
        if self.term is None:
            if self.temperature == 1 and self.cost == 0:
                loss = negative_log_likelihood(potentials, polytope, labels)
            else:
                loss = linear_hinge(potentials, polytope, labels, self.temperature, self.cost)
            return HeadLoss(loss, torch.zeros_like(loss, dtype=torch.bool), None)
        objective = self._objective(potentials, polytope, context, labels)
        if torch.is_inference_mode_enabled():  # autograd, which inference needs, cannot use its tensors
            with torch.inference_mode(False):
                objective = objective.detach()
        solution = self._solve(objective)
        loss = self.loss_function(objective, solution, labels)
        negative = objective.pool(loss.detach()) < 0
        return HeadLoss(positive_part(objective, loss) if self.positive_part else loss, negative, solution)

    def decode(
        self, potentials: Parts, polytope: Polytope, context: Context | None = None
    ) -> list[list[int]]:
        """Return the predicted labels of each example."""
        theta = potentials if self.term is None else self.infer(potentials, polytope, context).theta
        return label_lists(polytope.argmax(theta))

    def _objective(
        self,
        potentials: Parts,
        polytope: Polytope,
        context: Context | None,
        labels: Int[Tensor, "B N"] | None = None,
    ) -> Objective:
        if context is None:
            context = Context(polytope.mask(potentials.nodes.shape[1]).expand(len(potentials.nodes), -1))
        potentials = potentials.map(at_least_single)
        if self.term is not None and self.term.edge_inputs == "positions":
            potentials = polytope.expand(potentials)
        cost = None
        if labels is not None and self.cost > 0:
            cost = hamming_cost(polytope.vertex(labels, potentials), self.cost)
        noise = None
        if self.term is not None and self.training and labels is not None:
            noise = self.term.draw_noise(potentials, context)
        return Objective(potentials, polytope, self.term, context, self.temperature, cost, noise)

    def _solve(self, objective: Objective, record_trace: bool = False) -> Solution:
        return solve(
            objective,
            self.solver,
            max_steps=self.max_steps,
            tolerance=self.tolerance,
            stop=self.stop,
            record_trace=record_trace,
        )


def make_head(terms: Sequence[Mapping[str, Any]], inference: Mapping[str, Any], **given: Any) -> GSPENHead:
    """Return the head that entries of a recipe or model file describe.

    Args:
        terms: an entry for each term; they are summed. Without entries, the head has no term.
        inference: options of `GSPENHead`, of which `solver` is an entry.
        given: what terms may need: of a tagger what `given_labels` returns, of graphs of a fixed size
            `num_labels`, `num_nodes` and `num_edges`.

    Example:
        >>> make_head([{"name": "convolution"}], {"max_steps": 5}, num_labels=3).max_steps
        5
    """
    members = [TERMS.make(entry, **given) for entry in terms]
    options = dict(inference)
    if isinstance(options.get("solver"), Mapping):
        options["solver"] = SOLVERS.make(options["solver"])
    term = TermSum(*members) if len(members) > 1 else next(iter(members), None)
    return GSPENHead(term, **options)


def given_labels(names: Sequence[str]) -> dict[str, Any]:
    """Return what `make_head` can give the terms of a tagger, by the names of its labels."""
    return {"labels": names, "num_labels": len(names)}


def at_least_single(tensor: Tensor) -> Tensor:
    """Return half-precision numbers as float32, others as they are."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
