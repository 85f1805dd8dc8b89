"""What training minimises: likelihood, structured hinge, likelihood or F1 at the fixed point.

    nll          log Z(f) - <f, y>
    hinge        max_p { F(p) + cost(p) } - F(y)                         (the paper's figure 1)
    linear hinge the same without a term: tau log Z((f + cost) / tau) - <f, y>, or the best score if tau = 0
    fixed point  tau log Z(theta / tau) - <theta, y>,  theta = f + cost + grad T(p*)
    F1           1 - 2 <p, y> / (|p| + |y|) of the marginals p of theta / tau, label 0 left out

The hinge's gradient is the envelope's: F is differentiated at the solution p* as if that were a constant.
With T = 0, tau = 1 and no cost, all are the CRF's negative log likelihood. Losses are per example;
of sentences coupled in a document, each one's is its share in the document's.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.kernels.checks import check_gold
from gspen_ner.objective import Objective, hamming_cost
from gspen_ner.parts import Parts
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.solvers.solve import Solution


def negative_log_likelihood(
    potentials: Parts, polytope: Polytope, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """Log Z - score of the gold labels: what a CRF is trained with.

    Example:
        >>> from gspen_ner import Chain
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> negative_log_likelihood(potentials, chain, gold)  # one of nine labellings
        tensor([2.1972], dtype=torch.float64)
    """
    return -polytope.log_likelihood(potentials, labels)


def linear_hinge(
    potentials: Parts,
    polytope: Polytope,
    labels: Int[Tensor, "B N"],
    temperature: float = 1.0,
    cost: float = 1.0,
) -> Float[Tensor, " B"]:
    """The structured hinge of a model without a global term.

    With temperature 1 and cost 0 it is the negative log likelihood, with temperature 0 the structured SVM's.

    Example:
        >>> from gspen_ner import Chain
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> linear_hinge(potentials, chain, gold, temperature=0.0)  # two labels may be wrong
        tensor([2.], dtype=torch.float64)
    """
    score = polytope.score(potentials, labels)
    check_gold(score)
    theta = potentials
    if cost > 0:
        theta = theta + hamming_cost(polytope.vertex(labels, potentials), cost)
    if temperature > 0:
        return temperature * polytope.log_partition(theta * (1 / temperature)) - score
    return theta.dot(polytope.maximiser(theta.detach())) - score


def structured_hinge(
    objective: Objective, solution: Solution, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """Value at the (loss-augmented) solution minus value at the gold labels.

    Args:
        objective: F with the cost, in the autograd graph; the one that was solved.
        solution: where inference ended. Below the gold labels' value, the loss is negative.
        labels: gold labels.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, solve
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solution = solve(objective, MirrorDescent())
        >>> structured_hinge(objective, solution, gold)  # without a term or cost, the CRF's
        tensor([2.1972], dtype=torch.float64)
    """
    f = objective.potentials
    gold = objective.polytope.vertex(labels, f)
    found = f.dot(solution.marginals) + objective.term_value(solution.marginals)
    found = found + (solution.value - found).detach()  # the exact value, with the envelope's gradient
    score = objective.polytope.score(f, labels)
    check_gold(score)
    return found - score - objective.term_value(gold)


def positive_part(objective: Objective, loss: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """The paper's [.]_+: an example (or document) with a negative loss counts, and teaches, nothing."""
    return torch.where(objective.pool(loss.detach()) > 0, loss, 0.0)


def fixed_point_likelihood(
    objective: Objective, solution: Solution, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """Negative log likelihood of the chain that the term's gradient at the solution makes.

    Convex in a term that is quadratic in p, such as `DocumentConsistency`; nothing is differentiated
    through the solver.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, solve
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solution = solve(objective, MirrorDescent())
        >>> fixed_point_likelihood(objective, solution, gold)  # without a term or cost, the CRF's
        tensor([2.1972], dtype=torch.float64)
    """
    tau, polytope = objective.temperature, objective.polytope
    if tau == 0:
        raise ValueError("the fixed-point likelihood needs a positive temperature, got 0")
    _, term_grad = objective.term_value_and_grad(solution.marginals, create_graph=True)
    theta = objective.linear + term_grad
    return -tau * polytope.log_likelihood(theta * (1 / tau), labels)


_NUDGE = 0.5  # of the slope of F1, which is less than 2 / |y|: far smaller than what decides a label


def fixed_point_f1(
    objective: Objective, solution: Solution, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """1 - F1 of each example's marginals, as soft counts of all labels but the first, which means nothing.

    The marginals are those of the scores that the term's gradient at the solution makes. They are gradients
    of a log partition, so that how they change with scores is a symmetric matrix: its product with the slope
    of F1 is found by inference with scores that are nudged along this slope, to both sides. No polytope needs
    to be differentiated twice.

    Example:
        >>> from gspen_ner import Context, MirrorDescent, Simplex, solve
        >>> mask, gold = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0, 1]])
        >>> objective = Objective(Parts(torch.zeros(1, 2, 2)), Simplex(mask), None, Context(mask))
        >>> fixed_point_f1(objective, solve(objective, MirrorDescent()), gold)  # half of it found, half right
        tensor([0.5000], dtype=torch.float64)
    """
    tau, polytope = objective.temperature, objective.polytope
    if tau == 0:
        raise ValueError("the F1 at the fixed point needs a positive temperature, got 0")
    check_gold(polytope.score(objective.potentials, labels))
    _, term_grad = objective.term_value_and_grad(solution.marginals, create_graph=True)
    theta = (objective.linear + term_grad) * (1 / tau)
    with torch.no_grad():
        scores = theta.detach()
        gold = polytope.vertex(labels, scores).nodes[..., 1:]
        found = polytope.sums(scores, with_edges=False)[1].nodes[..., 1:]
        total = (found.sum((1, 2)) + gold.sum((1, 2))).clamp_min(torch.finfo(found.dtype).tiny)
        f1 = 2 * (found * gold).sum((1, 2)) / total
        slope = (f1[:, None, None] - 2 * gold) / total[:, None, None]
        nudge = Parts(_NUDGE * torch.nn.functional.pad(slope, (1, 0)))
        moved = polytope.marginals(scores + nudge) - polytope.marginals(scores - nudge)
    change = theta.dot(moved) / (2 * _NUDGE)
    return 1 - f1 + (change - change.detach())
