"""Losses: likelihood, structured hinge, likelihood at the fixed point, F1 at the fixed point.

    nll          log Z(f) - <f, y>
    hinge        max_p { F(p) + cost(p) } - F(y)                         (the paper's figure 1)
    linear hinge the same without a term: tau log Z((f + cost) / tau) - <f, y>, or the best score if tau = 0
    fixed point  tau log Z(theta / tau) - <theta, y>,  theta = f + cost + grad T(p*)
    F1           1 - 2 <p, y> / (|p| + |y|) of the marginals p of theta / tau, without label 0

The gradient of the hinge is that of the envelope: F is differentiated at the solution p*, which counts as a
constant. With T = 0, tau = 1 and no cost, the first four losses are the CRF's negative log likelihood. Losses
are per example; a sentence that is coupled with others of its document has its share of the document's loss.
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
    """Return log Z - score of the gold labels, the loss of a CRF.

    Example:
        >>> from gspen_ner import Chain
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> negative_log_likelihood(potentials, chain, gold)  # nine labellings with equal scores
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
    """Return the structured hinge loss of a model without a global term.

    With temperature 1 and cost 0, it is the negative log likelihood; with temperature 0, it is the loss of a
    structured SVM.

    Args:
        potentials: scores.
        polytope: set of feasible marginals.
        labels: gold labels.
        temperature: weight of the entropy, 1 by default.
        cost: weight of the Hamming cost, 1 by default.

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
    """Return the value at the solution of loss-augmented inference minus the value at the gold labels.

    Args:
        objective: the objective that was solved, F with the cost, in the autograd graph.
        solution: result of inference; if its value is below that of the gold labels, the loss is negative.
        labels: gold labels.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, solve
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solution = solve(objective, MirrorDescent())
        >>> structured_hinge(objective, solution, gold)  # the CRF's loss, without term and cost
        tensor([2.1972], dtype=torch.float64)
    """
    f = objective.potentials
    gold = objective.polytope.vertex(labels, f)
    value = f.dot(solution.marginals) + objective.term_value(solution.marginals)
    value = value + (solution.value - value).detach()  # the exact value, with the gradient of the envelope
    score = objective.polytope.score(f, labels)
    check_gold(score)
    return value - score - objective.term_value(gold)


def positive_part(objective: Objective, loss: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the paper's [.]_+: losses with zero, and no gradient, for examples (or documents) below zero."""
    return torch.where(objective.pool(loss.detach()) > 0, loss, 0.0)


def fixed_point_likelihood(
    objective: Objective, solution: Solution, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """Return the negative log likelihood with the scores f + cost + gradient of the term at the solution.

    It is convex in the weights of a term that is quadratic in p, such as `DocumentConsistency`. The solver is
    not differentiated.

    Example:
        >>> from gspen_ner import Chain, Context, MirrorDescent, solve
        >>> chain, gold = Chain(torch.tensor([2])), torch.tensor([[0, 1]])
        >>> potentials = Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> objective = Objective(potentials, chain, None, Context.of_lengths(chain.lengths, 2))
        >>> solution = solve(objective, MirrorDescent())
        >>> fixed_point_likelihood(objective, solution, gold)  # the CRF's loss, without term and cost
        tensor([2.1972], dtype=torch.float64)
    """
    theta = _scores_at(objective, solution, "fixed_point")
    return -objective.temperature * objective.polytope.log_likelihood(theta, labels)


def _scores_at(objective: Objective, solution: Solution, loss: str) -> Parts:
    """Return (f + cost + gradient of the term at the solution) / temperature, in the autograd graph."""
    if objective.temperature == 0:
        raise ValueError(f'the loss "{loss}" needs a positive temperature, got 0; use "hinge" with it')
    _, term_grad = objective.term_value_and_grad(solution.marginals, create_graph=True)
    return (objective.linear + term_grad) * (1 / objective.temperature)


_STEP = 0.5  # of finite differences along the slope of F1; scores then change by less than 1 / |y|


def fixed_point_f1(
    objective: Objective, solution: Solution, labels: Int[Tensor, "B N"]
) -> Float[Tensor, " B"]:
    """Return 1 - F1 of each example's marginals, as expected counts of all labels but label 0 ("O").

    The marginals are those of the scores theta = f + cost + gradient of the term at the solution. They are
    the gradient of a log partition, so their derivative in theta is a symmetric matrix. Its product with the
    slope of F1 is computed by central differences: inference with theta plus and minus a step along this
    slope. So, no polytope needs second derivatives.

    Example:
        >>> from gspen_ner import Context, MirrorDescent, Simplex, solve
        >>> mask, gold = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0, 1]])
        >>> objective = Objective(Parts(torch.zeros(1, 2, 2)), Simplex(mask), None, Context(mask))
        >>> fixed_point_f1(objective, solve(objective, MirrorDescent()), gold)  # precision and recall are 0.5
        tensor([0.5000], dtype=torch.float64)
    """
    polytope, theta = objective.polytope, _scores_at(objective, solution, "f1")
    check_gold(polytope.score(objective.potentials, labels))
    with torch.no_grad():
        scores = theta.detach()
        gold = polytope.vertex(labels, scores).nodes[..., 1:]
        predicted = polytope.sums(scores, with_edges=False)[1].nodes[..., 1:]
        total = (predicted.sum((1, 2)) + gold.sum((1, 2))).clamp_min(torch.finfo(predicted.dtype).tiny)
        f1 = 2 * (predicted * gold).sum((1, 2)) / total
        slope = (f1[:, None, None] - 2 * gold) / total[:, None, None]
        step = Parts(_STEP * torch.nn.functional.pad(slope, (1, 0)))
        difference = polytope.marginals(scores + step) - polytope.marginals(scores - step)
    change = theta.dot(difference) / (2 * _STEP)  # its gradient in theta is that of 1 - F1
    return 1 - f1 + (change - change.detach())
