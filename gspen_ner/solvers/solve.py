"""The loop that runs every solver, with convergence checked for each example.

    maximise F(p) over p in M

A converged example (a document, if a term couples sentences) is removed from the batch together with its
dropout masks and step size, so its result does not depend on the other examples. Examples that do not
converge within `max_steps` are marked in the `Solution`; this is not an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

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
    """An algorithm: an immutable configuration with methods that create and advance states.

    Example:
        >>> from gspen_ner import FrankWolfe, MirrorDescent
        >>> isinstance(MirrorDescent(), Solver), isinstance(FrankWolfe(), Solver)
        (True, True)
    """

    @property
    def monotone(self) -> bool:
        """Whether the last state is the result: F never decreases, or the state holds an average.

        Otherwise the result is the state with the largest F.
        """

    def prepare(self, objective: Objective) -> Objective:
        """Return the objective in the layout that the algorithm needs."""

    def init(self, objective: Objective) -> SolverState:
        """Return the initial state, at the base model's marginals."""

    def step(self, objective: Objective, state: Any, number: int) -> SolverState:
        """Return the state after step `number`, counted from 1; evaluates the objective at most once."""

    def finish(self, objective: Objective, state: Any) -> tuple[Parts, Parts, Float[Tensor, " B"]]:
        """Return theta, whose best labelling is the prediction, the marginals with edges, and F there."""


SOLVERS: Registry[Solver] = Registry("solver", default="mirror_descent")
"""Solvers by the names that recipes and model files use."""


@dataclass(frozen=True)
class Trace:
    """Objective and residual of every example at the start and after each step: `[steps + 1, B]`.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent
        >>> chain = Chain(torch.tensor([2]))
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solve(objective, MirrorDescent(), record_trace=True).trace.value  # without a term, no steps
        tensor([[2.1972]], dtype=torch.float64)
    """

    value: Float[Tensor, "S B"]
    residual: Float[Tensor, "S B"]


@dataclass(frozen=True)
class Solution:
    """The best iterate of a solver, including the start.

    Args:
        theta: scores to decode; their best labelling is the prediction.
        marginals: p, with edge marginals.
        value: F(p); for coupled examples, the share of each example.
        steps: number of steps of each example.
        residual: gap or change of F at the last iterate, which is not the best one for every schedule.
        converged: whether the residual fell below the tolerance.
        trace: objective and residual after each step, if recorded; else None.

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
    """Maximise the objective, starting from the base model's marginals.

    Args:
        objective: F of a batch.
        solver: `MirrorDescent(...)`, `FrankWolfe(...)` or, for `NLStruct`, `SaddlePoint(...)`.
        max_steps: maximum number of steps.
        tolerance: an example has converged when its residual is below this; 0 runs all steps.
        stop: the residual. `gap`: the solver's gap, which is zero only at stationary points and bounds the
            suboptimality for concave terms. `change`: the last change of the objective, the paper's rule;
            after a rejected step, the gap if it is smaller.
        record_trace: whether to record objective and residual of each step.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, PaddedMLP
        >>> chain = Chain(torch.tensor([3, 2]))
        >>> potentials = chain.potentials(torch.randn(2, 3, 4), torch.randn(4, 4))
        >>> context = Context.of_lengths(chain.lengths, 3)
        >>> solution = solve(Objective(potentials, chain, PaddedMLP(4, 10), context), MirrorDescent())
        >>> solution.steps, solution.converged  # a new term is zero, so the start is the solution
        (tensor([0, 0]), tensor([True, True]))
    """
    if max_steps < 0 or not tolerance >= 0:
        raise ValueError(f"max_steps and tolerance must be at least 0, got {max_steps} and {tolerance}")
    if stop not in get_args(Stop):
        raise ValueError(f'stop must be "gap" or "change", got {stop!r}')
    with torch.inference_mode(False), torch.no_grad():
        objective = solver.prepare(objective.detach())
        run = _Run(objective, solver, tolerance, stop, record_trace)
        for number in range(1, max_steps + 1):
            if not len(run.rows):
                break
            run.advance(number)
        return run.finish()


class _Run:
    """The progress of one call of `solve`: the active examples, and the results of all examples.

    `objective`, `state`, `best` and `residual` are those of the active examples, `rows`. `final`,
    `final_residual`, `steps` and `converged` are those of all examples.
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
        """Take one step for all active examples."""
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
        """Store the best states of converged examples and remove them from the active ones."""
        if not done.any():
            return
        self.converged[self.rows[done]] = True
        self._store(done)
        active = (~done).nonzero().flatten()
        self.rows, self.residual = self.rows[active], self.residual[active]
        if len(active):
            self.objective, self.state = self.objective.select(active), self.state.select(active)
            self.best = self.best.select(active)

    def _store(self, chosen: Bool[Tensor, " K"]) -> None:
        """Store the best state of the chosen active examples in `final`."""
        if len(chosen) == len(self.steps) and chosen.all():
            self.final, self.final_residual = self.best, self.residual
            return
        rows = self.rows[chosen]
        self.final = self.final.merge(rows, self.best.select(chosen.nonzero().flatten()))
        self.final_residual[rows] = self.residual[chosen]

    def finish(self) -> Solution:
        """Return the solution, including examples that have not converged."""
        if len(self.rows):
            self._store(torch.ones_like(self.rows, dtype=torch.bool))
        theta, marginals, value = self.solver.finish(self.whole, self.final)
        trace = None
        if self.history is not None:
            values, residuals = zip(*self.history, strict=True)
            trace = Trace(torch.stack(values), torch.stack(residuals))
        return Solution(theta, marginals, value, self.steps, self.final_residual, self.converged, trace)
