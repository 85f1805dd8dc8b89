"""NLStruct's saddle point: the same optimum as mirror descent where there is only one."""

import pytest
import torch

from gspen_ner import Chain, Context, FactorGraph, MirrorDescent, Objective, Parts, RegionMLP, Tree, solve
from gspen_ner.objective import hamming_cost
from gspen_ner.solvers import SaddlePoint
from gspen_ner.terms import NLStruct

BATCH, NODES, LABELS = 5, 4, 3


def problem(temperature: float, cost: bool = False, seed: int = 0) -> Objective:
    """A concave T': softplus units with negative weights."""
    random = torch.Generator().manual_seed(seed)
    chain = Chain(torch.full((BATCH,), NODES))
    shapes = (BATCH, NODES, LABELS), (BATCH, NODES - 1, LABELS, LABELS)
    f = Parts(*(torch.randn(*shape, generator=random, dtype=torch.float64) for shape in shapes))
    term = NLStruct(LABELS, NODES, NODES - 1).double()
    with torch.no_grad():
        term.mlp.input.weight += 0.1 * torch.randn(
            term.mlp.input.weight.shape, generator=random, dtype=torch.float64
        )
        term.mlp.output.weight.uniform_(-1, 0, generator=random)
    context = Context(torch.ones(BATCH, NODES, dtype=torch.bool))
    gold = chain.vertex(torch.zeros(BATCH, NODES, dtype=torch.long), f)
    return Objective(f, chain, term, context, temperature, hamming_cost(gold) if cost else None)


@pytest.mark.parametrize("cost", [False, True])
@pytest.mark.parametrize(("temperature", "off"), [(1.0, 1e-6), (0.0, 1e-3)])
def test_finds_the_optimum_of_a_concave_problem(temperature, off, cost):
    objective = problem(temperature, cost)
    best = solve(objective, MirrorDescent(), max_steps=600, tolerance=1e-8)
    actual = solve(objective, SaddlePoint(average_after=500), max_steps=1000, tolerance=0.0)
    torch.testing.assert_close(actual.value, best.value, atol=off, rtol=0)
    if temperature:
        torch.testing.assert_close(actual.marginals.nodes, best.marginals.nodes, atol=1e-4, rtol=0)


def test_the_value_is_the_objective_at_the_averaged_marginals():
    objective = problem(1.0, cost=True)
    actual = solve(objective, SaddlePoint(average_after=5), max_steps=10, tolerance=0.0)
    p = actual.marginals
    expected = objective.linear.dot(p) + objective.term_value(p) + objective.polytope.entropy(p)
    torch.testing.assert_close(actual.value, expected)


def test_averages_the_iterates_after_the_first_ones():
    objective = problem(0.0)
    solver = SaddlePoint(average_after=2)
    state = solver.init(solver.prepare(objective))
    iterates = []
    for number in range(1, 6):
        state = solver.step(objective, state, number)
        iterates.append(state.iterate.nodes)
        expected = torch.stack(iterates[2:]).mean(0) if number > 2 else iterates[-1]
        torch.testing.assert_close(state.marginals.nodes, expected)
        torch.testing.assert_close(state.marginals.nodes.sum(-1), torch.ones(BATCH, NODES).double())


def test_runs_on_a_factor_graph_too():
    objective = problem(1.0)
    edges = [(node, node + 1) for node in range(NODES - 1)]
    tree = Tree(FactorGraph.of_edges([LABELS] * NODES, edges))
    on_tree = Objective(objective.potentials, tree, objective.term, objective.context)
    one, other = (
        solve(problem, SaddlePoint(), max_steps=60, tolerance=0.0) for problem in (objective, on_tree)
    )
    torch.testing.assert_close(one.marginals.nodes, other.marginals.nodes)
    torch.testing.assert_close(one.value, other.value)


def test_forbidden_labels_stay_out():
    objective = problem(0.0)
    objective.potentials.nodes[:, 1, 2] = -torch.inf
    actual = solve(objective, SaddlePoint(average_after=10), max_steps=20, tolerance=0.0)
    assert (actual.marginals.nodes[:, 1, 2] == 0).all()
    assert torch.isfinite(actual.value).all()


def test_refuses_other_terms_and_bad_settings():
    objective = problem(1.0)
    other = Objective(
        objective.potentials, objective.polytope, RegionMLP(LABELS, NODES).double(), objective.context
    )
    with pytest.raises(ValueError, match="SaddlePoint needs the term NLStruct, got RegionMLP"):
        solve(other, SaddlePoint())
    with pytest.raises(ValueError, match=r"step_size must be greater than 0, got 0\.0"):
        SaddlePoint(step_size=0.0)
