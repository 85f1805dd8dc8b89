"""Peers of `gspen-ner bench graph`: the plain loops do what ours does, PGMax is called right."""

import os
import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from gspen_ner.polytopes import LocalPolytope, Tree
from recipes.bench import graph
from recipes.bench.graph_numpy import ConvexLoop, NumpyLoop, SumProductLoop
from recipes.bench.graph_peers import GraphProblem
from recipes.bench.graph_pgmax import PGMax

LOOPS = GraphProblem("triangle with a tail", 4, 3, ((0, 1), (2, 1), (0, 2), (2, 3)), batch=3, sweeps=7)
TREE = GraphProblem("tree", 6, 3, ((0, 1), (2, 1), (1, 3), (4, 0), (4, 5)), batch=3, sweeps=7)
WIDE = GraphProblem("chain", 4, 9, tuple(pairwise(range(4))), batch=3, sweeps=7)
PGMAX_PYTHON = os.environ.get("GSPEN_PGMAX_PYTHON")


def examples(problem):
    return zip(problem.scores.nodes.numpy(), problem.scores.edges.numpy(), strict=True)


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
    values, found = Tree(problem.graph).sums(problem.scores)
    for row, example in enumerate(examples(problem)):
        theirs = SumProductLoop(problem.graph)(*example)
        assert theirs.log_partition == pytest.approx(float(values[row]), rel=1e-5)
        np.testing.assert_allclose(theirs.nodes, found.nodes[row], atol=1e-5)
        np.testing.assert_allclose(theirs.edges, found.edges[row], atol=1e-5)


def test_plain_sum_product_is_for_one_tree():
    with pytest.raises(ValueError, match="not all nodes"):
        SumProductLoop(GraphProblem("apart", 3, 2, ((0, 1),)).graph)


def test_contests_of_the_plain_loop():
    assert [contest.what for contest in NumpyLoop().contests(LOOPS)] == ["7 sweeps"]
    contests = list(NumpyLoop().contests(TREE))
    assert [contest.what for contest in contests] == ["7 sweeps", "sum-product"]
    for contest in contests:
        contest.check()
        assert contest.turn() > 0


def test_disagreement_stops_the_measurement(monkeypatch):
    monkeypatch.setattr(ConvexLoop, "sweep", lambda self, times: None)
    with pytest.raises(AssertionError, match="beliefs differ by"):
        list(graph.run_contest(LOOPS, NumpyLoop(), 0.0))


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
    for name, what, _ in graph.BARS:
        assert name in sizes
        assert what in ("100 sweeps", "sum-product")


def test_an_interpreter_without_pgmax_is_left_out():
    if PGMax().missing() is None:
        pytest.skip("PGMax is installed here")
    assert "--pgmax-python" in PGMax().missing()
    peers, missing = graph.find_peers(Path(sys.executable))
    assert [type(peer) for peer in peers] == [NumpyLoop]
    assert "PGMax 0.6.1: " in missing[0]
    assert "No module named" in missing[0] or "No package metadata" in missing[0]


@pytest.mark.slow
def test_pgmax_is_called_right():
    peer = PGMax(Path(PGMAX_PYTHON) if PGMAX_PYTHON else None)
    if peer.missing():
        pytest.skip(peer.missing())
    for problem in (TREE, WIDE, GraphProblem("star", 9, 2, tuple((0, leaf) for leaf in range(1, 9)), 4, 6)):
        rows = list(graph.run_contest(problem, peer, 0.0))
        assert [row.peer for row in rows] == ["PGMax 0.6.1"]
        assert rows[0].peer_ms > 0
    complete = GraphProblem("complete", 5, 2, tuple(combinations(range(5), 2)), 4, 6)
    assert len(list(graph.run_contest(complete, peer, 0.0))) == 1


@pytest.mark.slow
def test_pgmax_that_disagrees_is_noticed():
    peer = PGMax(Path(PGMAX_PYTHON) if PGMAX_PYTHON else None)
    if peer.missing():
        pytest.skip(peer.missing())
    short = GraphProblem("a chain with too few iterations", 9, 2, tuple(pairwise(range(9))), 4, 2)
    with pytest.raises(AssertionError, match="beliefs differ by"):
        list(graph.run_contest(short, peer, 0.0))
