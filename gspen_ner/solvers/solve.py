"""The one loop that runs every solver, with convergence for each example by itself.

    find p in M with F(p) as large as the solver can make it

An example (or, where a term couples sentences, a document) that has converged is taken out of the batch,
with its dropout masks and step size, so a result does not depend on batch-mates. Not converging within
`max_steps` is no error: `Solution` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.objective import Objective
from gspen_ner.parts import Parts
from gspen_ner.solvers.state import SolverState


@runtime_checkable
class Solver(Protocol):
    """An algorithm: a small frozen configuration that makes and advances states."""

    def prepare(self, objective: Objective) -> Objective:
        """The objective in the layout that the algorithm needs."""

    def init(self, objective: Objective) -> SolverState:
        """The state at the start: the base model's own marginals."""

    def step(self, objective: Objective, state: SolverState, number: int) -> SolverState:
        """One step, counted from 1: at most one new evaluation of the objective."""

    def theta(self, objective: Objective, state: SolverState) -> Parts:
        """Scores whose best labelling is the prediction at this state."""


@dataclass(frozen=True)
class Trace:
    """Objective and residual of every example before the first and after each step: `[steps + 1, B]`."""

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
        residual: bound on the distance from a stationary point (the gap), or the last change of F.
        converged: residual came below the tolerance.
        trace: objective and residual by step, if it was recorded.
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
    max_steps: int = 20,
    tolerance: float = 1e-3,
    stop: Literal["gap", "change"] = "gap",
    record_trace: bool = False,
) -> Solution:
    """Maximise the objective from the base model's own marginals on.

    Args:
        objective: F at one batch.
        solver: `MirrorDescent(...)` or `FrankWolfe(...)`.
        max_steps: steps after which an example is given back as it is.
        tolerance: an example has converged when its residual is at most this.
        stop: the residual is the solver's `"gap"` (zero only at a stationary point, and a bound of the
            suboptimality for concave terms) or the last `"change"` of the objective (the paper's rule).
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
    """The bookkeeping of one call of `solve`: who is still active, and the best of everybody."""

    def __init__(
        self, objective: Objective, solver: Solver, tolerance: float, stop: str, record_trace: bool
    ) -> None:
        self.whole, self.solver, self.tolerance, self.stop = objective, solver, tolerance, stop
        start = solver.init(objective)
        if stop == "change":
            start = _with_residual(start, torch.full_like(start.value, torch.inf))
        batch = len(start.value)
        self.best = start
        self.steps = torch.zeros(batch, dtype=torch.int64, device=start.value.device)
        self.converged = torch.zeros(batch, dtype=torch.bool, device=start.value.device)
        self.history = [(start.value, start.residual)] if record_trace else None
        self.rows = torch.arange(batch, device=start.value.device)
        self.objective, self.state = objective, start
        self._release()

    def advance(self, number: int) -> None:
        """One step of all active examples."""
        before = self.state
        state = self.solver.step(self.objective, before, number)
        if self.stop == "change":
            change = self.objective.pool(state.value - before.value).abs()
            state = _with_residual(state, torch.where(state.moved, change, before.residual))
        self.state = state
        self.steps[self.rows] = number
        best = self.best.select(self.rows) if len(self.rows) < len(self.steps) else self.best
        pool = self.objective.pool
        state = state.where(pool(state.value) >= pool(best.value), best)
        self.best = self.best.merge(self.rows, state) if len(self.rows) < len(self.steps) else state
        if self.history is not None:
            self.history.append(self._current())
        self._release()

    def _release(self) -> None:
        """Drop the examples that have converged."""
        done = self.state.residual <= self.tolerance
        if not done.any():
            return
        self.converged[self.rows[done]] = True
        left = (~done).nonzero().flatten()
        self.rows = self.rows[left]
        if len(left):
            self.objective, self.state = self.objective.select(left), self.state.select(left)

    def _current(self) -> tuple[Tensor, Tensor]:
        value, residual = self.history[-1]
        return (
            value.index_copy(0, self.rows, self.state.value),
            residual.index_copy(0, self.rows, self.state.residual),
        )

    def finish(self) -> Solution:
        theta = self.solver.theta(self.whole, self.best)
        marginals = self.best.marginals
        if marginals.edges is None and theta.edges is not None:
            marginals = self.whole.polytope.marginals(theta)
        trace = None
        if self.history is not None:
            values, residuals = zip(*self.history, strict=True)
            trace = Trace(torch.stack(values), torch.stack(residuals))
        best = self.best
        return Solution(theta, marginals, best.value, self.steps, best.residual, self.converged, trace)


def _with_residual(state: SolverState, residual: Tensor) -> SolverState:
    return replace(state, residual=residual)
