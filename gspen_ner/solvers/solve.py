"""The one loop that runs every solver, with convergence for each example by itself.

    find p in M with F(p) as large as the solver can make it

An example (or, where a term couples sentences, a document) that has converged is taken out of the batch,
with its dropout masks and step size, so a result does not depend on batch-mates. Not converging within
`max_steps` is no error: `Solution` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.components import Registry
from gspen_ner.objective import Objective
from gspen_ner.parts import Parts
from gspen_ner.solvers.state import SolverState

Stop = Literal["gap", "change"]
MAX_STEPS, TOLERANCE = 10, 1e-2
STOP: Stop = "gap"


@runtime_checkable
class Solver(Protocol):
    """An algorithm: a small frozen configuration that makes and advances states.

    Example:
        >>> from gspen_ner import FrankWolfe, MirrorDescent
        >>> isinstance(MirrorDescent(), Solver), isinstance(FrankWolfe(), Solver)
        (True, True)
    """

    @property
    def monotone(self) -> bool:
        """Whether the last state is the one to give back: F never falls, or an average is taken."""

    def prepare(self, objective: Objective) -> Objective:
        """The objective in the layout that the algorithm needs."""

    def init(self, objective: Objective) -> SolverState:
        """The state at the start: the base model's own marginals."""

    def step(self, objective: Objective, state: Any, number: int) -> SolverState:
        """One step, counted from 1: at most one new evaluation of the objective."""

    def finish(self, objective: Objective, state: Any) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        """Theta, whose best labelling is the prediction, the marginals with their edges, and F there."""


SOLVERS: Registry[Solver] = Registry("solver", default="mirror_descent")
"""Solvers by the names that recipes and model files use."""


@dataclass(frozen=True)
class Trace:
    """Objective and residual of every example before the first and after each step: `[steps + 1, B]`.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent
        >>> chain = Chain(torch.tensor([2]))
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solve(objective, MirrorDescent(), record_trace=True).trace.value  # no term: no step
        tensor([[2.1972]], dtype=torch.float64)
    """

    value: Float[Tensor, "S B"]
    residual: Float[Tensor, "S B"]


@dataclass(frozen=True)
class Solution:
    """The best iterate that a solver met, the start included.

    Args:
        theta: scores to decode: their best labelling is the prediction.
        marginals: p, with edge marginals.
        value: F(p); of coupled examples, each one's share.
        steps: steps taken for each example.
        residual: gap or change of F at the last iterate (not always the best: see `schedule`).
        converged: residual came below the tolerance.
        trace: objective and residual by step, if it was recorded.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent
        >>> chain = Chain(torch.tensor([2]))
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solution = solve(objective, MirrorDescent())
        >>> solution.value, solution.converged
        (tensor([2.1972], dtype=torch.float64), tensor([True]))
    """

    theta: Parts
    marginals: Parts
    value: Float[Tensor, " B"]
    steps: Int[Tensor, " B"]
    residual: Float[Tensor, " B"]
    converged: Bool[Tensor, " B"]
    trace: Trace | None = None


def solve(
    objective: Objective,
    solver: Solver,
    *,
    max_steps: int = MAX_STEPS,
    tolerance: float = TOLERANCE,
    stop: Stop = STOP,
    record_trace: bool = False,
) -> Solution:
    """Maximise the objective from the base model's own marginals on.

    Args:
        objective: F at one batch.
        solver: `MirrorDescent(...)`, `FrankWolfe(...)` or, for `NLStruct`, `SaddlePoint(...)`.
        max_steps: steps after which an example is given back as it is.
        tolerance: an example has converged when its residual is below this; 0 takes all steps.
        stop: the residual is the solver's `"gap"` (zero only at a stationary point, and a bound of the
            suboptimality for concave terms) or the last `"change"` of the objective (the paper's rule);
            where a step was refused, the gap if that is smaller.
        record_trace: keep objective and residual of each step.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, PaddedMLP
        >>> chain = Chain(torch.tensor([3, 2]))
        >>> potentials = chain.potentials(torch.randn(2, 3, 4), torch.randn(4, 4))
        >>> context = Context.of_lengths(chain.lengths, 3)
        >>> solution = solve(Objective(potentials, chain, PaddedMLP(4, 10), context), MirrorDescent())
        >>> solution.steps, solution.converged  # a new term is zero: the start is the solution
        (tensor([0, 0]), tensor([True, True]))
    """
    if max_steps < 0 or not tolerance >= 0:
        raise ValueError(f"max_steps and tolerance must not be negative, got {max_steps}, {tolerance}")
    with torch.inference_mode(False), torch.no_grad():
        objective = solver.prepare(objective.detach())
        run = _Run(objective, solver, tolerance, stop, record_trace)
        for number in range(1, max_steps + 1):
            if not len(run.rows):
                break
            run.advance(number)
        return run.finish()


class _Run:
    """The bookkeeping of one call of `solve`: who is still active, and the best of everybody.

    State, objective and `best` are those of the active examples, `rows`; the rest is of all.
    """

    def __init__(
        self, objective: Objective, solver: Solver, tolerance: float, stop: str, record_trace: bool
    ) -> None:
        self.solver, self.tolerance, self.stop = solver, tolerance, stop
        self.whole = self.objective = objective
        self.final = self.best = self.state = state = solver.init(objective)
        self.residual = state.gap if stop == "gap" else torch.full_like(state.gap, torch.inf)
        self.final_residual = self.residual.clone()
        self.rows = torch.arange(len(state.value), device=state.value.device)
        self.steps = torch.zeros_like(self.rows)
        self.converged = torch.zeros_like(self.rows, dtype=torch.bool)
        self.history = [(state.value, self.residual)] if record_trace else None
        self._release(self.residual < tolerance)

    def advance(self, number: int) -> None:
        """One step of all active examples."""
        before, pool = self.state, self.objective.pool
        self.state = state = self.solver.step(self.objective, before, number)
        if self.stop == "change":
            change = pool(state.value - before.value).abs()
            self.residual = torch.where(state.moved, change, torch.minimum(self.residual, state.gap))
        else:
            self.residual = state.gap
        self.steps[self.rows] = number
        if self.solver.monotone:
            self.best = state
        else:
            self.best = state.where(pool(state.value) >= pool(self.best.value), self.best)
        if self.history is not None:
            value, residual = self.history[-1]
            value = value.index_copy(0, self.rows, state.value)
            self.history.append((value, residual.index_copy(0, self.rows, self.residual)))
        self._release(self.residual < self.tolerance)

    def _release(self, done: Bool[Tensor, " K"]) -> None:
        """Take examples out of the active ones and keep their best state."""
        if not done.any():
            return
        self.converged[self.rows[done]] = True
        self._keep(done)
        left = (~done).nonzero().flatten()
        self.rows, self.residual = self.rows[left], self.residual[left]
        if len(left):
            self.objective, self.state = self.objective.select(left), self.state.select(left)
            self.best = self.best.select(left)

    def _keep(self, chosen: Bool[Tensor, " K"]) -> None:
        """Write the best state of some active examples where all examples' states are."""
        if len(chosen) == len(self.steps) and chosen.all():
            self.final, self.final_residual = self.best, self.residual
            return
        rows = self.rows[chosen]
        self.final = self.final.merge(rows, self.best.select(chosen.nonzero().flatten()))
        self.final_residual[rows] = self.residual[chosen]

    def finish(self) -> Solution:
        """What was found; examples that did not converge are given as they are."""
        if len(self.rows):
            self._keep(torch.ones_like(self.rows, dtype=torch.bool))
        final = self.final
        theta, marginals, value = self.solver.finish(self.whole, final)
        trace = None
        if self.history is not None:
            values, residuals = zip(*self.history, strict=True)
            trace = Trace(torch.stack(values), torch.stack(residuals))
        return Solution(theta, marginals, value, self.steps, self.final_residual, self.converged, trace)
