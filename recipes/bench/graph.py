"""Message passing on factor graphs of pairs against peers.

NumpyLoop   plain numpy: loops over examples, nodes and edges
PGMax       sum-product in JAX, run by `pgmax_script` in a separate interpreter
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.parts import Parts
from gspen_ner.polytopes import LocalPolytope, Tree
from recipes.bench.timing import Contest, Peer, clock

EXAMPLES, SWEEPS = 2, 5
"""The part that the numpy loop is timed on, and extrapolated to the whole batch."""
SUM_PRODUCT = "sum-product"
PGMAX_VERSION = "0.6.1"


@dataclass(frozen=True)
class GraphProblem:
    """Examples with different random scores for all nodes and edges of the same graph."""

    name: str
    nodes: int
    labels: int
    edges: tuple[tuple[int, int], ...]
    batch: int = 128
    sweeps: int = 100

    def __str__(self) -> str:
        return self.name

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph."""
        return FactorGraph.of_edges([self.labels] * self.nodes, self.edges).compile()

    @cached_property
    def scores(self) -> Parts:
        """Scores of nodes `[B, N, L]` and edges `[B, E, L, L]`, float32."""
        random = torch.Generator().manual_seed(0)
        nodes = torch.randn(self.batch, self.nodes, self.labels, generator=random)
        tables = torch.randn(self.batch, len(self.edges), self.labels, self.labels, generator=random)
        return Parts(nodes, tables)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores of nodes and edges for numpy."""
        assert self.scores.edges is not None
        return self.scores.nodes.numpy(), self.scores.edges.numpy()

    @property
    def all_sweeps(self) -> str:
        """Name of the operation: all sweeps of message passing."""
        return f"{self.sweeps} sweeps"

    def local(self, sweeps: int | None = None) -> LocalPolytope:
        """Return our polytope for any graph, which takes a fixed number of sweeps."""
        return LocalPolytope(self.graph, "unit", max_sweeps=sweeps or self.sweeps, tolerance=0.0)


class NumpyLoop(Peer[GraphProblem]):
    """Message passing for one example after the other, timed on few examples and sweeps."""

    name = f"numpy loop, scaled up from {EXAMPLES} examples, {SWEEPS} sweeps"
    tree_name = f"numpy loop, scaled up from {EXAMPLES} examples"

    def contests(self, problem: GraphProblem) -> Generator[Contest]:
        graph, scores, scale = problem.graph, problem.scores, problem.batch / EXAMPLES
        polytope, few = problem.local(), scores.select(torch.arange(EXAMPLES))
        examples = list(zip(*(array[:EXAMPLES] for array in problem.arrays), strict=True))
        loops = [ConvexLoop(graph, *example) for example in examples]

        def sweep(loops: list[ConvexLoop]) -> None:
            for loop in loops:
                loop.sweep(SWEEPS)

        def beliefs() -> tuple[object, np.ndarray]:
            fresh = [ConvexLoop(graph, *example) for example in examples]
            sweep(fresh)
            return problem.local(SWEEPS).sums(few)[1].nodes, np.stack([loop.beliefs() for loop in fresh])

        sweeps = clock(lambda: sweep(loops), scale * problem.sweeps / SWEEPS)
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
        """Return the log partition and the marginals of nodes `[N, L]` and edges `[E, L, L]`."""
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


class PGMax(Peer[GraphProblem]):
    """Loopy sum-product without damping, `vmap` over the batch.

    On a graph with loops its objective (Bethe entropy) differs from ours, so beliefs are compared on trees
    only, with `Tree`. One iteration updates all messages once, like one of our sweeps.

    Args:
        python: an interpreter that has PGMax; None is this one.
    """

    name = f"PGMax {PGMAX_VERSION}"

    def __init__(self, python: Path | None = None) -> None:
        self.python = python

    def missing(self) -> str | None:
        if self.python is None and find_spec("pgmax") is None:
            return f"{self.name} is not installed here; name an interpreter that has it with --pgmax-python"
        try:
            for contest in self.contests(GraphProblem("pair", 2, 3, ((0, 1),), batch=2, sweeps=5)):
                contest.check()
        except (OSError, ValueError, AssertionError) as error:
            return f"{self.name}: {error}"
        return None

    def contests(self, problem: GraphProblem) -> Generator[Contest]:
        python, scores, polytope = self.python or Path(sys.executable), problem.scores, problem.local()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
            nodes, tables = problem.arrays
            file, edges = Path(folder, "problem.npz"), np.array(problem.edges)
            np.savez(file, nodes=nodes, tables=tables, edges=edges, iterations=problem.sweeps)
            command = [str(python), str(Path(__file__).with_name("pgmax_script.py")), folder]
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)

            def answer() -> dict[str, Any]:
                """Return the next line of the script's output."""
                assert process.stdout is not None
                line = process.stdout.readline()
                if line:
                    return json.loads(line)
                process.wait()
                errors.seek(0)
                *_, last = ["ended without an error message", *errors.read().strip().splitlines()]
                raise ValueError(f"{python}: {last}")

            def run() -> float:
                with suppress(BrokenPipeError):  # the missing answer is reported
                    print("run", file=process.stdin, flush=True)
                return float(answer()["seconds"])

            def beliefs() -> tuple[Any, Any]:
                theirs = np.load(Path(folder, "beliefs.npy"))
                if not problem.graph.is_forest:
                    return theirs, theirs
                return Tree(problem.graph).sums(scores)[1].nodes, theirs

            try:
                installed = answer()["version"]
                if installed != PGMAX_VERSION:
                    raise ValueError(
                        f"{python}: expected PGMax {PGMAX_VERSION}, but {installed} is installed"
                    )
                ours = clock(lambda: polytope.sums(scores))
                yield Contest(problem.all_sweeps, self.name, ours, run, beliefs, tolerance=1e-3)
            finally:
                process.communicate()  # closes the script's input, which ends it


def _grid(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Return the edges from each node to its right and its lower neighbour."""
    right = [(node, node + 1) for node in range(rows * columns) if (node + 1) % columns]
    return tuple(right + [(node, node + columns) for node in range((rows - 1) * columns)])


CHAIN = GraphProblem("chain 5x26", 5, 26, tuple(pairwise(range(5))))
STAR = GraphProblem("star 159x2", 159, 2, tuple((0, leaf) for leaf in range(1, 159)))
MAIN = GraphProblem("complete 24x2", 24, 2, tuple(combinations(range(24), 2)))
GRID = GraphProblem("grid 20x20x2", 400, 2, _grid(20, 20))
CASES = (CHAIN, STAR, MAIN, GRID)
TARGETS = {
    **{(case.name, case.all_sweeps, NumpyLoop.name): 50.0 for case in CASES},
    **{(case.name, SUM_PRODUCT, NumpyLoop.tree_name): 50.0 for case in (CHAIN, STAR)},
    (MAIN.name, MAIN.all_sweeps, PGMax.name): 4.0,
}
