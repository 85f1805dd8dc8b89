"""Small inference problems, and an independent solver for them: scipy over all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from gspen_ner import Chain, Context, GlobalTerm, Objective, PaddedMLP, Parts
from tests.oracle import enumerate_row

LENGTHS = torch.tensor([3, 2, 4, 1])
LABELS = 3


class Concave(GlobalTerm):
    """T(p) = - strength / 2 * |x(p)|^2 with features x that are affine in p."""

    def __init__(self, strength: float = 1.0):
        super().__init__()
        random = torch.Generator().manual_seed(11)
        self.matrix = torch.randn(5, 4 * LABELS, generator=random, dtype=torch.float64)
        self.target = torch.randn(5, generator=random, dtype=torch.float64)
        self.strength = strength

    def features(self, marginals: Parts) -> torch.Tensor:
        return marginals.nodes.flatten(1).double() @ self.matrix.mT - self.target

    def forward(self, potentials, marginals, context, noise=None):
        return -0.5 * self.strength * (self.features(marginals) ** 2).sum(1)


class EdgeConcave(Concave):
    """Reads how often each transition is used, and dislikes being far from a wish."""

    edge_inputs = "counts"

    def features(self, marginals: Parts) -> torch.Tensor:
        return marginals.edges.sum(1).flatten(1).double() - torch.arange(LABELS * LABELS) / 10


def random_mlp(scale: float = 3.0, **options) -> PaddedMLP:
    """A non-concave term: softplus units with weights of both signs."""
    term = PaddedMLP(LABELS, 4, hidden=12, **options).double()
    for parameter in term.parameters():
        torch.nn.init.normal_(parameter, std=scale / 2)
    return term


def objective(term, temperature=1.0, dtype=torch.float64, per_position=False, masks=False) -> Objective:
    random = torch.Generator().manual_seed(3)
    nodes = 2 * torch.randn(4, 4, LABELS, generator=random, dtype=torch.float64)
    shape = (4, 3) if per_position else (1, 1)
    edges = torch.randn(*shape, LABELS, LABELS, generator=random, dtype=torch.float64)
    if masks:
        edges[..., 0, 2] = -torch.inf
        nodes[:, 0, 1] = -torch.inf
    theta = Parts(nodes.to(dtype), edges.to(dtype))
    return Objective(theta, Chain(LENGTHS), term, Context.of_lengths(LENGTHS, 4), temperature)


def best_value(problem: Objective, row: int) -> float:
    """max F over all distributions q on the labellings of one example, by scipy.

    With entropy through the dual, min over v of tau logsumexp((scores + features v) / tau) + |v|^2 / (2 s):
    smooth and small. Without, the quadratic programme in q itself.
    """
    truth = enumerate_row(problem.linear, LENGTHS, row)
    legal = np.isfinite(truth.scores)
    scores, paths = truth.scores[legal], torch.tensor(truth.paths[legal])
    padded = torch.zeros(len(paths), 4, dtype=torch.int64)
    padded[:, : paths.shape[1]] = paths
    mask = (torch.arange(4) < paths.shape[1]).expand(len(paths), 4)
    features = problem.term.features(Parts.one_hot(padded, mask, LABELS)).numpy()
    strength, tau = problem.term.strength, problem.temperature

    def dual(v):
        logits = (scores + features @ v) / tau
        return tau * logsumexp(logits) + v @ v / (2 * strength), features.T @ softmax(logits) + v / strength

    def primal(q):
        x = features.T @ q
        return strength / 2 * x @ x - scores @ q, strength * features @ x - scores

    if tau > 0:
        actual = minimize(dual, np.zeros(features.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
        return actual.fun
    actual = minimize(
        primal,
        np.full(len(paths), 1 / len(paths)),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(paths),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like},
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    return -actual.fun


def grid(**axes):
    """All combinations, as dictionaries."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
