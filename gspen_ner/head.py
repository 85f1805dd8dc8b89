"""GSPENHead: a global term and a solver over the potentials of any chain scorer. Wiring only.

potentials -> Objective -> solve -> Solution -> loss or labels
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gspen_ner.decode import label_lists
from gspen_ner.losses import fixed_point_f1, fixed_point_likelihood, positive_part, structured_hinge
from gspen_ner.objective import Objective, hamming_cost
from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.solvers import FrankWolfe, MirrorDescent, SaddlePoint, Solution, Solver, solve
from gspen_ner.terms import Context, GlobalTerm, TermSum, make_term

SOLVERS: dict[str, Callable[..., Solver]] = {
    "mirror_descent": MirrorDescent,
    "frank_wolfe": FrankWolfe,
    "saddle_point": SaddlePoint,
}


class HeadLoss(NamedTuple):
    """The losses of a batch, and what there is to know about the inference behind them.

    Example:
        >>> from gspen_ner import Chain, Sharpness
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> found = GSPENHead(Sharpness(3), cost=0.0).loss(Parts(torch.zeros(1, 2, 3)), chain, gold)
        >>> found.loss.detach(), found.negative, found.solution.steps  # a new term: the CRF's likelihood
        (tensor([2.1972], dtype=torch.float64), tensor([False]), tensor([0]))
    """

    loss: Float[Tensor, " B"]
    negative: Bool[Tensor, " B"]
    """Where inference ended below the gold labels' value; cut off by `positive_part`."""
    solution: Solution


class GSPENHead(nn.Module):
    """A global term over the potentials of a base model.

    Args:
        term: the global term.
        solver: how inference is done; mirror descent with backtracking by default.
        temperature: weight of the entropy.
        cost: weight of the Hamming cost in training; 0 trains without a margin.
        loss: `"hinge"` (the paper's), `"fixed_point"` (likelihood at the solution) or `"f1"` (F1 there).
        positive_part: cut negative losses off, as the paper does.
        max_steps, tolerance, stop: see `solve`.

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
        term: GlobalTerm,
        solver: Solver | None = None,
        *,
        temperature: float = 1.0,
        cost: float = 1.0,
        loss: Literal["hinge", "fixed_point", "f1"] = "hinge",
        positive_part: bool = True,
        max_steps: int = 10,
        tolerance: float = 1e-2,
        stop: Literal["gap", "change"] = "gap",
    ) -> None:
        super().__init__()
        if not cost >= 0:
            raise ValueError(f"cost must not be negative, got {cost}")
        losses = {"hinge": structured_hinge, "fixed_point": fixed_point_likelihood, "f1": fixed_point_f1}
        if loss not in losses:
            raise ValueError(f"loss must be one of {sorted(losses)}, got {loss!r}")
        self.term = term
        self.solver = MirrorDescent() if solver is None else solver
        self.temperature, self.cost = temperature, cost
        self.loss_function, self.positive_part = losses[loss], positive_part
        self.max_steps, self.tolerance, self.stop = max_steps, tolerance, stop

    @property
    def couples_documents(self) -> bool:
        """Whether the term scores documents as a whole, so that their sentences must share a batch."""
        one = Context(torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
        return self.term.groups(one) is not None

    def infer(
        self,
        potentials: Parts,
        polytope: Polytope,
        context: Context | None = None,
        record_trace: bool = False,
    ) -> Solution:
        """Marginals, and scores to decode, of base model and term together."""
        return self._solve(self._objective(potentials, polytope, context), record_trace)

    def loss(
        self,
        potentials: Parts,
        polytope: Polytope,
        labels: Int[Tensor, "B N"],
        context: Context | None = None,
    ) -> HeadLoss:
        """The training loss of each example; dropout is on in training mode."""
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
        """The predicted labels of each example."""
        solution = self.infer(potentials, polytope, context)
        return label_lists(polytope.argmax(solution.theta))

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
        if self.term.edge_inputs == "positions":
            potentials = polytope.expand(potentials)
        cost = None
        if labels is not None and self.cost > 0:
            cost = hamming_cost(polytope.vertex(labels, potentials), self.cost)
        noise = self.term.draw_noise(potentials, context) if self.training and labels is not None else None
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


def make_head(num_labels: int, terms: Sequence[Mapping[str, Any]], inference: Mapping[str, Any]) -> GSPENHead:
    """A head by the names that recipes and model files use.

    Args:
        num_labels: labels of each node.
        terms: the name of each (see `make_term`) and its arguments; they are summed.
        inference: arguments of `GSPENHead`, of which `solver` is a name and its arguments.

    Example:
        >>> make_head(3, [{"name": "document"}], {"max_steps": 5}).max_steps
        5
    """
    if not terms:
        raise ValueError("a head needs at least one term")
    made = [make_term(num_labels=num_labels, **options) for options in terms]
    options = dict(inference)
    solver = dict(options.pop("solver", {"name": "mirror_descent"}))
    kind = solver.pop("name")
    if kind not in SOLVERS:
        raise ValueError(f"there is no solver {kind!r}, only {', '.join(SOLVERS)}")
    return GSPENHead(made[0] if len(made) == 1 else TermSum(*made), SOLVERS[kind](**solver), **options)


def at_least_single(tensor: Tensor) -> Tensor:
    """Half-precision numbers as float32, others as they are."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
