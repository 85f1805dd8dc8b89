"""Entropic mirror descent in the dual: every step is one forward-backward.

With theta = scale * (f + cost) + dual and p = marginals(theta), the exact proximal step of size eta is

    theta <- (1 - e tau) theta + e (f + cost + grad T(p)),      e = eta / (1 + eta tau)

where tau is the temperature. This is the paper's algorithm 2 without logarithms of p. For tau > 0, the scale
stays 1 / tau and only `dual`, the contribution of the term, changes: scores of -inf stay in f, a shared
transition table stays shared, and a zero term gives the base model's marginals without a step. With tau = 0,
the scale grows and p approaches the best labelling.

The gap is tau KL(p || marginals((f + cost + grad T(p)) / tau)), which is zero exactly at stationary points
and bounds the suboptimality if T is concave; with tau = 0 it is the Frank-Wolfe gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.components import Positive
from gspen_ner.objective import Objective
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.polytope import Messages
from gspen_ner.solvers.solve import SOLVERS
from gspen_ner.solvers.state import SolverState

MAX_STEP_SIZE = 1e4


@dataclass(frozen=True)
class MirrorState(SolverState):
    """An iterate in dual form, with the direction and size of its next step."""

    dual: Parts
    scale: float | Float[Tensor, " B"]
    direction: Parts
    """grad T(p) - tau * dual; the next dual is dual + e * direction."""
    log_partition: Float[Tensor, " B"]
    step_size: Float[Tensor, " B"]
    """eta of the next step."""


@SOLVERS.register("mirror_descent")
@dataclass(frozen=True)
class MirrorDescent:
    """Mirror descent with the entropy of the polytope as distance.

    Args:
        step_size: eta, the size of the first step.
        schedule: sizes of the following steps. `backtracking`: halve the size when F increases by less than
            KL(p', p) / (2 eta), multiply it by 1.5 after an increase, so that F never decreases.
            `sqrt`: eta / sqrt(t) in step t, the paper's schedule.

    Example:
        >>> from gspen_ner import Context, Simplex, solve
        >>> from gspen_ner.terms import Sharpness
        >>> mask = torch.ones(1, 1, dtype=torch.bool)
        >>> term = Sharpness(num_labels=2)
        >>> _ = torch.nn.init.ones_(term.weight)
        >>> objective = Objective(Parts(torch.tensor([[[1.0, 0.0]]])), Simplex(mask), term, Context(mask))
        >>> solution = solve(objective, MirrorDescent(), max_steps=200, tolerance=1e-6)
        >>> round(float(solution.marginals.nodes[0, 0, 0]), 2)  # 0.73 without the term
        0.84
    """

    step_size: Positive = 1.0
    schedule: Literal["backtracking", "sqrt"] = "backtracking"

    @property
    def monotone(self) -> bool:
        return self.schedule == "backtracking"

    def prepare(self, objective: Objective) -> Objective:
        return objective

    def init(self, objective: Objective) -> MirrorState:
        nodes = objective.potentials.nodes
        tau = objective.temperature
        wide = wide_dtype(nodes.device)
        step_size = torch.full((len(nodes),), self.step_size, dtype=wide, device=nodes.device)
        scale = 1 / tau if tau > 0 else torch.ones_like(step_size)
        state = self._evaluate(objective, scale, Parts(torch.zeros_like(nodes)), step_size, Messages())
        return replace(state, dual=state.direction * 0.0)

    def step(self, objective: Objective, state: MirrorState, number: int) -> MirrorState:
        tau = objective.temperature
        eta = state.step_size if self.monotone else state.step_size / number**0.5
        e = eta / (1 + eta * tau)
        scale = state.scale if tau > 0 else state.scale + e
        dual = state.dual + state.direction * e
        candidate = self._evaluate(objective, scale, dual, state.step_size, state.messages)
        if not self.monotone:
            return candidate
        rise = objective.pool(candidate.value - state.value)
        distance = objective.pool(self._divergence(objective, candidate, state, e))
        rounding = torch.finfo(state.dual.nodes.dtype).eps * (1 + objective.pool(state.value).abs())
        accepted = (rise >= 0) & (rise >= distance / (2 * eta) - rounding)
        longer = torch.where(rise > 0, (eta * 1.5).clamp_max(MAX_STEP_SIZE), eta)
        candidate = replace(candidate, step_size=longer)
        if accepted.all():
            return candidate
        return replace(candidate.where(accepted, replace(state, step_size=eta / 2)), moved=accepted)

    def finish(self, objective: Objective, state: MirrorState) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        theta = objective.linear * state.scale + state.dual
        complete = state.marginals.edges is not None
        return theta, state.marginals if complete else objective.polytope.marginals(theta), state.value

    def _evaluate(
        self,
        objective: Objective,
        scale: float | Tensor,
        dual: Parts,
        step_size: Tensor,
        messages: Messages,
    ) -> MirrorState:
        """Return the state at marginals(theta).

        F is computed with H = log Z - <theta, p> inserted, so that no large numbers cancel.
        """
        tau = objective.temperature
        theta = objective.linear * scale + dual
        log_z, marginals = objective.polytope.sums(theta, objective.reads_edges or tau == 0, messages)
        term, term_grad = objective.term_value_and_grad(marginals)
        value = term + (tau * (log_z - dual.inner(marginals)) if tau > 0 else objective.linear.dot(marginals))
        state = MirrorState(
            marginals=marginals,
            value=value,
            gap=torch.full_like(log_z, torch.inf),
            moved=torch.ones_like(log_z, dtype=torch.bool),
            messages=messages,
            dual=dual,
            scale=scale,
            direction=term_grad - dual * tau,
            log_partition=log_z,
            step_size=step_size,
        )
        return replace(state, gap=self._gap(objective, state))

    def _divergence(
        self, objective: Objective, new: MirrorState, old: MirrorState, e: Tensor
    ) -> Float[Tensor, " B"]:
        """Return KL(p_new || p_old) after a step of theta by e * direction (plus e * linear if tau = 0)."""
        shift = old.direction.inner(new.marginals)
        if objective.temperature == 0:
            shift = shift + objective.linear.dot(new.marginals)
        return (old.log_partition - new.log_partition + e * shift).clamp_min(0.0)

    def _gap(self, objective: Objective, state: MirrorState) -> Float[Tensor, " B"]:
        tau, polytope = objective.temperature, objective.polytope
        if tau == 0:
            ahead = objective.linear + state.direction
            gap = ahead.dot(polytope.maximiser(ahead)) - ahead.dot(state.marginals)
        else:
            ahead = objective.linear * (1 / tau) + state.dual + state.direction * (1 / tau)
            shift = state.direction.inner(state.marginals)
            gap = tau * (polytope.log_partition(ahead, state.messages) - state.log_partition) - shift
        return objective.pool(gap).clamp_min(0.0)
