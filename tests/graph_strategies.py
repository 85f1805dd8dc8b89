"""Random batches of small factor graphs for hypothesis, and brute force over all their labellings.

Nothing here uses the index arrays of the package: graphs are read by `label_counts` and `scopes` alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from hypothesis import strategies as st

from gspen_ner import FactorGraph, Parts
from gspen_ner.graphs import CompiledGraph
from tests.polytope_suite import flat


@dataclass(frozen=True)
class GraphBatch:
    graph: CompiledGraph
    theta: Parts

    def __repr__(self) -> str:
        graph = self.graph
        return f"GraphBatch({len(self.theta.nodes)} x {graph.label_counts}, scopes={graph.scopes})"


def graph_of(label_counts, scopes) -> CompiledGraph:
    """A graph of variables 0, 1, ... with factors of any arity."""
    graph = FactorGraph.of_edges(label_counts, [])
    for scope in scopes:
        graph.add_factor(scope)
    return graph.compile()


def random_scores(graph: CompiledGraph, batch=1, scale=2.0, masks=False, seed=0) -> Parts:
    """Scores in float64 with garbage where a variable has no such label: reading it would show.

    Forbidden labels and entries (-inf) leave at least one labelling.
    """
    random = torch.Generator().manual_seed(seed)

    def draw(*shape):
        scores = scale * torch.randn(batch, *shape, generator=random, dtype=torch.float64)
        if masks:
            scores[torch.rand(scores.shape, generator=random) < 0.2] = -torch.inf
        return scores

    labels = graph.max_labels
    scopes = graph.scopes
    pairs = [scope for scope in scopes if len(scope) == 2]
    legal = [int(torch.randint(count, (1,), generator=random)) for count in graph.label_counts]
    nodes = torch.full((batch, graph.num_nodes, labels), torch.nan, dtype=torch.float64)
    for node, count in enumerate(graph.label_counts):
        nodes[:, node, :count] = draw(count)
        nodes[:, node, legal[node]] = 0.5
    edges = torch.full((batch, len(pairs), labels, labels), torch.nan, dtype=torch.float64)
    for edge, (i, j) in enumerate(pairs):
        edges[:, edge, : graph.label_counts[i], : graph.label_counts[j]] = draw(*_shape(graph, (i, j)))
        edges[:, edge, legal[i], legal[j]] = 0.5
    large = []
    for scope in scopes:
        if len(scope) > 2:
            table = draw(*_shape(graph, scope))
            table[(slice(None), *(legal[node] for node in scope))] = 0.5
            large.append(table.flatten(1))
    return Parts(nodes, edges if pairs else None, torch.cat(large, 1) if large else None)


def without_padding(graph: CompiledGraph, scores: Parts) -> Parts:
    """The same scores with zeros where a variable has no such label."""
    nodes = torch.zeros_like(scores.nodes)
    for node, count in enumerate(graph.label_counts):
        nodes[:, node, :count] = scores.nodes[:, node, :count]
    edges = None if scores.edges is None else torch.zeros_like(scores.edges)
    for edge, (i, j) in enumerate(scope for scope in graph.scopes if len(scope) == 2):
        part = np.s_[:, edge, : graph.label_counts[i], : graph.label_counts[j]]
        edges[part] = scores.edges[part]
    return Parts(nodes, edges, scores.factors)


@st.composite
def factor_graphs(draw, forests=False, triples=True):
    """Graphs of two to five variables with two to four labels each (at most 1,024 labellings)."""
    counts = draw(st.lists(st.integers(2, 4), min_size=2, max_size=5), label="label counts")
    order = draw(st.permutations(range(len(counts))))
    if forests:
        scopes, left = [], list(order)
        inside = [left.pop()]
        while left:
            kind = draw(st.sampled_from(["pair", "pair", "pair", "isolated", "triple"]))
            size = 2 if kind == "triple" and triples and len(left) > 1 else 1
            new = [left.pop() for _ in range(size)]
            if kind != "isolated":
                scopes.append(tuple(draw(st.permutations([draw(st.sampled_from(inside)), *new]))))
            inside += new
        return graph_of(counts, scopes)
    pairs = list(itertools.combinations(order, 2))
    scopes = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    if triples and len(counts) > 2 and draw(st.booleans(), label="with a triple"):
        scopes.append(tuple(order[:3]))
    return graph_of(counts, scopes)


@st.composite
def graph_batches(draw, forests=False, triples=True, masks=False, max_batch=3, scale=2.0):
    """Graphs with scores."""
    graph = draw(factor_graphs(forests, triples))
    batch, seed = draw(st.integers(1, max_batch)), draw(st.integers(0, 2**16))
    forbid = masks and draw(st.booleans(), label="masks")
    return GraphBatch(graph, random_scores(graph, batch, scale, forbid, seed))


@dataclass(frozen=True)
class GraphEnumeration:
    """All labellings `[Y, N]` of one example, and each as a flat vector of (nodes, edges, factors)."""

    labellings: np.ndarray
    vertices: np.ndarray
    scores: np.ndarray

    @cached_property
    def log_partition(self) -> float:
        return float(np.logaddexp.reduce(self.scores))

    @cached_property
    def marginals(self) -> np.ndarray:
        """Exact, flat, padded like `Parts`."""
        return np.exp(self.scores - self.log_partition) @ self.vertices

    @property
    def best(self) -> float:
        return float(self.scores.max())


def enumerate_graph(graph: CompiledGraph, theta: Parts, row: int) -> GraphEnumeration:
    labellings = np.array(list(itertools.product(*(range(count) for count in graph.label_counts))))
    vertices = np.array([_vertex(graph, labels) for labels in labellings])
    scores = np.array([flat(theta, row)[vertex == 1].sum() for vertex in vertices])
    return GraphEnumeration(labellings, vertices, scores)


def _vertex(graph: CompiledGraph, labels: np.ndarray) -> np.ndarray:
    one_hot = np.eye(graph.max_labels)[labels]
    pieces = [one_hot.ravel()]
    for scope in graph.scopes:
        if len(scope) == 2:
            pieces.append(np.outer(*one_hot[list(scope)]).ravel())
        else:
            table = np.zeros(_shape(graph, scope))
            table[tuple(labels[list(scope)])] = 1
            pieces.append(table.ravel())
    return np.concatenate(pieces)


def tables_of(graph: CompiledGraph, parts: Parts, row: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What belongs to each node `[labels]` and to each factor `[labels, labels, ...]`, without padding."""
    rows = [None if part is None else part[row] for part in (parts.nodes, parts.edges, parts.factors)]
    nodes = [rows[0][node, :count].double().numpy() for node, count in enumerate(graph.label_counts)]
    tables, edge, place = [], 0, 0
    for scope in graph.scopes:
        shape = _shape(graph, scope)
        if len(scope) == 2:
            table = rows[1][edge, : shape[0], : shape[1]]
            edge += 1
        else:
            table = rows[2][place : place + int(np.prod(shape))].view(shape)
            place += int(np.prod(shape))
        tables.append(table.double().numpy())
    return nodes, tables


def infeasibility(graph: CompiledGraph, marginals: Parts) -> float:
    """By how much the marginals of a batch miss the local polytope's constraints, at worst."""
    worst = 0.0
    for row in range(len(marginals.nodes)):
        nodes, tables = tables_of(graph, marginals, row)
        total = sum(piece.sum() for piece in (*nodes, *tables))
        missed = [abs(flat(marginals, row).sum() - total)]  # nothing in the padding
        missed += [abs(node.sum() - 1) for node in nodes]
        missed += [-piece.min() for piece in (*nodes, *tables)]
        for scope, table in zip(graph.scopes, tables, strict=True):
            for axis, node in enumerate(scope):
                others = tuple(other for other in range(len(scope)) if other != axis)
                missed.append(np.abs(table.sum(others) - nodes[node]).max())
        assert np.isfinite(missed).all(), f"row {row}: not finite"
        worst = max(worst, *missed)
    return worst


def _shape(graph: CompiledGraph, scope: tuple[int, ...]) -> list[int]:
    return [graph.label_counts[node] for node in scope]
