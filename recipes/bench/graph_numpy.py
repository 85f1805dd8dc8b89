"""Message passing in plain numpy: loops over examples, nodes and edges."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import torch

from gspen_ner.graphs import CompiledGraph
from gspen_ner.polytopes.tree import Tree
from recipes.bench.graph_problem import GraphProblem
from recipes.bench.timing import Contest, Peer, clock

EXAMPLES, SWEEPS = 2, 5
"""The part that is timed, and extrapolated to the whole batch."""
SUM_PRODUCT = "sum-product"


class NumpyLoop(Peer[GraphProblem]):
    """Message passing for one example after the other, timed on few examples and sweeps."""

    name = f"numpy loop, scaled up from {EXAMPLES} examples, {SWEEPS} sweeps"
    tree_name = f"numpy loop, scaled up from {EXAMPLES} examples"

    def contests(self, problem: GraphProblem) -> Generator[Contest]:
        graph, scores, scale = problem.graph, problem.scores, problem.batch / EXAMPLES
        polytope, few = problem.local(), scores.select(torch.arange(EXAMPLES))
        examples = list(zip(*(array[:EXAMPLES] for array in problem.arrays), strict=True))
        loops = [ConvexLoop(graph, *example) for example in examples]

        def sweep() -> None:
            for loop in loops:
                loop.sweep(SWEEPS)

        def beliefs() -> tuple[object, np.ndarray]:
            fresh = [ConvexLoop(graph, *example) for example in examples]
            for loop in fresh:
                loop.sweep(SWEEPS)
            return problem.local(SWEEPS).sums(few)[1].nodes, np.stack([loop.beliefs() for loop in fresh])

        sweeps = clock(sweep, scale * problem.sweeps / SWEEPS)
        ours = clock(lambda: polytope.sums(scores))
        yield Contest(problem.all_sweeps, self.name, ours, sweeps, beliefs, tolerance=1e-4)
        if not graph.is_forest:
            return
        tree, loop = Tree(graph), SumProductLoop(graph)

        def sums() -> tuple[object, object]:
            theirs = zip(*(loop(*example) for example in examples), strict=True)
            return tree.sums(few), tuple(np.stack(parts) for parts in theirs)

        theirs = clock(lambda: [loop(*example) for example in examples], scale)
        ours = clock(lambda: tree.sums(scores))
        yield Contest(SUM_PRODUCT, self.tree_name, ours, theirs, sums, tolerance=1e-4)


class ConvexLoop:
    """Convex message passing (all counting numbers one) on a single example.

    Args:
        graph: pairs of variables that all have the same number of labels.
        scores: scores of nodes, `[N, L]`.
        tables: scores of edges, `[E, L, L]`.
    """

    def __init__(self, graph: CompiledGraph, scores: np.ndarray, tables: np.ndarray) -> None:
        self.scores, self.tables = list(scores), list(tables)
        self.order = np.concatenate(graph.index.colours).tolist()  # our order
        self.ends: list[list[tuple[int, int]]] = [[] for _ in scores]
        for edge, scope in enumerate(graph.scopes):
            for axis, node in enumerate(scope):
                self.ends[node].append((edge, axis))
        self.sent = [[np.zeros_like(scores[0]) for _ in scope] for scope in graph.scopes]

    def sweep(self, times: int) -> None:
        """Visit all nodes the given number of times."""
        for _ in range(times):
            for node in self.order:
                received = self._received(node)
                mean = (self.scores[node] + sum(received)) / (1 + len(received))
                for (edge, axis), message in zip(self.ends[node], received, strict=True):
                    self.sent[edge][axis] = mean - message

    def beliefs(self) -> np.ndarray:
        """Return the marginals of all nodes, `[N, L]`."""
        received = [self._received(node) for node in range(len(self.scores))]
        logs = [(own + sum(some)) / (1 + len(some)) for own, some in zip(self.scores, received, strict=True)]
        weights = np.exp(np.stack(logs) - np.max(logs, axis=1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def _received(self, node: int) -> list[np.ndarray]:
        messages = []
        for edge, axis in self.ends[node]:
            sent = self.sent[edge][1 - axis]
            messages.append(_logsumexp(self.tables[edge] + (sent[:, None] if axis else sent), 1 - axis))
        return messages


class SumProductLoop:
    """Sum-product on a tree of pairs with root node 0, one example per call: up the tree and back down."""

    def __init__(self, graph: CompiledGraph) -> None:
        ends: list[list[tuple[int, int]]] = [[] for _ in graph.names]
        for edge, (first, second) in enumerate(graph.scopes):
            ends[first].append((second, edge))
            ends[second].append((first, edge))
        self.steps: list[tuple[int, int, int]] = []  # parent, child, edge
        self.scopes = graph.scopes
        reached = [0]
        for node in reached:
            for other, edge in ends[node]:
                if other not in reached:
                    reached.append(other)
                    self.steps.append((node, other, edge))
        if len(reached) < graph.num_nodes:
            raise ValueError("expected a tree that connects all nodes")

    def __call__(self, scores: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the log partition and the marginals of nodes `[N, L]` and edges `[E, L, L]`.

        Args:
            scores: scores of nodes, `[N, L]`.
            tables: scores of edges, `[E, L, L]`.
        """
        inside, up, pairs = list(scores), [scores[0]] * len(scores), np.empty_like(tables)
        down = list(zip(self.steps, self._from_parents(tables), self._from_parents(pairs), strict=True))
        for (parent, child, _), table, _ in reversed(down):
            up[child] = _logsumexp(table + inside[child], 1)
            inside[parent] = inside[parent] + up[child]
        total, log_partition = list(inside), _logsumexp(inside[0], 0)
        for (parent, child, _), table, pair in down:
            joint = table + (total[parent] - up[child])[:, None]
            total[child] = inside[child] + _logsumexp(joint, 0)
            pair[:] = np.exp(joint + inside[child] - log_partition)
        return log_partition, np.exp(np.stack(total) - log_partition), pairs

    def _from_parents(self, tables: np.ndarray) -> list[np.ndarray]:
        """Return views of the tables of all steps with the parent's axis first."""
        return [
            tables[edge] if self.scopes[edge][0] == parent else tables[edge].T
            for parent, _, edge in self.steps
        ]


def _logsumexp(values: np.ndarray, axis: int) -> np.ndarray:
    """Return log(sum(exp)) by the faster of two formulas."""
    if values.size <= 64:
        return np.logaddexp.reduce(values, axis)
    top = values.max(axis, keepdims=True)
    return np.log(np.exp(values - top).sum(axis)) + top.squeeze(axis)
