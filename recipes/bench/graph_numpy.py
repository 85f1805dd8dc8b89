"""Message passing as one writes it first: loops over examples, nodes and edges, a few calls a message."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from gspen_ner.graphs import CompiledGraph
from gspen_ner.polytopes.tree import Tree
from recipes.bench.graph_peers import SUM_PRODUCT, GraphContest, GraphPeer, GraphProblem, check_close

EXAMPLES, SWEEPS = 2, 5  # what is timed


class NumpyLoop(GraphPeer):
    """Message passing example by example; timed on a few, and scaled up to the whole batch."""

    name = f"numpy loop, scaled up from {EXAMPLES} examples, {SWEEPS} sweeps"
    tree_name = f"numpy loop, scaled up from {EXAMPLES} examples"

    def contests(self, problem: GraphProblem) -> Generator[GraphContest]:
        few = problem.few(EXAMPLES)
        assert few.edges is not None
        examples = list(zip(few.nodes.numpy(), few.edges.numpy(), strict=True))
        loops = [ConvexLoop(problem.graph, *example) for example in examples]
        times_more = problem.batch / EXAMPLES
        polytope, all_scores = problem.local(), problem.scores

        def sweep() -> float:
            start = time.perf_counter()
            for loop in loops:
                loop.sweep(SWEEPS)
            return (time.perf_counter() - start) * times_more * problem.sweeps / SWEEPS

        def check() -> None:
            fresh = [ConvexLoop(problem.graph, *example) for example in examples]
            for loop in fresh:
                loop.sweep(SWEEPS)
            beliefs = np.stack([loop.beliefs() for loop in fresh])
            check_close(problem.local(SWEEPS).sums(few)[1].nodes, beliefs, 1e-4)

        yield GraphContest(problem.all_sweeps, self.name, lambda: polytope.sums(all_scores), sweep, check)
        if not problem.graph.is_forest:
            return
        tree, up_and_down = Tree(problem.graph), SumProductLoop(problem.graph)

        def pass_once() -> float:
            start = time.perf_counter()
            for example in examples:
                up_and_down(*example)
            return (time.perf_counter() - start) * times_more

        def check_tree() -> None:
            values, found = tree.sums(few)
            assert found.edges is not None
            for row, example in enumerate(examples):
                theirs = up_and_down(*example)
                check_close(values[row] / theirs.log_partition, np.ones(()), 1e-4)
                check_close(found.nodes[row], theirs.nodes, 1e-4)
                check_close(found.edges[row], theirs.edges, 1e-4)

        yield GraphContest(SUM_PRODUCT, self.tree_name, lambda: tree.sums(all_scores), pass_once, check_tree)


class ConvexLoop:
    """Convex message passing (all counting numbers one) on a single example.

    Args:
        graph: pairs of variables that all have the same number of labels.
        scores: of nodes, `[N, L]`.
        tables: of edges, `[E, L, L]`.
    """

    def __init__(self, graph: CompiledGraph, scores: np.ndarray, tables: np.ndarray) -> None:
        self.scores, self.tables = list(scores), list(tables)
        self.order = np.concatenate(graph.index.colours).tolist()  # ours, to be compared with ours
        self.ends: list[list[tuple[int, int]]] = [[] for _ in scores]
        for edge, scope in enumerate(graph.scopes):
            for axis, node in enumerate(scope):
                self.ends[node].append((edge, axis))
        self.sent = [[np.zeros_like(scores[0]) for _ in scope] for scope in graph.scopes]

    def sweep(self, times: int) -> None:
        """Visit all nodes so many times."""
        for _ in range(times):
            for node in self.order:
                received = self._received(node)
                mean = (self.scores[node] + sum(received)) / (1 + len(received))
                for (edge, axis), message in zip(self.ends[node], received, strict=True):
                    self.sent[edge][axis] = mean - message

    def beliefs(self) -> np.ndarray:
        """Of all nodes, `[N, L]`."""
        found = []
        for node, scores in enumerate(self.scores):
            received = self._received(node)
            found.append(_normalised((scores + sum(received)) / (1 + len(received))))
        return np.stack(found)

    def _received(self, node: int) -> list[np.ndarray]:
        messages = []
        for edge, axis in self.ends[node]:
            if axis == 0:
                messages.append(_logsumexp(self.tables[edge] + self.sent[edge][1], 1))
            else:
                messages.append(_logsumexp(self.tables[edge] + self.sent[edge][0][:, None], 0))
        return messages


class TreeSums(NamedTuple):
    """What sum-product finds of one example."""

    log_partition: float
    nodes: np.ndarray
    edges: np.ndarray


class SumProductLoop:
    """Sum-product on a tree of pairs with node 0 as its root, one example a call: up, and back down."""

    def __init__(self, graph: CompiledGraph) -> None:
        ends: list[list[tuple[int, int]]] = [[] for _ in graph.names]
        for edge, (first, second) in enumerate(graph.scopes):
            ends[first].append((second, edge))
            ends[second].append((first, edge))
        self.steps: list[
            tuple[int, int, int, bool]
        ] = []  # parent, child, edge, whether the parent comes first
        reached = [0]
        for node in reached:
            for other, edge in ends[node]:
                if other not in reached:
                    reached.append(other)
                    self.steps.append((node, other, edge, graph.scopes[edge][0] == node))
        if len(reached) < graph.num_nodes:
            raise ValueError("not all nodes are in one tree")

    def __call__(self, scores: np.ndarray, tables: np.ndarray) -> TreeSums:
        """The sums of an example: scores of nodes `[N, L]`, and of edges `[E, L, L]`."""
        inside, up = list(scores), [scores[0]] * len(scores)
        for parent, child, edge, first in reversed(self.steps):
            table = tables[edge] if first else tables[edge].T
            up[child] = _logsumexp(table + inside[child], 1)
            inside[parent] = inside[parent] + up[child]
        total = list(inside)
        pairs = [tables[0]] * len(tables)
        log_partition = _logsumexp(inside[0], 0)
        for parent, child, edge, first in self.steps:
            table = tables[edge] if first else tables[edge].T
            joint = table + (total[parent] - up[child])[:, None]
            total[child] = inside[child] + _logsumexp(joint, 0)
            pair = np.exp(joint + inside[child] - log_partition)
            pairs[edge] = pair if first else pair.T
        nodes = np.stack([np.exp(value - log_partition) for value in total])
        return TreeSums(float(log_partition), nodes, np.stack(pairs))


def _logsumexp(values: np.ndarray, axis: int) -> np.ndarray:
    """By the faster of the two ways in which it is written with numpy."""
    if values.size <= 64:
        return np.logaddexp.reduce(values, axis)
    top = values.max(axis, keepdims=True)
    return np.log(np.exp(values - top).sum(axis)) + top.squeeze(axis)


def _normalised(logarithms: np.ndarray) -> np.ndarray:
    weights = np.exp(logarithms - logarithms.max())
    return weights / weights.sum()
