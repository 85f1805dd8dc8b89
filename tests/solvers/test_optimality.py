"""On concave objectives the solvers reach what scipy finds on the enumerated problem."""

import pytest
import torch

from gspen_ner import FrankWolfe, MirrorDescent, Simplex, solve
from tests.solvers.problems import LENGTHS, Concave, EdgeConcave, best_value, objective

TERMS = {"weak": Concave(strength=0.3), "strong": Concave(strength=4.0), "edges": EdgeConcave()}
ROWS = range(len(LENGTHS))


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("name", TERMS)
def test_mirror_descent_with_entropy(name, temperature, masks):
    problem = objective(TERMS[name], temperature, masks=masks)
    solution = solve(problem, MirrorDescent(), max_steps=500, tolerance=1e-8)
    assert solution.converged.all()
    for row in ROWS:
        assert solution.value[row] == pytest.approx(best_value(problem, row), abs=1e-6)


@pytest.mark.parametrize("schedule", ["backtracking", "sqrt"])
@pytest.mark.parametrize("name", TERMS)
def test_mirror_descent_without_entropy(name, schedule):
    problem = objective(TERMS[name], temperature=0.0)
    eta, max_steps = (1.0, 1500) if schedule == "backtracking" else (0.3, 300)
    solution = solve(problem, MirrorDescent(eta, schedule), max_steps=max_steps, tolerance=1e-3)
    for row in ROWS:
        best = best_value(problem, row)
        assert solution.value[row] <= best + 1e-6
        slack = 1e-3 if schedule == "backtracking" else 0.05
        assert solution.value[row] == pytest.approx(best, abs=slack)


@pytest.mark.parametrize("oracle", ["smooth", "vertex"])
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", TERMS)
def test_frank_wolfe_is_within_its_gap(name, temperature, oracle):
    problem = objective(TERMS[name], temperature, per_position=name == "edges" and temperature > 0)
    solution = solve(problem, FrankWolfe(oracle=oracle), max_steps=300, tolerance=1e-6)
    for row in ROWS:
        best = best_value(problem, row)
        assert solution.value[row] <= best + 1e-6
        assert best <= solution.value[row] + solution.residual[row] + 1e-6
        if name != "strong":  # zigzags for a long time
            assert solution.value[row] == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_papers_frank_wolfe_steps_get_close(temperature):
    problem = objective(TERMS["weak"], temperature)
    solution = solve(problem, FrankWolfe("harmonic"), max_steps=400, tolerance=0.0)
    for row in ROWS:
        assert solution.value[row] == pytest.approx(best_value(problem, row), abs=0.02)


def test_the_gap_bounds_the_distance_to_the_optimum_at_every_step():
    problem = objective(TERMS["strong"], 1.0)
    for solver in (MirrorDescent(), FrankWolfe()):
        trace = solve(problem, solver, max_steps=12, tolerance=0.0, record_trace=True).trace
        for row in ROWS:
            best = best_value(problem, row)
            assert (trace.value[:, row] + trace.residual[:, row] >= best - 1e-6).all()


def test_both_solvers_agree_on_the_marginals():
    problem = objective(TERMS["strong"], 1.0)
    one = solve(problem, MirrorDescent(), max_steps=500, tolerance=1e-10)
    other = solve(problem, FrankWolfe(), max_steps=2000, tolerance=1e-7)
    torch.testing.assert_close(one.marginals.nodes, other.marginals.nodes, atol=2e-3, rtol=0)
    summed = other.marginals.edges.sum(1, keepdim=True)
    torch.testing.assert_close(one.marginals.edges, summed, atol=5e-3, rtol=0)


def test_spen_is_the_same_without_edges():
    from dataclasses import replace

    from gspen_ner import Parts

    problem = objective(TERMS["strong"], 1.0)
    bare = replace(problem, potentials=Parts(problem.potentials.nodes))
    chain = solve(bare, MirrorDescent(), max_steps=200, tolerance=1e-9)
    simplex = Simplex(problem.polytope.mask(4))
    spen = solve(replace(bare, polytope=simplex), MirrorDescent(), max_steps=200, tolerance=1e-9)
    torch.testing.assert_close(chain.marginals.nodes, spen.marginals.nodes, atol=1e-6, rtol=0)
    torch.testing.assert_close(chain.value, spen.value)
