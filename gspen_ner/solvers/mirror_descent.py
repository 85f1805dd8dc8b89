"""Entropic mirror descent in the dual: every step is one forward-backward.

With theta = scale * (f + cost) + dual and p = marginals(theta), the exact proximal step of size eta is

    theta <- (1 - e tau) theta + e (f + cost + grad T(p)),      e = eta / (1 + eta tau)

tau being the temperature (the paper's algorithm 2, with the logarithm of p never taken). For tau > 0 it
leaves the scale at 1 / tau, so only the term's own part, `dual`, changes: masks of -inf stay in f, a
shared transition table stays shared, and a zero term is the base model at once. With tau = 0 the scale
grows and p sharpens towards the best labelling.

The gap is tau KL(p || marginals((f + cost + grad T(p)) / tau)), zero exactly at stationary points
and a bound of the suboptimality for concave T; with tau = 0 it is the Frank-Wolfe gap.
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
    """An iterate in its dual form, where it goes from there, and the step size that is tried next."""

    dual: Parts
    scale: float | Float[Tensor, " B"]
    direction: Parts
    """grad T(p) - tau * dual: dual + e * direction is the next one."""
    log_partition: Float[Tensor, " B"]
    step_size: Float[Tensor, " B"]


@SOLVERS.register("mirror_descent")
@dataclass(frozen=True)
class MirrorDescent:
    """Mirror descent with the entropy of the polytope as its distance.

    Args:
        step_size: eta, the size of the first step.
        schedule: `"backtracking"` (halve the step when F rises by less than KL(p', p) / (2 eta), lengthen
            it by half after a success; F never falls), or `"sqrt"` (eta / sqrt(t), the paper's).

    Example:
        >>> from gspen_ner import Context, Sharpness, Simplex, solve
        >>> here = torch.ones(1, 1, dtype=torch.bool)
        >>> term = Sharpness(num_labels=2)
        >>> _ = torch.nn.init.ones_(term.weight)
        >>> objective = Objective(Parts(torch.tensor([[[1.0, 0.0]]])), Simplex(here), term, Context(here))
        >>> solution = solve(objective, MirrorDescent(), max_steps=200, tolerance=1e-6)
        >>> round(float(solution.marginals.nodes[0, 0, 0]), 2)  # softmax alone says 0.73
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
        messages = Messages()
        objective = objective.warmed(messages)
        state = self._evaluate(objective, scale, Parts(torch.zeros_like(nodes)), step_size, messages)
        state = replace(state, dual=state.direction * 0.0)
        return replace(state, gap=self._gap(objective, state))

    def step(self, objective: Objective, state: MirrorState, number: int) -> MirrorState:
        tau = objective.temperature
        eta = state.step_size if self.monotone else state.step_size / number**0.5
        e = eta / (1 + eta * tau)
        scale = state.scale if tau > 0 else state.scale + e
        dual = state.dual + state.direction * e
        objective = objective.warmed(state.messages)
        tried = self._evaluate(objective, scale, dual, state.step_size, state.messages)
        if not self.monotone:
            return replace(tried, gap=self._gap(objective, tried))
        rise = objective.pool(tried.value - state.value)
        distance = objective.pool(self._divergence(objective, tried, state, e))
        rounding = torch.finfo(state.dual.nodes.dtype).eps * (1 + objective.pool(state.value).abs())
        accepted = (rise >= 0) & (rise >= distance / (2 * eta) - rounding)
        longer = torch.where(rise > 0, (eta * 1.5).clamp_max(MAX_STEP_SIZE), eta)
        tried = replace(tried, step_size=longer, gap=self._gap(objective, tried))
        if accepted.all():
            return tried
        return replace(tried.where(accepted, replace(state, step_size=eta / 2)), moved=accepted)

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
        """F at marginals(theta), with H = log Z - <theta, p> spelt out so that nothing large cancels."""
        tau = objective.temperature
        theta = objective.linear * scale + dual
        log_z, marginals = objective.polytope.sums(theta, objective.reads_edges or tau == 0)
        term, term_grad = objective.term_value_and_grad(marginals)
        value = term + (tau * (log_z - dual.inner(marginals)) if tau > 0 else objective.linear.dot(marginals))
        return MirrorState(
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

    def _divergence(
        self, objective: Objective, new: MirrorState, old: MirrorState, e: Tensor
    ) -> Float[Tensor, " B"]:
        """KL(p_new || p_old), where theta has moved by e * direction (and e * linear without entropy)."""
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
            gap = tau * (polytope.log_partition(ahead) - state.log_partition) - shift
        return objective.pool(gap).clamp_min(0.0)
