import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from gspen_ner import CountingNumbers, LocalPolytope, Parts, Simplex, Tree
from gspen_ner.kernels.loops import messages as loops
from gspen_ner.kernels.messages import Sweeps, pass_messages
from gspen_ner.kernels.messages_log_space import pass_messages_in_log_space
from gspen_ner.polytopes.polytope import Messages
from tests.graph_strategies import (
    enumerate_graph,
    flat,
    graph_batches,
    graph_of,
    infeasibility,
    random_scores,
)
from tests.local_oracle import LocalOracle

TRIANGLE = ([2, 3, 2], [(0, 1), (1, 2), (2, 0)])
GRAPHS = {
    "triangle": TRIANGLE,
    "square with a tail": ([3, 2, 3, 2, 4], [(0, 1), (2, 1), (2, 3), (3, 0), (4, 0)]),
    "complete": ([3] * 4, list(itertools.combinations(range(4), 2))),
    "triple": ([2, 3, 2, 2], [(0, 1), (3, 0), (2, 1, 0), (1, 3, 2)]),
}
FOREST = ([3, 2, 4, 2, 2], [(0, 1), (1, 2), (3, 1, 4)])


def positive_numbers(graph, seed=0):
    random = np.random.default_rng(seed)
    nodes, factors = random.uniform(0.0, 2.0, graph.num_nodes), random.uniform(0.3, 3.0, len(graph.scopes))
    nodes[0] = 0.0  # allowed
    return CountingNumbers(torch.tensor(nodes), torch.tensor(factors))


def spread_parts(scale, batch=1, seed=3, graph=GRAPHS["complete"]):
    graph = graph_of(*graph)
    return graph, random_scores(graph, batch, scale, seed=seed)


@pytest.fixture
def sweeps(monkeypatch):
    """How many sweeps each block of examples took, in the order in which they were asked for."""
    counts, original = [], loops.pass_messages

    def counting(*arguments):
        counts.append(original(*arguments))
        return counts[-1]

    monkeypatch.setattr(loops, "pass_messages", counting)
    return counts


def assert_close(actual: Parts, expected: Parts, atol: float):
    for mine, its in zip(actual.tensors(), expected.tensors(), strict=True):
        torch.testing.assert_close(mine, its, atol=atol, rtol=0)


class TestBeliefs:
    """Beliefs and value, against Newton's method over constraints that the test builds by itself."""

    @pytest.mark.parametrize("numbers", ["unit", "positive"])
    @pytest.mark.parametrize("name", GRAPHS)
    def test_they_maximise_score_and_entropy(self, name, numbers):
        graph = graph_of(*GRAPHS[name])
        polytope = LocalPolytope(graph, numbers if numbers == "unit" else positive_numbers(graph))
        theta, oracle = random_scores(graph, batch=4), LocalOracle(graph)
        weights = oracle.weights(polytope.counting_numbers.nodes, polytope.counting_numbers.factors)
        value, marginals = polytope.sums(theta)
        for row in range(4):
            best, beliefs = oracle.maximise(oracle.flat(theta, row), weights)
            np.testing.assert_allclose(oracle.flat(marginals, row), beliefs, atol=1e-5)
            assert value[row].item() == pytest.approx(best, abs=1e-9)
            assert value[row].item() <= best + 1e-9

    @settings(max_examples=25)
    @given(graph_batches(max_batch=1))
    def test_on_any_graph(self, batch):
        oracle = LocalOracle(batch.graph)
        _, beliefs = oracle.maximise(oracle.flat(batch.theta, 0), np.ones(oracle.starts[-1]))
        actual = LocalPolytope(batch.graph, tolerance=1e-9, max_sweeps=1000).marginals(batch.theta)
        np.testing.assert_allclose(oracle.flat(actual, 0), beliefs, atol=1e-5)

    @settings(max_examples=30)
    @given(graph_batches(forests=True))
    def test_with_bethe_numbers_forests_are_exact(self, batch):
        if not batch.graph.scopes:
            return
        value, marginals = LocalPolytope(batch.graph, "bethe").sums(batch.theta)
        for row in range(len(value)):
            truth = enumerate_graph(batch.graph, batch.theta, row)
            assert value[row].item() == pytest.approx(truth.log_partition, abs=1e-6)
            np.testing.assert_allclose(flat(marginals, row), truth.marginals, atol=1e-6)

    def test_the_papers_entropy_is_not_the_exact_one(self):
        graph = graph_of(*FOREST)
        theta = random_scores(graph)
        actual, exact = LocalPolytope(graph).marginals(theta), Tree(graph).marginals(theta)
        assert (actual.nodes - exact.nodes).abs().max() > 0.05

    def test_the_value_is_that_of_the_beliefs(self):
        graph, theta = spread_parts(2.0, batch=3)
        for max_sweeps in (1, 2, 200):
            polytope = LocalPolytope(graph, positive_numbers(graph), max_sweeps=max_sweeps)
            value, marginals = polytope.sums(theta)
            torch.testing.assert_close(theta.dot(marginals) + polytope.entropy(marginals), value)

    def test_the_gradient_of_the_value_is_the_beliefs(self):
        graph = graph_of(*GRAPHS["triple"])
        polytope = LocalPolytope(graph, tolerance=1e-12, max_sweeps=2000)
        theta = graph.unflatten(*graph.flatten(random_scores(graph, batch=2)))
        inputs = [tensor.requires_grad_() for tensor in theta.tensors()]
        assert torch.autograd.gradcheck(
            lambda *parts: polytope.log_partition(Parts(*parts)), inputs, eps=1e-5, atol=1e-6
        )

    def test_a_shared_table_is_a_table_for_each_edge(self):
        graph = graph_of(*GRAPHS["complete"])
        nodes, table = torch.randn(2, 4, 3).double(), torch.randn(3, 3).double().requires_grad_()
        polytope, spelt_out = LocalPolytope(graph), table.detach().expand(2, 6, 3, 3)
        value, marginals = polytope.sums(Parts(nodes, table))
        expected_value, expected = polytope.sums(Parts(nodes, spelt_out))
        torch.testing.assert_close(value, expected_value)
        torch.testing.assert_close(marginals.edges, expected.edges)
        polytope.log_partition(Parts(nodes, table)).sum().backward()
        torch.testing.assert_close(table.grad, expected.edges.sum((0, 1)))

    def test_without_factors_it_is_a_simplex(self):
        polytope = LocalPolytope(graph_of([3, 3], []))
        theta = Parts(torch.randn(2, 2, 3).double())
        value, marginals = polytope.sums(theta)
        expected_value, expected = Simplex(torch.ones(2, 2, dtype=torch.bool)).sums(theta)
        torch.testing.assert_close(value, expected_value)
        torch.testing.assert_close(marginals.nodes, expected.nodes)


class TestCountingNumbers:
    @pytest.mark.parametrize(
        ("nodes", "factors", "message"),
        [
            ([1.0] * 3, [1.0, 0.0, 1.0], "numbers of factors must be positive"),
            ([1.0] * 3, [1.0, -1.0, 1.0], "numbers of factors must be positive"),
            ([1.0] * 3, [1.0, torch.nan, 1.0], "numbers of factors must be positive"),
            (
                [1.0, -0.5, 1.0],
                [1.0] * 3,
                r"has loops: the counting number of 1 must be at least 0 .*, got -0\.5",
            ),
            ([1.0, -2.0, 1.0], [1.0] * 3, "plus those of its factors must be positive"),
            ([1.0, torch.nan, 1.0], [1.0] * 3, "plus those of its factors must be positive"),
            (
                [1.0] * 2,
                [1.0] * 3,
                r"needs 3 counting numbers of nodes and 3 of factors, got \[2\] and \[3\]",
            ),
            ([1.0] * 3, [1.0] * 4, r"got \[3\] and \[4\]"),
        ],
    )
    def test_bad_ones_are_refused(self, nodes, factors, message):
        numbers = CountingNumbers(torch.tensor(nodes), torch.tensor(factors))
        with pytest.raises(ValueError, match=message):
            LocalPolytope(graph_of(*TRIANGLE), numbers)

    def test_bethe_numbers_on_a_loop_are_refused(self):
        with pytest.raises(
            ValueError, match=r'has loops: .* must be at least 0 .*; use "unit" or larger numbers'
        ):
            LocalPolytope(graph_of(*TRIANGLE[:1], [*TRIANGLE[1], (0, 1, 2)]), "bethe")

    def test_an_entropy_that_is_not_concave_is_refused_on_a_forest_too(self):
        """On a pair that is always alike, all entropies are the same: 1 - 0.9 - 0.9 is negative."""
        numbers = CountingNumbers(torch.tensor([-0.9, -0.9]), torch.tensor([1.0]))
        with pytest.raises(ValueError, match="counting number"):
            LocalPolytope(graph_of([2, 2], [(0, 1)]), numbers)

    def test_unknown_names(self):
        with pytest.raises(ValueError, match='"unit", "bethe" or CountingNumbers, got \'one\''):
            CountingNumbers.of(graph_of(*TRIANGLE), "one")

    def test_bethe_numbers_of_a_forest(self):
        numbers = LocalPolytope(graph_of(*FOREST), "bethe").counting_numbers
        assert numbers.nodes.tolist() == [0, -2, 0, 0, 0]
        assert numbers.factors.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_sweeps": 0}, "max_sweeps must be at least 1, got 0"),
        ({"tolerance": -1.0}, "tolerance must be at least 0, got -1.0"),
        ({"tolerance": torch.nan}, "tolerance must be at least 0, got nan"),
    ],
    ids=str,
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        LocalPolytope(graph_of(*TRIANGLE), **options)


class TestSweeps:
    def test_a_loose_tolerance_stops_early(self, sweeps):
        graph, theta = spread_parts(3.0)
        tight = LocalPolytope(graph, tolerance=1e-10, max_sweeps=1000).marginals(theta)
        for tolerance in (1e-2, 1e-4, 1e-6):
            actual = LocalPolytope(graph, tolerance=tolerance, max_sweeps=1000).marginals(theta)
            assert (actual.nodes - tight.nodes).abs().max() < 100 * tolerance
        most, *fewer = sweeps
        assert fewer == sorted(fewer)
        assert 1 < fewer[0] < most / 3
        assert most < 1000

    def test_a_tolerance_of_zero_takes_all_sweeps(self, sweeps):
        graph, theta = spread_parts(3.0)
        LocalPolytope(graph, tolerance=0.0, max_sweeps=77).marginals(theta)
        assert sweeps == [77]

    def test_more_sweeps_come_closer(self):
        graph, theta = spread_parts(3.0, batch=8)
        exact = LocalPolytope(graph, tolerance=0.0, max_sweeps=2000).marginals(theta)
        errors = []
        for max_sweeps in (1, 4, 16, 64):
            actual = LocalPolytope(graph, max_sweeps=max_sweeps, tolerance=0.0).marginals(theta)
            errors.append(float((actual.nodes - exact.nodes).abs().max()))
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 1e-3 * errors[0]


class TestWarmStarts:
    def test_they_save_sweeps_and_change_nothing(self, sweeps):
        graph, theta = spread_parts(3.0)
        moved = replace(theta, nodes=theta.nodes + 0.01)
        moved.nodes[:, 0, 0] += 0.01
        polytope, messages = LocalPolytope(graph), Messages()
        assert_close(polytope.marginals(theta, messages), polytope.marginals(theta), 1e-12)
        assert_close(polytope.marginals(moved, messages), polytope.marginals(moved), 1e-5)
        first, again, warm, cold = sweeps
        assert first == again
        assert warm < cold / 1.5

    def test_the_same_scores_again_converge_at_once(self, sweeps):
        graph, theta = spread_parts(3.0, batch=3)
        polytope, messages = LocalPolytope(graph), Messages()
        before = polytope.marginals(theta, messages)
        assert_close(polytope.marginals(theta, messages), before, 1e-5)
        assert sweeps[1] <= 2

    def test_log_partitions_use_and_update_them(self, sweeps):
        graph, theta = spread_parts(3.0, batch=3)
        polytope, messages = LocalPolytope(graph), Messages()
        value = polytope.log_partition(theta, messages)
        leaf = theta.map(lambda tensor: tensor.clone().requires_grad_())
        torch.testing.assert_close(polytope.log_partition(leaf, messages).detach(), value)
        assert sweeps[1] <= 2

    def test_a_polytope_has_no_state(self, sweeps):
        graph, theta = spread_parts(3.0, batch=3)
        polytope = LocalPolytope(graph)
        expected = polytope.marginals(theta)
        polytope.marginals(theta * 2.0, Messages())
        assert_close(polytope.marginals(theta), expected, 0.0)

    def test_rows_keep_their_messages(self, sweeps):
        graph, theta = spread_parts(3.0, batch=5)
        polytope, messages = LocalPolytope(graph), Messages()
        before = polytope.marginals(theta, messages)
        rows = torch.tensor([4, 1, 2])
        some = polytope.marginals(theta.select(rows), messages.select(rows))
        assert_close(some, before.select(rows), 1e-5)
        assert sweeps[1] <= 2
        assert_close(polytope.marginals(theta, messages), before, 1e-5)  # unchanged by the selection
        assert sweeps[2] <= 2

    def test_messages_of_another_batch_are_an_error(self):
        graph, theta = spread_parts(3.0, batch=5)
        polytope, messages = LocalPolytope(graph), Messages()
        polytope.marginals(theta, messages)
        with pytest.raises(ValueError, match="messages must be of 2 examples like the scores, got 5"):
            polytope.marginals(theta.select(torch.tensor([3, 1])), messages)

    def test_forbidden_labels_are_not_remembered(self):
        graph, theta = spread_parts(1.0)
        polytope, messages = LocalPolytope(graph), Messages()
        masked = replace(theta, nodes=theta.nodes.clone())
        masked.nodes[:, 0, :2] = -torch.inf
        polytope.marginals(masked, messages)
        assert_close(polytope.marginals(theta, messages), polytope.marginals(theta), 1e-5)

    def test_an_error_is_not_remembered(self):
        graph, theta = spread_parts(1.0)
        polytope, messages = LocalPolytope(graph), Messages()
        with pytest.raises(ValueError, match="NaN"):
            polytope.marginals(theta * torch.nan, messages)
        assert torch.isfinite(polytope.marginals(theta, messages).nodes).all()


class TestFeasibility:
    """Every answer is a point of the set, however early message passing was stopped."""

    @pytest.mark.parametrize("max_sweeps", [1, 2, 3])
    @pytest.mark.parametrize("scale", [1.0, 10.0, 300.0])
    @pytest.mark.parametrize("name", GRAPHS)
    def test_of_beliefs(self, name, scale, max_sweeps):
        graph = graph_of(*GRAPHS[name])
        theta = random_scores(graph, batch=20, scale=scale)
        for numbers in ("unit", positive_numbers(graph)):
            marginals = LocalPolytope(graph, numbers, max_sweeps=max_sweeps).marginals(theta)
            assert infeasibility(graph, marginals) < 1e-12

    @settings(max_examples=30)
    @given(graph_batches(scale=5.0))
    def test_on_any_graph(self, batch):
        for max_sweeps in (1, 2, 100):
            marginals = LocalPolytope(batch.graph, max_sweeps=max_sweeps).marginals(batch.theta)
            assert infeasibility(batch.graph, marginals) < 1e-12

    def test_of_triples_that_have_converged(self):
        """The variables of a factor never miss exactly the same."""
        graph = graph_of([3] * 5, [(0, 1), (3, 4), (0, 1, 2), (2, 3, 4)])
        theta = random_scores(graph, batch=200, scale=30.0)
        assert infeasibility(graph, LocalPolytope(graph).marginals(theta)) < 1e-12

    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    @pytest.mark.parametrize("name", GRAPHS)
    def test_of_maximisers(self, name, oracle):
        graph = graph_of(*GRAPHS[name])
        polytope = LocalPolytope(graph, oracle=oracle)
        for scale in (0.0, 1.0, 1e4):
            actual = polytope.maximiser(random_scores(graph, batch=5, scale=scale))
            assert infeasibility(graph, actual) < 1e-12


class TestForbidden:
    """Nothing is put on what is forbidden, and the rest is the best there is."""

    @staticmethod
    def check(graph, theta):
        oracle = LocalOracle(graph)
        value, marginals = LocalPolytope(graph).sums(theta)
        for row in range(len(value)):
            best, beliefs = oracle.maximise(oracle.flat(theta, row), np.ones(oracle.starts[-1]))
            actual = oracle.flat(marginals, row)
            assert (actual[np.isneginf(oracle.flat(theta, row))] == 0).all()
            assert value[row].item() == pytest.approx(best, abs=1e-5)
            np.testing.assert_allclose(actual, beliefs, atol=1e-5)
        return infeasibility(graph, marginals)

    @pytest.mark.parametrize("name", GRAPHS)
    def test_labels(self, name):
        graph = graph_of(*GRAPHS[name])
        theta = random_scores(graph)
        theta.nodes[:, 0, 1] = -torch.inf
        assert self.check(graph, theta) < 1e-12

    @pytest.mark.parametrize("name", GRAPHS)
    def test_entries(self, name):
        """Of one table: labels 0 and 1 exclude each other."""
        graph = graph_of(*GRAPHS[name])
        theta = random_scores(graph)
        theta.edges[:, 0, 0, 1] = -torch.inf
        assert self.check(graph, theta) < 1e-6

    @pytest.mark.parametrize("name", GRAPHS)
    def test_also_then_beliefs_are_in_the_set(self, name):
        """When they have converged: what a factor misses before that cannot go to forbidden entries."""
        graph = graph_of(*GRAPHS[name])
        theta = random_scores(graph, batch=20, masks=True, seed=5)
        assert infeasibility(graph, LocalPolytope(graph).marginals(theta)) < 1e-6

    @settings(max_examples=20)
    @given(graph_batches(masks=True))
    def test_what_leaves_a_labelling_is_no_error(self, batch):
        for max_sweeps in (2, 200):
            polytope = LocalPolytope(batch.graph, max_sweeps=max_sweeps)
            assert torch.isfinite(polytope.log_partition(batch.theta)).all()

    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    def test_entries_in_a_maximiser(self, oracle):
        graph = graph_of(*GRAPHS["complete"])
        theta = random_scores(graph, batch=20, masks=True)
        actual = LocalPolytope(graph, oracle=oracle).maximiser(theta)
        assert torch.isfinite(theta.dot(actual)).all()
        assert infeasibility(graph, actual) < 1e-12

    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    def test_a_maximiser_does_not_depend_on_the_forbidden_entries_of_others(self, oracle):
        graph, theta = spread_parts(2.0, batch=12)
        polytope, others = LocalPolytope(graph, oracle=oracle), torch.arange(1, 12)
        expected = polytope.maximiser(theta).select(others)
        theta.edges[0, 0, 0, 1] = -torch.inf
        assert_close(polytope.maximiser(theta).select(others), expected, 1e-6)


class TestMaximiser:
    @pytest.mark.parametrize("name", GRAPHS)
    def test_lp_is_the_maximum_and_messages_are_near(self, name):
        graph = graph_of(*GRAPHS[name])
        theta, oracle = random_scores(graph, batch=20), LocalOracle(graph)
        exact = theta.dot(LocalPolytope(graph, oracle="lp").maximiser(theta))
        near = theta.dot(LocalPolytope(graph, oracle="messages").maximiser(theta))
        for row in range(20):
            assert exact[row].item() == pytest.approx(
                oracle.maximise_linear(oracle.flat(theta, row)), abs=1e-6
            )
        assert (near <= exact + 1e-9).all()
        assert ((exact - near) / exact.abs()).max() < 0.05
        assert ((exact - near) / exact.abs()).median() < 1e-3

    def test_lp_is_above_all_labellings_of_a_frustrated_graph(self):
        """Three binary variables that all want to differ: halves everywhere."""
        graph = graph_of([2, 2, 2], TRIANGLE[1])
        theta = Parts(torch.zeros(1, 3, 2), -torch.eye(2))
        actual = LocalPolytope(graph, oracle="lp").maximiser(theta)
        assert theta.dot(actual).item() == pytest.approx(0)
        torch.testing.assert_close(actual.nodes, torch.full((1, 3, 2), 0.5))
        assert enumerate_graph(graph, LocalPolytope(graph).expand(theta), 0).best == -1

    @settings(max_examples=20)
    @given(graph_batches(forests=True))
    def test_on_a_forest_it_is_a_best_labelling(self, batch):
        for oracle in ("lp", "messages"):
            polytope = LocalPolytope(batch.graph, oracle=oracle)
            labels = polytope.argmax(batch.theta)
            actual = polytope.maximiser(batch.theta)
            assert_close(actual, polytope.vertex(labels, batch.theta), 0.0)
            for row, score in enumerate(batch.theta.dot(actual)):
                truth = enumerate_graph(batch.graph, batch.theta, row)
                assert score.item() == pytest.approx(truth.best, abs=1e-9)

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
    def test_scores_of_any_size_give_the_same_point(self, scale):
        graph, theta = spread_parts(1.0, batch=5)
        for oracle in ("lp", "messages"):
            polytope = LocalPolytope(graph, oracle=oracle)
            assert_close(polytope.maximiser(theta * scale), polytope.maximiser(theta), 1e-6)

    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    def test_argmax_is_at_least_as_good_as_the_likeliest_labels(self, oracle):
        graph, theta = spread_parts(2.0, batch=20)
        polytope = LocalPolytope(graph, oracle=oracle)
        actual = polytope.score(theta, polytope.argmax(theta))
        for point in (polytope.marginals(theta), polytope.maximiser(theta)):
            assert (actual >= polytope.score(theta, point.nodes.argmax(-1)) - 1e-12).all()
        assert (actual > polytope.score(theta, polytope.marginals(theta).nodes.argmax(-1))).any()

    @pytest.mark.parametrize("oracle", ["lp", "messages"])
    @pytest.mark.parametrize(("value", "message"), [(torch.nan, "NaN"), (torch.inf, r"\+inf")])
    def test_scores_that_are_none(self, oracle, value, message):
        graph, theta = spread_parts(2.0, batch=2)
        theta.edges[1, 0, 0, 0] = value
        with pytest.raises(ValueError, match=f"row 1: {message}"):
            LocalPolytope(graph, oracle=oracle).maximiser(theta)

    def test_no_solution(self):
        graph, theta = spread_parts(2.0, batch=2)
        theta.nodes[1, 2] = -torch.inf
        with pytest.raises(ValueError, match="row 1: the linear program has no solution"):
            LocalPolytope(graph, oracle="lp").maximiser(theta)


class TestImplementations:
    """Blocks in the probability domain, and log space."""

    @staticmethod
    def both(graph, theta, numbers, sweeps=10, tolerance=0.0):
        cells, entries = graph.flatten(theta)
        start = torch.ones(len(cells), graph.index.num_messages).double()
        how = Sweeps(graph.index.colours, sweeps, tolerance)
        blocks = pass_messages(graph, numbers, cells, entries, how)
        return blocks, pass_messages_in_log_space(graph, numbers, cells, entries, how, start)

    @settings(max_examples=25)
    @given(graph_batches(masks=True))
    def test_they_agree(self, batch):
        for numbers in (CountingNumbers.of(batch.graph, "unit"), positive_numbers(batch.graph)):
            for mine, its in zip(*self.both(batch.graph, batch.theta, numbers), strict=True):
                torch.testing.assert_close(mine, its, atol=1e-9, rtol=1e-9)

    @pytest.mark.parametrize("batch", [1, 5, 64, 65, 150])
    def test_batches_of_any_size(self, batch):
        graph, theta = spread_parts(3.0, batch)
        for mine, its in zip(*self.both(graph, theta, CountingNumbers.of(graph, "unit")), strict=True):
            assert len(mine) == batch
            torch.testing.assert_close(mine, its, atol=1e-9, rtol=0)

    def test_messages_are_where_a_later_call_may_go_on_from(self):
        graph, theta = spread_parts(3.0, batch=3)
        numbers, sweeps = CountingNumbers.of(graph, "unit"), Sweeps(graph.index.colours, 5, 0.0)
        cells, entries = graph.flatten(theta)
        whole = pass_messages(graph, numbers, cells, entries, sweeps._replace(max_sweeps=10))
        half = pass_messages(graph, numbers, cells, entries, sweeps)
        again = pass_messages(graph, numbers, cells, entries, sweeps, start=half.messages)
        for mine, its in zip(again, whole, strict=True):
            torch.testing.assert_close(mine, its, atol=1e-12, rtol=0)

    def test_many_threads_do_the_same(self, monkeypatch):
        from gspen_ner.kernels import thread_pool

        graph, theta = spread_parts(3.0, batch=100)
        expected = LocalPolytope(graph).marginals(theta)
        monkeypatch.setattr(thread_pool, "MIN_WORK", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        assert_close(LocalPolytope(graph).marginals(theta), expected, 0.0)


class TestBatchMates:
    @pytest.mark.parametrize("scale", [2.0, 1e4])
    def test_results_do_not_depend_on_them(self, scale):
        """The last rows are of another kind: they take longer, or need log space."""
        graph, theta = spread_parts(2.0, batch=18)
        rows = torch.arange(18)
        factor = torch.where(rows % 3 == 2, scale, 1.0)
        theta = theta * factor
        polytope = LocalPolytope(graph)
        value, together = polytope.sums(theta)
        for row in range(18):
            one = torch.tensor([row])
            alone_value, alone = polytope.sums(theta.select(one))
            torch.testing.assert_close(alone_value[0], value[row], rtol=1e-9, atol=1e-9)
            if row % 3 != 2:
                assert_close(alone, together.select(one), 1e-5)

    def test_a_row_that_is_not_a_number_does_not_stop_the_others(self):
        graph, theta = spread_parts(3.0, batch=3)
        numbers, sweeps = CountingNumbers.of(graph, "unit"), Sweeps(graph.index.colours, 200, 1e-9)
        good = pass_messages(graph, numbers, *graph.flatten(theta), sweeps)
        theta.nodes[1] = torch.nan
        actual = pass_messages(graph, numbers, *graph.flatten(theta), sweeps)
        torch.testing.assert_close(actual.cells[[0, 2]], good.cells[[0, 2]], atol=1e-7, rtol=0)
        assert torch.isnan(actual.cells[1]).all()


class TestSpread:
    """Scores that no sum of exponentials can hold."""

    @pytest.mark.parametrize("name", GRAPHS)
    def test_the_value_is_at_least_that_without_entropy(self, name):
        graph = graph_of(*GRAPHS[name])
        theta = random_scores(graph, batch=10, scale=100.0)
        value, marginals = LocalPolytope(graph, max_sweeps=300).sums(theta)
        assert infeasibility(graph, marginals) < 1e-12
        best = theta.dot(LocalPolytope(graph, oracle="lp").maximiser(theta))
        regions = [(node,) for node in range(graph.num_nodes)] + list(graph.scopes)
        most = sum(np.log(graph.label_counts[node]) for region in regions for node in region)
        assert (value <= best + most).all()
        assert (value >= best - 0.01).all()

    @pytest.mark.parametrize("name", GRAPHS)
    def test_a_labelling_that_towers_above_all(self, name):
        graph = graph_of(*GRAPHS[name])
        polytope = LocalPolytope(graph)
        theta = random_scores(graph, batch=20, scale=1e3)
        labels = torch.stack([torch.randint(count, (20,)) for count in graph.label_counts], 1)
        vertex = polytope.vertex(labels, theta)
        theta = theta + vertex * 1e4
        value, marginals = polytope.sums(theta)
        torch.testing.assert_close(value, theta.dot(vertex))
        assert_close(marginals, vertex, 1e-12)

    def test_it_does_not_stop_while_factors_and_nodes_disagree(self):
        """At first all nodes are sure, and none moves; but their tables are sure of something else."""
        edges = [[[-1e3, -2e3], [-2e3, 0.0]], [[2e3, -2e3], [0.0, 1e3]], [[0.0, -1e3], [-2e3, 1e3]]]
        nodes = [[0.0, 1e3], [0.0, -2e3], [0.0, 0.0]]
        theta = Parts(torch.tensor([nodes]).double(), torch.tensor([edges]).double())
        polytope = LocalPolytope(graph_of([2, 2, 2], TRIANGLE[1]))
        value, marginals = polytope.sums(theta)
        assert value.item() > 990
        torch.testing.assert_close(marginals.nodes, torch.full((1, 3, 2), 0.5).double(), atol=0.01, rtol=0)

    def test_of_one_pair(self):
        """By hand: unit numbers on two nodes and their table."""
        graph = graph_of([2, 2], [(0, 1)])
        table = torch.tensor([[[0.0, -1e4], [-1e4, 1.0]]]).double()
        _, marginals = LocalPolytope(graph).sums(graph.potentials({(0, 1): table}))
        # on the diagonal all three entropies are the same: p = softmax of (0, 1) / 3
        p = torch.tensor([0.0, 1.0]).div(3).softmax(0).double()
        torch.testing.assert_close(marginals.nodes[0], p.expand(2, 2), atol=1e-6, rtol=0)
        torch.testing.assert_close(marginals.edges[0, 0], torch.diag(p), atol=1e-6, rtol=0)

    def test_of_nodes_alone(self):
        graph = graph_of(*GRAPHS["complete"])
        nodes = 1e4 * torch.randn(3, 4, 3).double()
        _, marginals = LocalPolytope(graph).sums(Parts(nodes))
        torch.testing.assert_close(marginals.nodes, torch.eye(3).double()[nodes.argmax(-1)])


def test_single_precision():
    graph, theta = spread_parts(2.0, batch=3)
    polytope = LocalPolytope(graph)
    value, marginals = polytope.sums(theta.map(torch.Tensor.float))
    expected_value, expected = polytope.sums(theta)
    assert value.dtype == torch.float64
    assert marginals.nodes.dtype == marginals.edges.dtype == torch.float32
    torch.testing.assert_close(value, expected_value, rtol=0, atol=1e-4)
    torch.testing.assert_close(marginals.edges.double(), expected.edges, rtol=0, atol=1e-5)
    assert polytope.maximiser(theta.map(torch.Tensor.float)).nodes.dtype == torch.float32
