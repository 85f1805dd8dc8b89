import itertools

import numpy as np
import pytest
import torch
from hypothesis import given

from gspen_ner import FactorGraph, Parts
from tests.graph_strategies import (
    factor_graphs,
    graph_batches,
    graph_of,
    random_scores,
    tables_of,
    without_padding,
)


def sky_and_sea() -> FactorGraph:
    """Two labels of sky, three of sea."""
    graph = FactorGraph()
    graph.add_variable("sky", 2)
    graph.add_variable("sea", 3)
    return graph


@pytest.mark.parametrize(
    ("variables", "table", "message"),
    [
        (["sky", "boat"], None, r"has the unknown variable 'boat'; known: 'sky', 'sea'"),
        ([], None, r"needs one or more different variables, got \(\)"),
        (["sea", "sea"], None, r"needs one or more different variables, got \('sea', 'sea'\)"),
        (["sky", "sea"], torch.zeros(3, 2), r"factor \('sky', 'sea'\) must be \[2, 3\], got \[3, 2\]"),
        (["sky"], [0.0, 0.0, 0.0], r"factor \('sky',\) must be \[2\], got \[3\]"),
    ],
)
def test_factors_that_make_no_sense(variables, table, message):
    with pytest.raises(ValueError, match=message):
        sky_and_sea().add_factor(variables, table)


def test_known_variables_of_an_empty_graph():
    with pytest.raises(ValueError, match="unknown variable 'sky'; known: none yet"):
        FactorGraph().add_factor(["sky"])


@pytest.mark.parametrize("again", [("sky", "sea"), ("sea", "sky")])
def test_a_second_factor_over_the_same_variables(again):
    graph = sky_and_sea()
    graph.add_factor(["sky", "sea"])
    with pytest.raises(ValueError, match=rf"a factor over \('{again[0]}', '{again[1]}'\) already"):
        graph.add_factor(again)


def test_a_refused_factor_leaves_the_graph_as_it_was():
    graph = sky_and_sea()
    with pytest.raises(ValueError, match="must be"):
        graph.add_factor(["sky", "sea"], torch.zeros(3, 2))
    graph.add_factor(["sky", "sea"], torch.zeros(2, 3))
    assert graph.compile().num_edges == 1


def test_variables_that_make_no_sense():
    graph = sky_and_sea()
    with pytest.raises(ValueError, match="there is a variable 'sky' already"):
        graph.add_variable("sky", 2)
    with pytest.raises(ValueError, match="variable 'boat' needs at least two labels, got 1"):
        graph.add_variable("boat", 1)
    with pytest.raises(ValueError, match="the graph is empty; add variables"):
        FactorGraph().compile()


def test_pairs_come_before_larger_factors():
    graph = FactorGraph.of_edges([2, 3, 4], [])
    for scope in [(2, 0, 1), (1, 0), (2,), (1, 2)]:
        graph.add_factor(scope)
    compiled = graph.compile()
    assert compiled.scopes == ((1, 0), (1, 2), (2, 0, 1))
    assert (compiled.num_nodes, compiled.num_edges, compiled.max_labels) == (3, 2, 4)


class TestPotentials:
    @pytest.fixture
    def graph(self):
        graph = sky_and_sea()
        graph.add_variable("boat", 2)
        graph.add_factor(["sea", "sky"])
        graph.add_factor(["boat", "sea", "sky"])
        graph.add_factor(["sky"], [0.5, 0.25])
        graph.add_factor(["boat", "sky"], [[1.0, 2.0], [3.0, 4.0]])
        return graph.compile()

    def test_by_variable_and_by_factor(self, graph):
        sea, pair, triple = torch.randn(4, 3), torch.randn(4, 3, 2), torch.randn(4, 2, 3, 2)
        theta = graph.potentials({"sea": sea, ("sea", "sky"): pair, ("boat", "sea", "sky"): triple})
        assert [list(part.shape) for part in theta.tensors()] == [[4, 3, 3], [4, 2, 3, 3], [4, 12]]
        for row in range(4):
            nodes, tables = tables_of(graph, theta, row)
            np.testing.assert_array_equal(nodes[1], sea[row])
            np.testing.assert_array_equal(tables[0], pair[row])
            np.testing.assert_array_equal(tables[2], triple[row])

    def test_what_is_given_is_added_to_what_the_graph_holds(self, graph):
        bare = graph.potentials()
        theta = graph.potentials({"sky": torch.ones(2, 2), ("boat", "sky"): torch.eye(2)})
        for row in range(2):
            nodes, tables = tables_of(graph, theta, row)
            np.testing.assert_array_equal(nodes[0], [1.5, 1.25])
            np.testing.assert_array_equal(nodes[2], [0, 0])
            np.testing.assert_array_equal(tables[1], [[2, 2], [3, 5]])
        np.testing.assert_array_equal(tables_of(graph, bare, 0)[0][0], [0.5, 0.25])

    def test_one_table_for_all_examples(self, graph):
        table = torch.randn(3, 2)
        theta = graph.potentials({("sea", "sky"): table, "sea": torch.zeros(5, 3)})
        for row in range(5):
            np.testing.assert_array_equal(tables_of(graph, theta, row)[1][0], table)

    def test_the_batch_can_be_said(self, graph):
        assert len(graph.potentials(batch=3).nodes) == 3
        assert len(graph.potentials({"sky": torch.zeros(2)}).nodes) == 1
        with pytest.raises(ValueError, match=r"batches of different sizes: \[2, 3\]"):
            graph.potentials({"sky": torch.zeros(2, 2)}, batch=3)

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            ({"sea": (4, 2)}, r"\('sea',\) must be \[3\] or \[batch, 3\], got \[4, 2\]"),
            ({("sea", "sky"): (4, 2, 3)}, r"must be \[3, 2\] or \[batch, 3, 2\], got \[4, 2, 3\]"),
            ({"sea": (1, 4, 3)}, r"must be \[3\] or"),
            ({"sea": ()}, r"must be \[3\] or .* got \[\]"),
            ({"sea": (4, 3), "sky": (2, 2)}, r"batches of different sizes: \[2, 4\]"),
            ({"fish": (2,)}, r"no factor over \('fish',\)"),
            ({("sky", "fish"): (2, 2)}, r"no factor over \('sky', 'fish'\)"),
            ({("sea", "boat"): (3, 2)}, r"no factor over \('sea', 'boat'\)"),
            ({("sky", "sea"): (2, 3)}, r"no factor over \('sky', 'sea'\)"),
        ],
    )
    def test_scores_that_do_not_fit(self, graph, scores, message):
        with pytest.raises(ValueError, match=message):
            graph.potentials({key: torch.zeros(shape) for key, shape in scores.items()})

    def test_gradients_reach_the_scores(self, graph):
        table, sea = torch.zeros(3, 2, requires_grad=True), torch.zeros(4, 3, requires_grad=True)
        theta = graph.potentials({("sea", "sky"): table, "sea": sea})
        (2 * theta.edges.sum() + theta.nodes.sum()).backward()
        assert (table.grad == 8).all()
        assert (sea.grad == 1).all()

    def test_doubles_stay_doubles(self, graph):
        assert graph.potentials({"sea": torch.zeros(1, 3).double()}).nodes.dtype == torch.float64

    def test_whole_numbers_are_scores_too(self, graph):
        theta = graph.potentials({"sky": torch.tensor([[1, 2]])})
        assert theta.nodes[0, 0, :2].tolist() == [1.5, 2.25]

    def test_tables_keep_their_precision(self):
        graph = sky_and_sea()
        graph.add_factor(["sky"], torch.tensor([0.1, 0.2], dtype=torch.float64))
        theta = graph.compile().potentials({"sea": torch.zeros(1, 3).double()})
        assert theta.nodes[0, 0, :2].tolist() == [0.1, 0.2]

    def test_variables_may_be_named_by_tuples(self):
        graph = FactorGraph()
        for pixel in itertools.product(range(2), repeat=2):
            graph.add_variable(pixel, 2)
        graph.add_factor([(0, 0), (0, 1)])
        compiled = graph.compile()
        pair = compiled.potentials({((0, 0), (0, 1)): torch.eye(2)})
        assert pair.edges[0, 0].tolist() == [[1, 0], [0, 1]]
        theta = compiled.potentials({(0, 1): torch.tensor([1.0, 2.0])})
        assert theta.nodes[0, 1].tolist() == [1, 2]


@given(graph_batches())
def test_there_and_back_through_flat_rows(batch):
    graph, theta = batch.graph, batch.theta
    cells, entries = graph.flatten(theta)
    for row in range(len(cells)):
        nodes, tables = tables_of(graph, theta, row)
        np.testing.assert_array_equal(cells[row], np.concatenate(nodes))
        np.testing.assert_array_equal(entries[row], np.concatenate([table.ravel() for table in tables]))
    back = graph.unflatten(cells, entries)
    for actual, expected in zip(back.tensors(), without_padding(graph, theta).tensors(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_missing_parts_are_zeros_and_shared_ones_are_spread():
    graph = graph_of([2, 2, 2], [(0, 1), (1, 2), (0, 1, 2)])
    theta = random_scores(graph, batch=2)
    _, entries = graph.flatten(Parts(theta.nodes))
    assert (entries == 0).all()
    assert entries.shape == (2, 16)
    shared = Parts(theta.nodes, theta.edges[0, 0], theta.factors[:1])
    _, entries = graph.flatten(shared)
    for row in range(2):
        expected = torch.cat([theta.edges[0, 0].flatten()] * 2 + [theta.factors[0]])
        torch.testing.assert_close(entries[row], expected)


def test_scores_of_another_graph():
    theta = random_scores(graph_of([2, 2, 2], [(0, 1), (0, 2), (0, 1, 2)]))
    with pytest.raises(ValueError, match=r"2 nodes of at most 2 labels, got node scores \[1, 3, 2\]"):
        graph_of([2, 2], []).flatten(theta)
    with pytest.raises(ValueError, match="has 3 edges, got scores of 2"):
        graph_of([2, 2, 2], [(0, 1), (0, 2), (1, 2)]).flatten(theta)
    with pytest.raises(ValueError, match=r"has 0 entries in factors over three or more variables, .* of 8"):
        graph_of([2, 2, 2], [(0, 1), (0, 2)]).flatten(theta)


@given(factor_graphs())
def test_no_two_nodes_of_a_colour_share_a_factor(graph):
    colours = graph.index.colours
    assert sorted(np.concatenate(colours).tolist()) == list(range(graph.num_nodes))
    for colour, scope in itertools.product(colours, graph.scopes):
        assert len(set(colour.tolist()) & set(scope)) <= 1


def test_a_star_needs_two_colours():
    assert len(graph_of([2] * 9, [(0, k) for k in range(1, 9)]).index.colours) == 2


@pytest.mark.parametrize(
    ("nodes", "scopes", "forest"),
    [
        (1, [], True),
        (3, [], True),
        (3, [(0, 1), (1, 2)], True),
        (3, [(0, 1), (1, 2), (2, 0)], False),
        (6, [(4, 5), (0, 1), (2, 1)], True),
        (6, [(0, 1), (3, 4), (4, 5), (5, 3)], False),
        (3, [(0, 1, 2)], True),
        (5, [(0, 1, 2), (2, 3, 4)], True),
        (4, [(0, 1, 2), (2, 3)], True),
        (3, [(0, 1, 2), (2, 0)], False),
        (4, [(0, 1, 2), (2, 3), (3, 0)], False),
        (4, [(0, 1, 2), (3, 1, 2)], False),
    ],
    ids=str,
)
def test_forests_are_recognised(nodes, scopes, forest):
    assert graph_of([2] * nodes, scopes).is_forest == forest


@pytest.mark.parametrize("forests", [True, False])
def test_forests_are_where_links_and_components_make_up_all_that_is_linked(forests):
    @given(factor_graphs(forests=forests))
    def check(graph):
        home = list(range(graph.num_nodes + len(graph.scopes)))
        links = [(node, graph.num_nodes + f) for f, scope in enumerate(graph.scopes) for node in scope]
        for one, other in links:
            home = [home[one] if place == home[other] else place for place in home]
        assert graph.is_forest == (len(links) + len(set(home)) == len(home))
        assert graph.is_forest or not forests

    check()
