"""Peers of the bench `graph`: the numpy loops agree with ours, PGMax is called correctly."""

import os
import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from gspen_ner.polytopes import LocalPolytope, Tree
from recipes.bench import graph
from recipes.bench.graph import ConvexLoop, GraphProblem, NumpyLoop, PGMax, SumProductLoop
from recipes.bench.timing import run_contests

LOOPS = GraphProblem("triangle with a tail", 4, 3, ((0, 1), (2, 1), (0, 2), (2, 3)), batch=3, sweeps=7)
TREE = GraphProblem("tree", 6, 3, ((0, 1), (2, 1), (1, 3), (4, 0), (4, 5)), batch=3, sweeps=7)
WIDE = GraphProblem("chain", 4, 9, tuple(pairwise(range(4))), batch=3, sweeps=7)
PGMAX_PYTHON = os.environ.get("GSPEN_PGMAX_PYTHON")


def examples(problem):
    return zip(*problem.arrays, strict=True)


@pytest.mark.parametrize("problem", [LOOPS, TREE, WIDE], ids=str)
@pytest.mark.parametrize("sweeps", [1, 3, 60])
def test_the_plain_loop_agrees_after_any_number_of_sweeps(problem, sweeps):
    ours = problem.local(sweeps).sums(problem.scores)[1].nodes.numpy()
    for belief, example in zip(ours, examples(problem), strict=True):
        loop = ConvexLoop(problem.graph, *example)
        loop.sweep(sweeps)
        np.testing.assert_allclose(loop.beliefs(), belief, atol=1e-5)


def test_the_plain_loop_ends_where_ours_converges():
    ours = LocalPolytope(LOOPS.graph).marginals(LOOPS.scores).nodes.numpy()
    for belief, example in zip(ours, examples(LOOPS), strict=True):
        loop = ConvexLoop(LOOPS.graph, *example)
        loop.sweep(100)
        np.testing.assert_allclose(loop.beliefs(), belief, atol=1e-5)


@pytest.mark.parametrize("problem", [TREE, WIDE], ids=str)
def test_plain_sum_product_agrees(problem):
    values, marginals = Tree(problem.graph).sums(problem.scores)
    for row, example in enumerate(examples(problem)):
        log_partition, nodes, edges = SumProductLoop(problem.graph)(*example)
        assert log_partition == pytest.approx(float(values[row]), rel=1e-5)
        np.testing.assert_allclose(nodes, marginals.nodes[row], atol=1e-5)
        np.testing.assert_allclose(edges, marginals.edges[row], atol=1e-5)


def test_plain_sum_product_is_for_one_tree():
    with pytest.raises(ValueError, match="a tree that connects all nodes"):
        SumProductLoop(GraphProblem("apart", 3, 2, ((0, 1),)).graph)


def test_contests_of_the_plain_loop():
    assert [contest.what for contest in NumpyLoop().contests(LOOPS)] == ["7 sweeps"]
    contests = list(NumpyLoop().contests(TREE))
    assert [contest.what for contest in contests] == ["7 sweeps", "sum-product"]
    for contest in contests:
        contest.check()
        assert contest.theirs() > 0


def test_disagreement_stops_the_measurement(monkeypatch):
    monkeypatch.setattr(ConvexLoop, "sweep", lambda self, times: None)
    with pytest.raises(AssertionError, match="result 0 differs by"):
        list(run_contests(NumpyLoop(), LOOPS, 0.0))


def test_the_cases():
    sizes = {case.name: (case.nodes, case.labels, len(case.edges)) for case in graph.CASES}
    assert sizes == {
        "chain 5x26": (5, 26, 4),
        "star 159x2": (159, 2, 158),
        "complete 24x2": (24, 2, 276),
        "grid 20x20x2": (400, 2, 760),
    }
    assert all(len(set(case.edges)) == len(case.edges) for case in graph.CASES)
    assert [case.graph.is_forest for case in graph.CASES] == [True, True, False, False]
    for name, what, _ in graph.TARGETS:
        assert name in sizes
        assert what in ("100 sweeps", "sum-product")


def test_an_interpreter_without_pgmax_is_reported():
    if PGMax().missing() is None:
        pytest.skip("PGMax is installed here")
    assert "--pgmax-python" in PGMax().missing()
    assert NumpyLoop().missing() is None
    reason = PGMax(Path(sys.executable)).missing()
    assert "PGMax 0.6.1: " in reason
    assert "No module named" in reason or "No package metadata" in reason


@pytest.mark.slow
def test_pgmax_agrees_with_ours():
    peer = PGMax(Path(PGMAX_PYTHON) if PGMAX_PYTHON else None)
    if peer.missing():
        pytest.skip(peer.missing())
    for problem in (TREE, WIDE, GraphProblem("star", 9, 2, tuple((0, leaf) for leaf in range(1, 9)), 4, 6)):
        rows = list(run_contests(peer, problem, 0.0))
        assert [row.peer for row in rows] == ["PGMax 0.6.1"]
        assert rows[0].peer_ms > 0
    complete = GraphProblem("complete", 5, 2, tuple(combinations(range(5), 2)), 4, 6)
    assert len(list(run_contests(peer, complete, 0.0))) == 1


@pytest.mark.slow
def test_pgmax_that_disagrees_is_noticed():
    peer = PGMax(Path(PGMAX_PYTHON) if PGMAX_PYTHON else None)
    if peer.missing():
        pytest.skip(peer.missing())
    short = GraphProblem("a chain with too few iterations", 9, 2, tuple(pairwise(range(9))), 4, 2)
    with pytest.raises(AssertionError, match="result 0 differs by"):
        list(run_contests(peer, short, 0.0))
