"""Frank-Wolfe: walk towards the vertex that the linearised objective likes best.

    s = argmax_{s in M} <grad F(p), s>,      p <- p + gamma (s - p)           (the paper's algorithm 1)

Without entropy s is a best labelling (Viterbi on a chain). The entropy's gradient is infinite at
vertices, so with a temperature tau > 0 the default is the generalised step that keeps the entropy out of
the linearisation, s = marginals((f + cost + grad T(p)) / tau), an interior point; `oracle="vertex"` is the
paper's, with the logarithm of zero cut off at the smallest float32.

The gap is Frank and Wolfe's: F(p) plus it bounds the maximum where F is concave. With entropy a
chain needs edge marginals per position, so memory then grows with B * T * L * L.
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
    """An iterate, the term's gradient there, the point it looks towards, and how curved the way is."""

    term_grad: Parts
    target: Parts
    curvature: Float[Tensor, " B"]


@SOLVERS.register("frank_wolfe")
@dataclass(frozen=True)
class FrankWolfe:
    """Frank-Wolfe (conditional gradient) steps.

    Args:
        schedule: `"line_search"` (the step that maximises a quadratic model of F whose curvature is
            doubled until F rises as the model says; F never falls), or `"harmonic"` (1 / t, the paper's;
            its first step forgets the start).
        oracle: what to walk towards where the temperature is positive: the `"smooth"` maximiser with
            entropy, or a `"vertex"`.
        start: where to start without temperature: at the base model's `"marginals"`, or at its
            `"maximiser"`, which is where a term that is zero ends, and costs no sums.

    Example:
        >>> from gspen_ner import Context, Sharpness, Simplex, solve
        >>> here = torch.ones(1, 1, dtype=torch.bool)
        >>> term = Sharpness(num_labels=2)
        >>> _ = torch.nn.init.ones_(term.weight)
        >>> objective = Objective(Parts(torch.tensor([[[1.0, 0.0]]])), Simplex(here), term, Context(here))
        >>> solution = solve(objective, FrankWolfe(), max_steps=200, tolerance=1e-6)
        >>> round(float(solution.marginals.nodes[0, 0, 0]), 2)  # softmax alone says 0.73
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
        objective = objective.warmed(messages)
        if objective.temperature == 0 and self.start == "maximiser":
            start = objective.polytope.maximiser(objective.linear)
        else:
            start = objective.polytope.marginals(objective.linear * (1 / (objective.temperature or 1.0)))
        state = self._evaluate(objective, start, messages)
        return replace(state, curvature=state.gap.clamp_min(torch.finfo(torch.float32).tiny))

    def step(self, objective: Objective, state: FrankWolfeState, number: int) -> FrankWolfeState:
        objective = objective.warmed(state.messages)
        if self.schedule == "harmonic":
            gamma = torch.full_like(state.value, 1 / number)
            return self._evaluate(objective, self._towards(state, gamma), state.messages)
        gamma = (state.gap / state.curvature).clamp_max(1.0)
        tried = self._evaluate(objective, self._towards(state, gamma), state.messages)
        rise = objective.pool(tried.value - state.value)
        model = gamma * state.gap - 0.5 * gamma**2 * state.curvature
        rounding = torch.finfo(state.marginals.nodes.dtype).eps * (1 + objective.pool(state.value).abs())
        accepted = (rise >= 0) & (rise >= model - rounding)
        tried = replace(tried, curvature=state.curvature * 0.7)
        state = tried.where(accepted, replace(state, curvature=state.curvature * 2))
        return replace(state, moved=accepted)

    def finish(
        self, objective: Objective, state: FrankWolfeState
    ) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        """Theta: the linearised scores at the iterate, over the temperature if there is one."""
        theta = (objective.linear + state.term_grad) * (1 / (objective.temperature or 1.0))
        return theta, state.marginals, state.value

    def _towards(self, state: FrankWolfeState, gamma: Tensor) -> Parts:
        return state.marginals * (1 - gamma) + state.target * gamma

    def _evaluate(self, objective: Objective, marginals: Parts, messages: Messages) -> FrankWolfeState:
        polytope, tau = objective.polytope, objective.temperature
        term, term_grad = objective.term_value_and_grad(marginals)
        slope = objective.linear + term_grad
        value = objective.linear.dot(marginals) + term
        if tau > 0:
            entropy, entropy_grad = _entropy_and_grad(objective, marginals)
            value = value + tau * entropy
        if tau > 0 and self.oracle == "smooth":
            target = polytope.marginals(slope * (1 / tau))
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


def _entropy_and_grad(objective: Objective, marginals: Parts) -> tuple[Float[Tensor, " B"], Parts]:
    entropy, gradient = value_and_gradient(objective.polytope.entropy, marginals)
    return entropy.detach(), gradient
