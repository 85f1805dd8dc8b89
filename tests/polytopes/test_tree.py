import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from gspen_ner import Chain, LocalPolytope, Parts, Simplex, Tree
from tests.graph_strategies import (
    enumerate_graph,
    flat,
    graph_batches,
    graph_of,
    infeasibility,
    random_scores,
)
from tests.polytope_suite import PolytopeCase, PolytopeSuite

FORESTS = {
    "chain": ([3, 3, 3], [(0, 1), (1, 2)]),
    "star": ([3, 3, 3, 3], [(0, 2), (2, 1), (3, 2)]),
    "forest with an isolated node": ([2, 2, 2, 2, 2], [(4, 1), (1, 0), (2, 4)]),
    "triple": ([2, 2, 2, 2, 2], [(0, 1), (3, 1, 2), (4, 3)]),
    "different labels": ([2, 4, 3, 2], [(1, 0), (1, 2, 3)]),
    "nodes alone": ([2, 3], []),
}
IMPOSSIBLE = {
    "label": (-torch.inf, "nodes", "row 1: no labelling is possible: each has a forbidden"),
    "entry": (-torch.inf, "edges", "row 1: no labelling is possible: each has a forbidden"),
    "NaN label": (torch.nan, "nodes", "row 1: NaN among the node scores"),
    "NaN entry": (torch.nan, "edges", "row 1: NaN among the factor scores"),
    "infinite label": (torch.inf, "nodes", r"row 1: \+inf among the node scores"),
    "infinite entry": (torch.inf, "edges", r"row 1: \+inf among the factor scores"),
}


def chain_graph(length, labels):
    return graph_of([labels] * length, [(t, t + 1) for t in range(length - 1)])


def star(scores, tables):
    """Node 0 is linked to all others: the polytope and its theta."""
    polytope = Tree(graph_of([2] * len(scores), [(0, node) for node in range(1, len(scores))]))
    return polytope, Parts(scores[None], tables[None])


def star_by_hand(scores, tables):
    """Log partition, and the marginal of node 0: all others are summed out one by one."""
    root = scores[0] + (scores[1:, None] + tables).logsumexp(-1).sum(0)
    return root.logsumexp(0), root.softmax(0)


class TestTree(PolytopeSuite):
    @pytest.fixture(params=FORESTS)
    def case(self, request):
        graph = graph_of(*FORESTS[request.param])
        labellings = [list(y) for y in itertools.product(*(range(count) for count in graph.label_counts))]
        theta = graph.unflatten(*graph.flatten(random_scores(graph, batch=3)))
        return PolytopeCase(Tree(graph), theta, [labellings] * 3)


def assert_equals_enumeration(polytope, theta, atol=1e-9):
    log_z, marginals = polytope.sums(theta)
    best, labels = polytope.best(theta)
    for row in range(len(theta.nodes)):
        truth = enumerate_graph(polytope.graph, theta, row)
        np.testing.assert_allclose(log_z[row], truth.log_partition, rtol=1e-12, atol=atol)
        np.testing.assert_allclose(flat(marginals, row), truth.marginals, atol=atol)
        chosen = (truth.labellings == labels[row].numpy()).all(1)
        np.testing.assert_allclose(truth.scores[chosen], truth.best, rtol=1e-12, atol=atol)
        np.testing.assert_allclose(best[row], truth.best, rtol=1e-12, atol=atol)
    assert infeasibility(polytope.graph, marginals) < 1e-12


@given(graph_batches(forests=True))
def test_equals_enumeration(batch):
    if batch.graph.scopes:  # the suite has a graph without factors
        assert_equals_enumeration(Tree(batch.graph), batch.theta)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("name", ["chain", "star", "triple", "different labels"])
def test_extreme_scores(name, scale):
    graph = graph_of(*FORESTS[name])
    assert_equals_enumeration(Tree(graph), random_scores(graph, batch=20, scale=scale, seed=5), atol=1e-8)


@settings(max_examples=30)
@given(graph_batches(forests=True, masks=True, max_batch=20))
def test_forbidden_labels_and_entries(batch):
    if batch.graph.scopes:
        assert_equals_enumeration(Tree(batch.graph), batch.theta)


def test_a_long_chain_with_forbidden_transitions():
    chain, tree = Chain(torch.tensor([50] * 4)), Tree(chain_graph(50, 3))
    theta = Parts(torch.randn(4, 50, 3).double(), torch.randn(4, 49, 3, 3).double())
    theta.edges[:, :, 0, 2] = -torch.inf
    expected, marginals = chain.sums(theta)
    log_z, actual = tree.sums(theta)
    torch.testing.assert_close(log_z, expected)
    torch.testing.assert_close(actual.edges, marginals.edges)


def test_a_forbidden_entry_makes_an_unlikely_label_win():
    """Node 1 dislikes label 1 by 1,000; node 0 needs it even more, and the table leaves no other way."""
    forbidden = torch.tensor([[0.0, 0.0], [-torch.inf, 0.0]])
    polytope, theta = star(torch.tensor([[-2000.0, 0.0], [0.0, -1000.0]]), forbidden[None])
    assert polytope.best(theta)[0].item() == -1000
    log_z, marginals = polytope.sums(theta)
    assert log_z.item() == pytest.approx(-1000)
    assert marginals.nodes[0].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("scale", [1.0, 50.0, 1e4])
def test_a_star_of_many_variables(scale):
    scores, tables = torch.randn(159, 2).double(), scale * torch.randn(158, 2, 2).double()
    polytope, theta = star(scores, tables)
    log_z, marginals = polytope.sums(theta)
    expected, root = star_by_hand(scores, tables)
    torch.testing.assert_close(log_z[0], expected)
    torch.testing.assert_close(marginals.nodes[0, 0], root)
    assert infeasibility(polytope.graph, marginals) < 1e-12
    best = scores[0] + (scores[1:, None] + tables).amax(-1).sum(0)
    assert polytope.best(theta)[0].item() == pytest.approx(best.max().item())


def test_a_star_whose_centre_is_undecided():
    """Each of 158 tables is against label 1 by some nats, and its own score outweighs them all."""
    tables = torch.randn(158, 2, 2).double()
    tables[:, 1] -= 8
    scores = torch.randn(159, 2).double()
    scores[0, 1] += 8 * 158
    polytope, theta = star(scores, tables)
    log_z, marginals = polytope.sums(theta)
    expected, root = star_by_hand(scores, tables)
    torch.testing.assert_close(log_z[0], expected)
    torch.testing.assert_close(marginals.nodes[0, 0], root)


def test_a_star_whose_parts_need_its_centre():
    """No leaf without the centre, as tags that imply another; leaves are moderately unlikely."""
    forbidden = torch.tensor([[0.0, 0.0], [-torch.inf, 0.0]]).double()
    scores = torch.tensor([[0.0, -10.0]]).double().repeat(159, 1)
    scores[0] = torch.tensor([-1600.0, 0.0])
    polytope, theta = star(scores, forbidden.expand(158, 2, 2))
    expected, root = star_by_hand(scores, forbidden.expand(158, 2, 2))
    log_z, marginals = polytope.sums(theta)
    torch.testing.assert_close(log_z[0], expected)
    torch.testing.assert_close(marginals.nodes[0, 0], root)


@pytest.mark.parametrize("labels", [2, 5])
def test_on_a_chain_it_is_the_chain(labels):
    chain, tree = Chain(torch.tensor([6, 6, 6])), Tree(chain_graph(6, labels))
    for edges in [(3, 5), (1, 1), (3, 1)]:
        theta = Parts(torch.randn(3, 6, labels).double(), torch.randn(*edges, labels, labels).double())
        (log_z, actual), (expected, marginals) = tree.sums(theta), chain.sums(theta.per_position())
        torch.testing.assert_close(log_z, expected)
        torch.testing.assert_close(actual.nodes, marginals.nodes)
        torch.testing.assert_close(actual.edges, marginals.edges)
        assert (tree.argmax(theta) == chain.argmax(theta)).all()
        torch.testing.assert_close(tree.entropy(actual), chain.entropy(marginals))


@pytest.mark.parametrize("edges", [(3, 5), (1, 1), (3, 1)])
def test_likelihood_and_its_gradients_are_the_chains(edges):
    labels = torch.randint(0, 4, (3, 6))
    scores = [torch.randn(3, 6, 4).double(), torch.randn(*edges, 4, 4).double()]
    actual = []
    for polytope in (Chain(torch.tensor([6, 6, 6])), Tree(chain_graph(6, 4))):
        theta = Parts(*(score.clone().requires_grad_() for score in scores))
        value = polytope.log_likelihood(theta, labels)
        (value * torch.tensor([1.0, 2.0, -3.0])).sum().backward()
        actual.append([value, theta.nodes.grad, theta.edges.grad])
    for mine, its in zip(*actual, strict=True):
        torch.testing.assert_close(mine, its)


@given(graph_batches(forests=True, max_batch=2))
def test_gradients_of_the_log_partition_are_the_marginals(batch):
    if not batch.graph.scopes:
        return
    polytope = Tree(batch.graph)
    theta = batch.theta.map(lambda tensor: tensor.clone().requires_grad_())
    polytope.log_partition(theta).sum().backward()
    marginals = polytope.marginals(batch.theta)
    for scores, expected in zip(theta.tensors(), marginals.tensors(), strict=True):
        torch.testing.assert_close(scores.grad, expected)


def test_entropy_is_the_true_one():
    graph = graph_of(*FORESTS["triple"])
    polytope, theta = Tree(graph), random_scores(graph)
    truth = enumerate_graph(graph, theta, 0)
    p = np.exp(truth.scores - truth.log_partition)
    assert polytope.entropy(polytope.marginals(theta)).item() == pytest.approx(-(p * np.log(p)).sum())


def test_single_precision():
    graph = graph_of(*FORESTS["triple"])
    theta = random_scores(graph, batch=3)
    log_z, marginals = Tree(graph).sums(theta.map(torch.Tensor.float))
    expected_z, expected = Tree(graph).sums(theta)
    assert log_z.dtype == torch.float64
    torch.testing.assert_close(log_z, expected_z, rtol=1e-6, atol=1e-5)
    for single, double in zip(marginals.tensors(), expected.tensors(), strict=True):
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-6)


def test_half_precision_gives_single():
    theta = random_scores(chain_graph(3, 2)).map(torch.Tensor.bfloat16)
    marginals = Tree(chain_graph(3, 2)).marginals(theta)
    assert marginals.nodes.dtype == torch.float32


def test_without_edge_scores_it_is_a_product_of_simplices():
    theta = Parts(torch.randn(3, 4, 3))
    tree, simplex = Tree(chain_graph(4, 3)), Simplex(torch.ones(3, 4, dtype=torch.bool))
    torch.testing.assert_close(tree.log_partition(theta), simplex.log_partition(theta))
    torch.testing.assert_close(tree.marginals(theta).nodes, simplex.marginals(theta).nodes)
    assert (tree.argmax(theta) == simplex.argmax(theta)).all()


def test_only_nodes_if_edges_are_not_asked_for():
    graph = graph_of(*FORESTS["triple"])
    _, marginals = Tree(graph).sums(random_scores(graph), with_edges=False)
    assert len(marginals.tensors()) == 1


def test_a_loop_is_refused():
    with pytest.raises(ValueError, match=r"Tree needs a graph without loops.*; use LocalPolytope"):
        Tree(graph_of([2, 2, 2], [(0, 1), (1, 2), (2, 0)]))


class TestImpossible:
    """What no polytope can do is said, whatever is asked for and whichever row it is."""

    @pytest.fixture(params=IMPOSSIBLE)
    def cause(self, request):
        value, part, message = IMPOSSIBLE[request.param]
        theta = random_scores(chain_graph(3, 2), batch=3)
        getattr(theta, part)[1, 1] = value
        return theta, message

    @pytest.mark.parametrize("polytope", [Tree, LocalPolytope])
    @pytest.mark.parametrize("ask", ["sums", "marginals", "log_partition"])
    def test_sums(self, cause, polytope, ask):
        theta, message = cause
        with pytest.raises(ValueError, match=message):
            getattr(polytope(chain_graph(3, 2)), ask)(theta)

    @pytest.mark.parametrize(("polytope", "ask"), [(Tree, "argmax"), (LocalPolytope, "maximiser")])
    def test_best(self, cause, polytope, ask):
        theta, message = cause
        with pytest.raises(ValueError, match=message):
            getattr(polytope(chain_graph(3, 2)), ask)(theta)

    def test_gold_labels(self):
        theta = random_scores(chain_graph(3, 2), batch=2)
        theta.edges[1, 0, 0, 1] = -torch.inf
        with pytest.raises(ValueError, match="row 1: the gold labels contain a forbidden label"):
            Tree(chain_graph(3, 2)).log_likelihood(theta, torch.tensor([[0, 1, 0], [0, 1, 0]]))


def test_labels_that_do_not_exist():
    graph = graph_of([2, 3], [(0, 1)])
    tree, theta = Tree(graph), random_scores(graph, batch=2)
    with pytest.raises(ValueError, match=r"row 1: label 2 of 0 is outside 0\.\.1"):
        tree.vertex(torch.tensor([[1, 2], [2, 1]]), theta)
    with pytest.raises(ValueError, match=r"row 0: label -1 of 1 is outside 0\.\.2"):
        tree.score(theta, torch.tensor([[1, -1], [0, 1]]))
    with pytest.raises(
        ValueError, match=r"must be integers of shape \[2, 2\], got torch.int64 of shape \[1, 2\]"
    ):
        tree.vertex(torch.tensor([[1, 2]]), theta)
