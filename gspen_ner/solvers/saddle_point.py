"""NLStruct's own inference: a saddle point in marginals, slack and multipliers, by primal-dual steps.

    min_lambda max_{y, p in M}  T'(y) + <lambda, f * p - y> + <cost, p> + temperature * H(p)

    lambda <- lambda - sigma (f * (2p - p_before) - (2y - y_before))        (extrapolated constraint)
    y      <- y + eta (grad T'(y) - lambda)
    p      <- argmax <lambda * f + cost, p> + temperature * H(p) - KL(p, p_before) / eta

The steps are those of Chambolle and Pock. The result is the average of p over the last iterations, as in
NLStruct's paper. T' need not be concave, so convergence is not guaranteed. The gap is the distance from the
constraint y = f * p and from the optimality of the slack, grad T'(y) = lambda.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor

from gspen_ner.components import Positive
from gspen_ner.objective import Objective
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.polytope import Messages
from gspen_ner.solvers.solve import SOLVERS
from gspen_ner.solvers.state import SolverState
from gspen_ner.terms.nlstruct import NLStruct


@dataclass(frozen=True)
class SaddleState(SolverState):
    """An iterate of marginals, slack and multipliers; `marginals` is the average of the iterates so far."""

    iterate: Parts
    theta: Parts
    """The scores of which the iterate is the marginals."""
    slack: Parts
    multipliers: Parts
    violation: Parts
    """f * p - y, extrapolated."""
    step_size: Float[Tensor, " B"]


@SOLVERS.register("saddle_point")
@dataclass(frozen=True)
class SaddlePoint:
    """Primal-dual steps for an objective with the term `NLStruct`.

    Args:
        average_after: number of steps before averaging starts; choose about half of `max_steps`.
        step_size: size of all three updates, relative to the largest size for which the steps are stable.

    Example:
        >>> from gspen_ner import Context, Simplex, solve
        >>> from gspen_ner.terms import NLStruct
        >>> mask = torch.ones(1, 1, dtype=torch.bool)
        >>> potentials = Parts(torch.tensor([[[1.0, -1.0]]]))
        >>> term = NLStruct(num_labels=2, num_nodes=1)
        >>> objective = Objective(potentials, Simplex(mask), term, Context(mask))
        >>> solve(objective, SaddlePoint(), max_steps=100).marginals.nodes.argmax(-1)
        tensor([[0]])
    """

    average_after: Annotated[int, Ge(0)] = 50
    step_size: Positive = 0.9

    @property
    def monotone(self) -> bool:
        return True

    def prepare(self, objective: Objective) -> Objective:
        if not isinstance(objective.term, NLStruct):
            raise ValueError(
                f"SaddlePoint needs the term NLStruct, got {type(objective.term).__name__}; "
                "use MirrorDescent or FrankWolfe for other terms"
            )
        return replace(objective, potentials=objective.polytope.expand(objective.potentials))

    def init(self, objective: Objective) -> SaddleState:
        term, f = _term(objective), objective.potentials
        theta = objective.linear * (1 / (objective.temperature or 1.0))
        messages = Messages()
        marginals = objective.polytope.marginals(theta, messages)
        slack = term.collect(f, marginals)
        value, multipliers = term.transform_and_grad(slack)
        scores = term.collect(f, marginals.map(torch.ones_like))
        largest = term.flatten(scores).abs().amax(1).to(wide_dtype(f.nodes.device))
        return SaddleState(
            marginals=marginals,
            value=value + _cost(objective, marginals),
            gap=torch.full_like(largest, torch.inf),
            moved=torch.ones_like(largest, dtype=torch.bool),
            messages=messages,
            iterate=marginals,
            theta=theta,
            slack=slack,
            multipliers=multipliers,
            violation=slack * 0.0,
            step_size=self.step_size / (1 + largest**2).sqrt(),
        )

    def step(self, objective: Objective, state: SaddleState, number: int) -> SaddleState:
        term, f, eta = _term(objective), objective.potentials, state.step_size
        multipliers = state.multipliers - state.violation * eta
        value, slopes = term.transform_and_grad(state.slack)
        pull = slopes - multipliers
        slack = state.slack + pull * eta
        scores = term.collect(f, multipliers)
        scores = scores if objective.cost is None else scores + objective.cost
        theta = (state.theta + scores * eta) * (1 / (1 + eta * objective.temperature))
        iterate = objective.polytope.marginals(theta, state.messages)
        before, after = (term.collect(f, p) for p in (state.iterate, iterate))
        violation = after - slack
        gap = (violation.inner(violation) + pull.inner(pull)).sqrt()
        averaged = number - self.average_after
        mean = iterate
        if averaged > 1:
            mean = state.marginals * (1 - 1 / averaged) + iterate * (1 / averaged)
        return replace(
            state,
            marginals=mean,
            value=value + multipliers.inner(violation) + _cost(objective, iterate),
            gap=gap,
            iterate=iterate,
            theta=theta,
            slack=slack,
            multipliers=multipliers,
            violation=violation + (after - before) - (slack - state.slack),
        )

    def finish(self, objective: Objective, state: SaddleState) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        """Return theta (the linearised scores at the average), the average p and F(p)."""
        value, grad = objective.term_value_and_grad(state.marginals)
        value = value + objective.linear.dot(state.marginals)
        tau = objective.temperature
        if tau > 0:
            value = value + tau * objective.polytope.entropy(state.marginals)
        return (objective.linear + grad) * (1 / (tau or 1.0)), state.marginals, value


def _term(objective: Objective) -> NLStruct:
    assert isinstance(objective.term, NLStruct)
    return objective.term


def _cost(objective: Objective, marginals: Parts) -> Float[Tensor, " B"]:
    """Return <cost, p>."""
    if objective.cost is None:
        device = marginals.nodes.device
        return torch.zeros(len(marginals.nodes), dtype=wide_dtype(device), device=device)
    return objective.cost.dot(marginals)
