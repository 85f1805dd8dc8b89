"""The same solvers over factor graphs: optimal on concave objectives, and never outside the set."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gspen_ner import (
    Chain,
    Context,
    FrankWolfe,
    GlobalTerm,
    LocalPolytope,
    MirrorDescent,
    Objective,
    PaddedMLP,
    Parts,
    Simplex,
    Tree,
    solve,
)
from tests.graph_strategies import graph_of, infeasibility, random_scores, without_padding
from tests.local_oracle import LocalOracle, Quadratic

TRIANGLE = graph_of([3, 3, 3], [(0, 1), (1, 2), (2, 0)])
WITH_TRIPLE = graph_of([2, 2, 2, 2], [(0, 1), (1, 2), (3, 0), (1, 2, 3)])
DIFFERENT = graph_of([2, 4, 3], [(0, 1), (1, 2), (2, 0), (2, 1, 0)])
CHAIN = graph_of([3] * 4, [(0, 1), (1, 2), (2, 3)])
SOLVERS = [MirrorDescent(), FrankWolfe()]


class Wishes(GlobalTerm):
    """T(p) = - strength / 2 |M p - t|^2, over the nodes."""

    def __init__(self, size, strength=1.0):
        super().__init__()
        random = torch.Generator().manual_seed(7)
        self.matrix = torch.randn(4, size, generator=random, dtype=torch.float64)
        self.target = torch.randn(4, generator=random, dtype=torch.float64)
        self.strength = strength

    @classmethod
    def of(cls, graph, strength=1.0):
        return cls(graph.num_nodes * graph.max_labels, strength)

    def read(self, marginals):
        return marginals.nodes.flatten(1)

    def forward(self, potentials, marginals, context, noise=None):
        features = self.read(marginals).double() @ self.matrix.mT - self.target
        return -0.5 * self.strength * (features**2).sum(1)


class EdgeWishes(Wishes):
    """The same over nodes and edges."""

    edge_inputs = "positions"

    @classmethod
    def of(cls, graph, strength=1.0):
        return cls(graph.num_nodes * graph.max_labels + graph.num_edges * graph.max_labels**2, strength)

    def read(self, marginals):
        return torch.cat([marginals.nodes.flatten(1), marginals.edges.flatten(1)], 1)


def objective(polytope, term, temperature=1.0, batch=3, scale=1.0, dtype=torch.float64) -> Objective:
    theta = without_padding(polytope.graph, random_scores(polytope.graph, batch, scale)).map(
        lambda tensor: tensor.to(dtype)
    )
    context = Context(torch.ones(batch, polytope.graph.num_nodes, dtype=torch.bool))
    return Objective(theta, polytope, term, context, temperature)


def best_value(problem: Objective, row: int) -> float:
    """By Newton's method or a quadratic programme over constraints that the tests build by themselves."""
    oracle, term, tau = LocalOracle(problem.polytope.graph), problem.term, problem.temperature
    matrix = np.zeros((4, oracle.starts[-1]))
    matrix[:, : term.matrix.shape[1]] = term.matrix  # same number of labels: nodes, then edges
    quadratic = Quadratic(matrix, term.target.numpy(), term.strength)
    theta = oracle.flat(problem.linear, row)
    if tau == 0:
        return oracle.maximise_quadratic(theta, quadratic)
    numbers = problem.polytope.counting_numbers
    return oracle.maximise(theta, tau * oracle.weights(numbers.nodes, numbers.factors), quadratic)[0]


def iterates(problem: Objective, solver, steps: int):
    """Every state that a solver comes through, driven by hand."""
    problem = solver.prepare(problem)
    state = solver.init(problem)
    yield state
    for number in range(1, steps + 1):
        state = solver.step(problem, state, number)
        yield state


class TestOptimum:
    @pytest.mark.parametrize("term", [Wishes, EdgeWishes])
    @pytest.mark.parametrize("graph", [TRIANGLE, WITH_TRIPLE], ids=["triangle", "triple"])
    @pytest.mark.parametrize("temperature", [1.0, 0.3])
    def test_mirror_descent_with_entropy(self, graph, term, temperature):
        problem = objective(LocalPolytope(graph), term.of(graph), temperature)
        solution = solve(problem, MirrorDescent(), max_steps=300, tolerance=1e-6)
        assert solution.converged.all()
        for row in range(3):
            assert solution.value[row].item() == pytest.approx(best_value(problem, row), abs=1e-5)

    @pytest.mark.parametrize(
        ("graph", "term", "strength"),
        [
            (TRIANGLE, Wishes, 1.0),
            (TRIANGLE, EdgeWishes, 0.3),
            (WITH_TRIPLE, Wishes, 1.0),
            (WITH_TRIPLE, EdgeWishes, 1.0),
        ],
    )
    def test_mirror_descent_without_entropy(self, graph, term, strength):
        problem = objective(LocalPolytope(graph, oracle="lp"), term.of(graph, strength), 0.0, batch=2)
        solution = solve(problem, MirrorDescent(), max_steps=60, tolerance=1e-4)
        for row in range(2):
            best = best_value(problem, row)
            assert solution.value[row].item() <= best + 1e-6
            assert solution.value[row].item() == pytest.approx(best, abs=1e-3)

    @pytest.mark.parametrize(
        ("graph", "term", "strength"),
        [
            (TRIANGLE, Wishes, 0.1),
            (TRIANGLE, EdgeWishes, 0.07),
            (WITH_TRIPLE, Wishes, 0.2),
            (WITH_TRIPLE, EdgeWishes, 0.2),
        ],
    )
    def test_frank_wolfe_without_entropy(self, graph, term, strength):
        """Weak terms, as it zigzags for a long time where the maximum is inside a large face."""
        problem = objective(LocalPolytope(graph, oracle="lp"), term.of(graph, strength), 0.0)
        solution = solve(problem, FrankWolfe(), max_steps=100, tolerance=1e-3)
        assert solution.steps.max() > 3
        for row in range(3):
            best = best_value(problem, row)
            assert solution.value[row].item() <= best + 1e-6
            assert best <= solution.value[row].item() + solution.residual[row].item() + 1e-6
            assert solution.value[row].item() == pytest.approx(best, abs=1e-3)

    @pytest.mark.parametrize("term", [Wishes, EdgeWishes])
    def test_frank_wolfe_with_entropy(self, term):
        problem = objective(LocalPolytope(TRIANGLE), term.of(TRIANGLE), 1.0)
        solution = solve(problem, FrankWolfe(), max_steps=300, tolerance=1e-4)
        for row in range(3):
            assert solution.value[row].item() == pytest.approx(best_value(problem, row), abs=1e-3)

    @pytest.mark.parametrize("solver", SOLVERS, ids=repr)
    @pytest.mark.parametrize("temperature", [1.0, 0.0])
    def test_the_gap_bounds_what_is_missing(self, solver, temperature):
        polytope = LocalPolytope(TRIANGLE, oracle="lp")
        problem = objective(polytope, EdgeWishes.of(TRIANGLE, 3.0), temperature)
        trace = solve(problem, solver, max_steps=10, tolerance=0.0, record_trace=True).trace
        for row in range(3):
            best = best_value(problem, row)
            assert (trace.value[:, row] <= best + 1e-6).all()
            assert (trace.value[:, row] + trace.residual[:, row] >= best - 1e-5).all()


class TestFeasibility:
    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize(
        "solver", [*SOLVERS, MirrorDescent(3.0, "sqrt"), FrankWolfe("harmonic", "vertex")], ids=repr
    )
    @pytest.mark.parametrize("graph", [TRIANGLE, DIFFERENT], ids=["triangle", "different"])
    def test_every_iterate_is_a_point_of_the_set(self, graph, solver, temperature, oracle):
        problem = objective(LocalPolytope(graph, oracle=oracle), EdgeWishes.of(graph, 3.0), temperature)
        for state in iterates(problem, solver, 6):
            assert infeasibility(graph, state.marginals) < 1e-12

    @pytest.mark.parametrize("solver", SOLVERS, ids=repr)
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_also_where_messages_are_cut_short(self, solver, temperature):
        polytope = LocalPolytope(TRIANGLE, max_sweeps=1)
        problem = objective(polytope, EdgeWishes.of(TRIANGLE, 3.0), temperature)
        for state in iterates(problem, solver, 12):
            assert infeasibility(TRIANGLE, state.marginals) < 1e-12

    @pytest.mark.parametrize("term", [Wishes, EdgeWishes])
    @pytest.mark.parametrize("solver", SOLVERS, ids=repr)
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_of_solutions(self, term, solver, temperature):
        """With all parts, and nothing where a variable has no such label."""
        problem = objective(LocalPolytope(DIFFERENT), term.of(DIFFERENT), temperature)
        solution = solve(problem, solver, max_steps=15)
        assert len(solution.marginals.tensors()) == 3
        assert infeasibility(DIFFERENT, solution.marginals) < 1e-12

    @pytest.mark.parametrize("solver", SOLVERS, ids=repr)
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    def test_scores_where_a_variable_has_no_such_label_change_nothing(self, solver, temperature, oracle):
        problem = objective(LocalPolytope(DIFFERENT, oracle=oracle), EdgeWishes.of(DIFFERENT), temperature)
        garbage = replace(problem, potentials=random_scores(DIFFERENT, batch=3, scale=1.0))
        assert torch.isnan(garbage.potentials.nodes).any()
        expected, actual = solve(problem, solver, max_steps=5), solve(garbage, solver, max_steps=5)
        torch.testing.assert_close(actual.value, expected.value)
        torch.testing.assert_close(actual.marginals.edges, expected.marginals.edges)

    @pytest.mark.parametrize("solver", SOLVERS, ids=repr)
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_forbidden_labels_stay_forbidden(self, solver, temperature):
        problem = objective(LocalPolytope(TRIANGLE), EdgeWishes.of(TRIANGLE, 3.0), temperature)
        problem.potentials.nodes[:, 1, 2] = -torch.inf
        solution = solve(problem, solver, max_steps=10)
        assert torch.isfinite(solution.value).all()
        assert (solution.marginals.nodes[:, 1, 2] == 0).all()
        assert infeasibility(TRIANGLE, solution.marginals) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_objective_never_falls(solver, temperature, dtype):
    problem = objective(LocalPolytope(TRIANGLE), EdgeWishes.of(TRIANGLE, 5.0), temperature, dtype=dtype)
    solution = solve(problem, solver, max_steps=20, tolerance=0.0, record_trace=True)
    assert (solution.trace.value.diff(dim=0) >= 0).all()
    assert (solution.value > solution.trace.value[0]).all()


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("polytope", [Tree(CHAIN), LocalPolytope(TRIANGLE), LocalPolytope(DIFFERENT)])
def test_the_value_is_that_of_the_marginals(polytope, solver, temperature):
    problem = objective(polytope, Wishes.of(polytope.graph), temperature)
    solution = solve(problem, solver, max_steps=10)
    value = problem.linear.dot(solution.marginals) + problem.term_value(solution.marginals)
    value = value + temperature * polytope.entropy(solution.marginals)
    torch.testing.assert_close(value, solution.value, atol=1e-6, rtol=0)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("temperature", [1.0, 0.25])
@pytest.mark.parametrize("polytope", [Tree(CHAIN), LocalPolytope(TRIANGLE), LocalPolytope(DIFFERENT)])
def test_a_zero_term_is_the_base_model_at_once(polytope, temperature, solver):
    term = PaddedMLP(polytope.graph.max_labels, polytope.graph.num_nodes).double()
    problem = objective(polytope, term, temperature)
    solution = solve(problem, solver, tolerance=1e-5)
    value, marginals = polytope.sums(problem.potentials * (1 / temperature))
    assert solution.converged.all()
    assert (solution.steps == 0).all()
    torch.testing.assert_close(solution.value, temperature * value, atol=1e-6, rtol=0)
    for actual, expected in zip(solution.marginals.tensors(), marginals.tensors(), strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("polytope", [Tree(CHAIN), LocalPolytope(CHAIN, "bethe", tolerance=1e-12)])
@pytest.mark.parametrize("term", [Wishes, EdgeWishes])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_on_a_chain_it_is_the_chains_solution(polytope, term, temperature, solver):
    problem = objective(polytope, term.of(CHAIN, 2.0), temperature)
    actual = solve(problem, solver, max_steps=15, tolerance=1e-4)
    chain = replace(problem, polytope=Chain(torch.tensor([4, 4, 4])))
    expected = solve(chain, solver, max_steps=15, tolerance=1e-4)
    assert (actual.steps == expected.steps).all()
    torch.testing.assert_close(actual.value, expected.value, atol=1e-6, rtol=0)
    for mine, its in [(actual.theta, expected.theta), (actual.marginals, expected.marginals)]:
        torch.testing.assert_close(mine.nodes, its.nodes, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(mine.edges, its.edges, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "polytope",
    [Tree(CHAIN), Tree(graph_of([3] * 4, [])), LocalPolytope(graph_of([3] * 4, []))],
    ids=["tree", "tree without edges", "local without edges"],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_without_edge_scores_it_is_a_spen(polytope, temperature, solver):
    problem = objective(polytope, Wishes.of(polytope.graph, 2.0), temperature)
    problem = replace(problem, potentials=Parts(problem.potentials.nodes))
    actual = solve(problem, solver, max_steps=50, tolerance=1e-4)
    spen = replace(problem, polytope=Simplex(problem.context.mask))
    expected = solve(spen, solver, max_steps=50, tolerance=1e-4)
    if isinstance(solver, FrankWolfe) and temperature > 0:  # mixtures of independent variables are dependent
        torch.testing.assert_close(actual.value, expected.value, atol=0.02, rtol=0)
        return
    assert (actual.steps == expected.steps).all()
    torch.testing.assert_close(actual.value, expected.value, atol=1e-9, rtol=0)
    torch.testing.assert_close(actual.marginals.nodes, expected.marginals.nodes, atol=1e-7, rtol=0)
    torch.testing.assert_close(actual.theta.nodes, expected.theta.nodes, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_results_do_not_depend_on_batch_mates(solver):
    """Messages stay with their example when others have converged and are gone."""
    polytope = LocalPolytope(TRIANGLE, tolerance=1e-10, max_sweeps=1000)
    problem = objective(polytope, EdgeWishes.of(TRIANGLE, 2.0), 1.0, batch=6, scale=2.0)
    together = solve(problem, solver, max_steps=30, tolerance=1e-3)
    assert len(together.steps.unique()) > 1, "examples should need different numbers of steps"
    for row in range(6):
        alone = solve(problem.select(torch.tensor([row])), solver, max_steps=30, tolerance=1e-3)
        assert alone.steps.item() == together.steps[row]
        torch.testing.assert_close(alone.value[0], together.value[row], atol=1e-7, rtol=0)
        torch.testing.assert_close(alone.marginals.nodes[0], together.marginals.nodes[row], atol=1e-5, rtol=0)


def test_a_solution_leaves_nothing_behind_in_the_polytope():
    polytope = LocalPolytope(TRIANGLE)
    problem = objective(polytope, Wishes.of(TRIANGLE, 2.0))
    before = polytope.marginals(problem.potentials).edges
    solve(problem, MirrorDescent())
    torch.testing.assert_close(polytope.marginals(problem.potentials).edges, before, rtol=0, atol=0)
