"""Linear scores on pairs of binary variables: minimum cuts beside the linear program and all labellings."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gspen_ner import FactorGraph, LocalPolytope
from gspen_ner.parts import Parts
from tests.graph_strategies import enumerate_graph, infeasibility


def complete(nodes):
    return FactorGraph.of_edges([2] * nodes, list(combinations(range(nodes), 2))).compile()


def scores(graph, batch=1, fields=1.0, ties=1.0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    nodes = fields * torch.randn(batch, graph.num_nodes, 2, generator=draw, dtype=torch.float64)
    edges = ties * torch.randn(batch, graph.num_edges, 2, 2, generator=draw, dtype=torch.float64)
    return Parts(nodes, edges)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 7), st.sampled_from([0.0, 0.1, 1.0, 1e4]), st.integers(0, 10**6))
def test_it_is_the_linear_programs_maximum_and_in_the_set(nodes, ties, seed):
    graph = complete(nodes)
    theta = scores(graph, 3, ties=ties, seed=seed)
    actual = LocalPolytope(graph, oracle="cut").maximiser(theta)
    best = theta.dot(LocalPolytope(graph, oracle="lp").maximiser(theta))
    torch.testing.assert_close(theta.dot(actual), best, rtol=1e-9, atol=1e-9)
    assert infeasibility(graph, actual) < 1e-12
    assert ((2 * actual.nodes).round() == 2 * actual.nodes).all()


def test_three_that_all_want_to_differ_are_half_of_each_label():
    graph = complete(3)
    theta = Parts(torch.zeros(1, 3, 2), -torch.eye(2))
    polytope = LocalPolytope(graph, oracle="cut")
    actual = polytope.maximiser(theta)
    torch.testing.assert_close(actual.nodes, torch.full((1, 3, 2), 0.5))
    assert theta.dot(actual).item() == 0
    assert sorted(polytope.argmax(theta)[0].tolist()) in ([0, 0, 1], [0, 1, 1])


def test_argmax_is_best_where_the_maximiser_is_a_labelling_and_improved_elsewhere():
    graph = complete(6)
    theta = scores(graph, 60, fields=2.0)
    polytope = LocalPolytope(graph, oracle="cut")
    labels, nodes = polytope.argmax(theta), polytope.maximiser(theta).nodes
    whole = (nodes != 0.5).all(-1).all(-1)
    assert 0 < whole.sum() < 60
    actual = polytope.score(theta, labels)
    for row in range(60):
        best = enumerate_graph(graph, theta, row).best
        if whole[row]:
            assert actual[row].item() == pytest.approx(best)
        for node in range(6):
            other = labels[row : row + 1].clone()
            other[0, node] = 1 - other[0, node]
            assert (
                polytope.score(theta.select(torch.tensor([row])), other).item() <= actual[row].item() + 1e-6
            )


def test_rows_do_not_depend_on_each_other():
    graph = complete(8)
    theta, polytope = scores(graph, 10), LocalPolytope(graph, oracle="cut")
    whole = polytope.maximiser(theta)
    for row in range(10):
        alone = polytope.maximiser(theta.select(torch.tensor([row])))
        assert torch.equal(alone.nodes[0], whole.nodes[row])


def test_a_labelling_does_not_depend_on_what_is_forbidden_elsewhere():
    graph = complete(8)
    theta, polytope = scores(graph, 40, fields=0.3), LocalPolytope(graph, oracle="cut")
    expected = polytope.argmax(theta)
    theta.nodes[0, 0, 0] = -torch.inf
    actual = polytope.argmax(theta)
    assert torch.equal(actual[1:], expected[1:])
    assert torch.equal(actual[:1], polytope.argmax(theta.select(torch.tensor([0]))))


def test_forbidden_entries_and_labels_go_to_the_linear_program():
    graph = complete(4)
    theta = scores(graph, 6)
    theta.edges[1, 2, 0, 1] = -torch.inf
    theta.nodes[3, 0, 1] = -torch.inf
    actual = LocalPolytope(graph, oracle="cut").maximiser(theta)
    best = theta.dot(LocalPolytope(graph, oracle="lp").maximiser(theta))
    torch.testing.assert_close(theta.dot(actual), best)
    labels = LocalPolytope(graph, oracle="cut").argmax(theta)
    assert torch.isfinite(LocalPolytope(graph).score(theta, labels)).all()
    assert labels[3, 0] == 0


@pytest.mark.parametrize(("value", "message"), [(torch.nan, "NaN"), (torch.inf, r"\+inf")])
def test_scores_that_are_none(value, message):
    graph = complete(4)
    theta = scores(graph, 2)
    theta.edges[1, 0, 0, 0] = value
    for use in (LocalPolytope.maximiser, LocalPolytope.argmax):
        with pytest.raises(ValueError, match=f"row 1: {message}"):
            use(LocalPolytope(graph, oracle="cut"), theta)


@pytest.mark.parametrize("counts", [[2, 2, 3], [3, 3, 3]])
def test_only_pairs_of_binary_variables_can_be_cut(counts):
    graph = FactorGraph.of_edges(counts, [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(ValueError, match="two labels"):
        LocalPolytope(graph, oracle="cut")


def test_oracle_sweeps_are_how_often_messages_go_round():
    graph = complete(10)
    theta = scores(graph, 20)
    exact = theta.dot(LocalPolytope(graph, oracle="cut").maximiser(theta))
    few, many = (
        (exact - theta.dot(LocalPolytope(graph, oracle_sweeps=sweeps).maximiser(theta))).mean()
        for sweeps in (1, 300)
    )
    assert 0 <= many < 0.5 * few
    with pytest.raises(ValueError, match="oracle_sweeps must be at least 1, got 0"):
        LocalPolytope(graph, oracle_sweeps=0)
