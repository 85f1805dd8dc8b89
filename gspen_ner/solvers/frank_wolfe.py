"""Frank-Wolfe: move towards the point that maximises the linearised objective.

    s = argmax_{s in M} <grad F(p), s>,      p <- p + gamma (s - p)           (the paper's algorithm 1)

At temperature 0, s is a best labelling (Viterbi on a chain). The entropy's gradient is infinite at vertices,
so at a temperature tau > 0 the default is a generalised step that does not linearise the entropy,
s = marginals((f + cost + grad T(p)) / tau), an interior point. `oracle="vertex"` is the paper's step, with
the logarithm of zero replaced by that of the smallest positive float32.

The gap is the Frank-Wolfe gap: where F is concave, F(p) + gap bounds the maximum. With entropy, a chain needs
edge marginals per position, which take B * T * L * L numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.objective import Objective
from gspen_ner.parts import Parts, value_and_gradient
from gspen_ner.polytopes.polytope import Messages
from gspen_ner.solvers.solve import SOLVERS
from gspen_ner.solvers.state import SolverState


@dataclass(frozen=True)
class FrankWolfeState(SolverState):
    """An iterate with the direction of its next step."""

    term_grad: Parts
    target: Parts
    """s, the maximiser of the linearised objective."""
    curvature: Float[Tensor, " B"]
    """Curvature of the quadratic model of F between p and s."""


@SOLVERS.register("frank_wolfe")
@dataclass(frozen=True)
class FrankWolfe:
    """Frank-Wolfe (conditional gradient) steps.

    Args:
        schedule: sizes of the steps. `line_search`: maximise a quadratic model of F, and double its curvature
            until F increases as predicted, so that F never decreases. `harmonic`: 1 / t in step t, the
            paper's schedule; the first step replaces the start.
        oracle: direction of a step at a positive temperature: towards the maximiser with entropy (`smooth`),
            or towards a best labelling (`vertex`, the paper's).
        start: first iterate at temperature 0: the base model's `marginals`, or its `maximiser`, which is
            the solution for a zero term and needs no marginal inference.

    Example:
        >>> from gspen_ner import Context, Simplex, solve
        >>> from gspen_ner.terms import Sharpness
        >>> mask = torch.ones(1, 1, dtype=torch.bool)
        >>> term = Sharpness(num_labels=2)
        >>> _ = torch.nn.init.ones_(term.weight)
        >>> objective = Objective(Parts(torch.tensor([[[1.0, 0.0]]])), Simplex(mask), term, Context(mask))
        >>> solution = solve(objective, FrankWolfe(), max_steps=200, tolerance=1e-6)
        >>> round(float(solution.marginals.nodes[0, 0, 0]), 2)  # 0.73 without the term
        0.84
    """

    schedule: Literal["line_search", "harmonic"] = "line_search"
    oracle: Literal["smooth", "vertex"] = "smooth"
    start: Literal["marginals", "maximiser"] = "marginals"

    @property
    def monotone(self) -> bool:
        return self.schedule == "line_search"

    def prepare(self, objective: Objective) -> Objective:
        if objective.temperature == 0:
            return objective
        return replace(objective, potentials=objective.polytope.expand(objective.potentials))

    def init(self, objective: Objective) -> FrankWolfeState:
        messages = Messages()
        if objective.temperature == 0 and self.start == "maximiser":
            start = objective.polytope.maximiser(objective.linear)
        else:
            theta = objective.linear * (1 / (objective.temperature or 1.0))
            start = objective.polytope.marginals(theta, messages)
        state = self._evaluate(objective, start, messages)
        return replace(state, curvature=state.gap.clamp_min(torch.finfo(torch.float32).tiny))

    def step(self, objective: Objective, state: FrankWolfeState, number: int) -> FrankWolfeState:
        if self.schedule == "harmonic":
            gamma = torch.full_like(state.value, 1 / number)
            return self._evaluate(objective, self._move(state, gamma), state.messages)
        gamma = (state.gap / state.curvature).clamp_max(1.0)
        candidate = self._evaluate(objective, self._move(state, gamma), state.messages)
        rise = objective.pool(candidate.value - state.value)
        model = gamma * state.gap - 0.5 * gamma**2 * state.curvature
        rounding = torch.finfo(state.marginals.nodes.dtype).eps * (1 + objective.pool(state.value).abs())
        accepted = (rise >= 0) & (rise >= model - rounding)
        candidate = replace(candidate, curvature=state.curvature * 0.7)
        state = candidate.where(accepted, replace(state, curvature=state.curvature * 2))
        return replace(state, moved=accepted)

    def finish(
        self, objective: Objective, state: FrankWolfeState
    ) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        """Return theta (the linearised scores at the iterate, divided by the temperature), p and F(p)."""
        theta = (objective.linear + state.term_grad) * (1 / (objective.temperature or 1.0))
        return theta, state.marginals, state.value

    def _move(self, state: FrankWolfeState, gamma: Tensor) -> Parts:
        return state.marginals * (1 - gamma) + state.target * gamma

    def _evaluate(self, objective: Objective, marginals: Parts, messages: Messages) -> FrankWolfeState:
        polytope, tau = objective.polytope, objective.temperature
        term, term_grad = objective.term_value_and_grad(marginals)
        slope = objective.linear + term_grad
        value = objective.linear.dot(marginals) + term
        if tau > 0:
            entropy, entropy_grad = value_and_gradient(polytope.entropy, marginals)
            value = value + tau * entropy
        if tau > 0 and self.oracle == "smooth":
            target = polytope.marginals(slope * (1 / tau), messages)
            gap = slope.dot(target - marginals) + tau * (polytope.entropy(target) - entropy)
        else:
            slope = slope + entropy_grad * tau if tau > 0 else slope
            target = polytope.maximiser(slope)
            gap = slope.dot(target - marginals)
        return FrankWolfeState(
            marginals=marginals,
            value=value,
            term_grad=term_grad,
            gap=objective.pool(gap).clamp_min(0.0),
            moved=torch.ones_like(value, dtype=torch.bool),
            messages=messages,
            target=target,
            curvature=torch.ones_like(value),
        )
