"""Message passing on factor graphs as others do it, each beside ours on the very same problem.

    numpy loop   what one writes first: loops over examples, nodes and edges, a few numpy calls a message
    PGMax        sum-product in JAX, in an interpreter of its own (`pgmax_script`)

A peer's turn says itself how many seconds it took, or would take for the whole batch. What a peer needs to be
given (its own layout of scores, compiled code) is prepared beforehand and not timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, FactorGraph
from gspen_ner.parts import Parts
from gspen_ner.polytopes.local import LocalPolytope
from gspen_ner.polytopes.tree import Tree

EXAMPLES, SWEEPS = 2, 5  # what the numpy loop is timed on
PGMAX_VERSION = "0.6.1"
SUM_PRODUCT = "sum-product"


@dataclass(frozen=True)
class GraphProblem:
    """A batch of examples on one graph of pairs, with random scores of their own for all nodes and edges."""

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
        """The graph."""
        return FactorGraph.of_edges([self.labels] * self.nodes, self.edges).compile()

    @cached_property
    def scores(self) -> Parts:
        """Nodes `[B, N, L]` and edges `[B, E, L, L]`, float32."""
        random = torch.Generator().manual_seed(0)
        nodes = torch.randn(self.batch, self.nodes, self.labels, generator=random)
        tables = torch.randn(self.batch, len(self.edges), self.labels, self.labels, generator=random)
        return Parts(nodes, tables)

    def few(self, examples: int) -> Parts:
        """The scores of the first examples."""
        assert self.scores.edges is not None
        return Parts(self.scores.nodes[:examples], self.scores.edges[:examples])

    @property
    def all_sweeps(self) -> str:
        """What ours does on any graph."""
        return f"{self.sweeps} sweeps"

    def local(self, sweeps: int | None = None) -> LocalPolytope:
        """Ours on any graph, taking all sweeps."""
        return LocalPolytope(self.graph, "unit", max_sweeps=sweeps or self.sweeps, tolerance=0.0)


@dataclass(frozen=True)
class GraphContest:
    """Two that do the same; `check` raises AssertionError if they do not."""

    what: str
    peer: str
    ours: Callable[[], Any]
    turn: Callable[[], float]
    """A turn of the peer; the seconds that the whole batch takes."""
    check: Callable[[], None]


class GraphPeer(ABC):
    """Another way to pass messages."""

    def missing(self) -> str | None:
        """What to say if the peer cannot be run, else None."""
        return None

    @abstractmethod
    def contests(self, problem: GraphProblem) -> Generator[GraphContest]:
        """What the peer does on a problem; what it started ends when the generator is closed."""


def check_close(ours: Tensor, peer: np.ndarray, tolerance: float) -> None:
    """Raise AssertionError unless beliefs are the same."""
    difference = float(np.abs(ours.numpy() - peer).max())
    if not difference <= tolerance:
        raise AssertionError(f"beliefs differ by {difference:.2g}: nothing is measured")


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


class PGMax(GraphPeer):
    """Loopy sum-product without damping, `vmap` over the batch, in its own interpreter.

    On a graph with loops it seeks another point than ours (of Bethe's entropy), so beliefs are compared on
    trees only, with `Tree`'s. An iteration updates all messages once, as a sweep of ours does.

    Args:
        python: an interpreter that has PGMax; None is this one.
    """

    name = f"PGMax {PGMAX_VERSION}"

    def __init__(self, python: Path | None = None) -> None:
        self.python = python

    def missing(self) -> str | None:
        if self.python is None and find_spec("pgmax") is None:
            return f"{self.name} is not installed here; --pgmax-python names an interpreter that has it"
        pair = GraphProblem("pair", 2, 3, ((0, 1),), batch=2, sweeps=5)
        try:
            for contest in self.contests(pair):
                contest.check()
        except (OSError, ValueError, AssertionError) as error:
            return f"{self.name}: {error}"
        return None

    def contests(self, problem: GraphProblem) -> Generator[GraphContest]:
        polytope, scores = problem.local(), problem.scores

        def check() -> None:
            if problem.graph.is_forest:
                check_close(Tree(problem.graph).sums(scores)[1].nodes, session.beliefs, 1e-3)

        with _session(problem, self.python or Path(sys.executable)) as session:
            yield GraphContest(
                problem.all_sweeps, self.name, lambda: polytope.sums(scores), session.turn, check
            )


@dataclass(frozen=True)
class _Session:
    """A running script that has compiled its problem."""

    python: Path
    process: subprocess.Popen[str]
    complaints: Path
    beliefs: np.ndarray

    def turn(self) -> float:
        """Let it run once."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        return float(self.answer()["seconds"])

    def answer(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.complaints.read_text(encoding="utf-8").strip().splitlines()
            raise ValueError(f"{self.python}: {said[-1] if said else 'ended without a word'}")
        return json.loads(line)


@contextmanager
def _session(problem: GraphProblem, python: Path) -> Iterator[_Session]:
    script = Path(__file__).with_name("pgmax_script.py")
    assert problem.scores.edges is not None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.savez(
            folder / "problem.npz",
            nodes=problem.scores.nodes.numpy(),
            tables=problem.scores.edges.numpy(),
            edges=np.array(problem.edges),
            iterations=problem.sweeps,
        )
        complaints = folder / "complaints.txt"
        with complaints.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [str(python), str(script), place],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            )  # fmt: skip
            try:
                session = _Session(python, process, complaints, np.zeros(0))
                found = session.answer()["version"]
                if found != PGMAX_VERSION:
                    raise ValueError(f"{python} has {found}, which is not what is compared")
                yield replace(session, beliefs=np.load(folder / "beliefs.npy"))
            finally:
                process.communicate()  # the end of its input is the end of the script
