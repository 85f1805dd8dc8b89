"""The flat index arrays of a factor graph, on which message passing gathers and scatters.

cell       a label of a node
entry      an entry of a factor's table
slot       a factor's k-th variable: messages go from nodes to slots, and from slots to nodes
message    a label of a slot
visit      an entry as seen from one of its factor's slots
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Flat arrays; `starts` have one entry more than what they cut up."""

    cell_starts: np.ndarray
    """Of each node's labels."""
    entry_starts: np.ndarray
    """Of each factor's table."""
    slot_starts: np.ndarray
    """Of each factor's slots."""
    slot_nodes: np.ndarray
    slot_factors: np.ndarray
    slot_strides: np.ndarray
    """How far entries of the table lie apart whose label differs by one in this slot only."""
    message_starts: np.ndarray
    """Of each slot's labels."""
    visit_starts: np.ndarray
    """Of each slot's row in `entry_messages`."""
    entry_messages: np.ndarray
    """For each slot and each entry of its factor's table: the message that the entry belongs to."""
    node_slot_starts: np.ndarray
    node_slots: np.ndarray
    """The slots of each node."""
    node_cells: np.ndarray
    """Where existing labels lie in padded nodes, flattened."""
    edge_cells: np.ndarray
    """Where existing entries of pairs lie in padded edges, flattened."""
    num_large: int
    """Table entries of factors over three or more variables."""
    colours: list[np.ndarray]
    """The nodes of each colour: no two of them share a factor."""
    depths: np.ndarray | None
    """How far each node is from the root of its tree; None if the graph has a loop."""

    @cached_property
    def cell_nodes(self) -> np.ndarray:
        """The node of each cell."""
        return _owners(self.cell_starts)

    @cached_property
    def entry_factors(self) -> np.ndarray:
        """The factor of each entry."""
        return _owners(self.entry_starts)

    @cached_property
    def message_slots(self) -> np.ndarray:
        """The slot of each message."""
        return _owners(self.message_starts)

    @cached_property
    def degrees(self) -> np.ndarray:
        """The number of factors of each node."""
        return np.diff(self.node_slot_starts)

    @cached_property
    def message_cells(self) -> np.ndarray:
        """The cell that each message is about."""
        slots = self.message_slots
        labels = np.arange(self.num_messages) - self.message_starts[slots]
        return self.cell_starts[self.slot_nodes[slots]] + labels

    @cached_property
    def factor_parents(self) -> np.ndarray:
        """In a forest: the node of each factor that is nearest to the root."""
        assert self.depths is not None
        slots = np.lexsort((self.depths[self.slot_nodes], self.slot_factors))
        return self.slot_nodes[slots[self.slot_starts[:-1]]]

    @property
    def num_cells(self) -> int:
        """Labels of all nodes."""
        return int(self.cell_starts[-1])

    @property
    def num_entries(self) -> int:
        """Entries of all tables."""
        return int(self.entry_starts[-1])

    @property
    def num_messages(self) -> int:
        """Labels of all slots."""
        return int(self.message_starts[-1])

    @classmethod
    def of(cls, label_counts: Sequence[int], scopes: Sequence[tuple[int, ...]]) -> GraphIndex:
        """The arrays of a graph."""
        counts = np.array(label_counts)
        slot_nodes = np.array([node for scope in scopes for node in scope], dtype=np.int64)
        slot_factors = np.repeat(np.arange(len(scopes)), [len(scope) for scope in scopes])
        shapes = [[label_counts[node] for node in scope] for scope in scopes]
        message_starts = _starts(counts[slot_nodes])
        visits, strides, slot = [np.zeros(0, dtype=np.int64)], [], 0
        for shape in shapes:
            labels = np.indices(shape).reshape(len(shape), -1)
            visits.append((message_starts[slot : slot + len(shape), None] + labels).ravel())
            strides += [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
            slot += len(shape)
        by_node = np.argsort(slot_nodes, kind="stable")
        largest = int(counts.max())
        colours = _colours(len(counts), scopes)
        return cls(
            cell_starts=_starts(counts),
            entry_starts=_starts([int(np.prod(shape)) for shape in shapes]),
            slot_starts=_starts([len(scope) for scope in scopes]),
            slot_nodes=slot_nodes,
            slot_factors=slot_factors,
            slot_strides=np.array(strides, dtype=np.int64),
            message_starts=message_starts,
            visit_starts=_starts([int(np.prod(shape)) for shape in shapes for _ in shape]),
            entry_messages=np.concatenate(visits),
            node_slot_starts=_starts(np.bincount(slot_nodes, minlength=len(counts))),
            node_slots=by_node.astype(np.int64),
            node_cells=np.concatenate([n * largest + np.arange(count) for n, count in enumerate(counts)]),
            edge_cells=_edge_cells([shape for shape in shapes if len(shape) == 2], largest),
            num_large=sum(int(np.prod(shape)) for shape in shapes if len(shape) > 2),
            colours=[np.flatnonzero(colours == colour) for colour in range(colours.max() + 1)],
            depths=_depths(len(counts), scopes),
        )


def _starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)


def _owners(starts: np.ndarray) -> np.ndarray:
    """What each of the pieces that `starts` cuts belongs to."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _edge_cells(shapes: Sequence[Sequence[int]], largest: int) -> np.ndarray:
    cells = [
        (edge * largest + np.arange(rows)[:, None]) * largest + np.arange(columns)
        for edge, (rows, columns) in enumerate(shapes)
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(cell.ravel() for cell in cells)])


def _colours(num_nodes: int, scopes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """A greedy colouring, nodes with many neighbours first."""
    neighbours: list[set[int]] = [set() for _ in range(num_nodes)]
    for scope in scopes:
        for node in scope:
            neighbours[node].update(scope)
    colours = np.full(num_nodes, -1)
    for node in sorted(range(num_nodes), key=lambda node: -len(neighbours[node])):
        taken = {colours[other] for other in neighbours[node] if other != node}
        colours[node] = next(colour for colour in range(num_nodes) if colour not in taken)
    return colours


def _depths(num_nodes: int, scopes: Sequence[tuple[int, ...]]) -> np.ndarray | None:
    """The distance of each node from the first node of its tree; None if nodes and factors form a loop."""
    factors_of: list[list[int]] = [[] for _ in range(num_nodes)]
    for factor, scope in enumerate(scopes):
        for node in scope:
            factors_of[node].append(factor)
    depths = np.full(num_nodes, -1)
    used = np.zeros(len(scopes), dtype=bool)
    for root in range(num_nodes):
        stack = [root] if depths[root] < 0 else []
        depths[stack] = 0
        while stack:
            node = stack.pop()
            for factor in factors_of[node]:
                others = [] if used[factor] else [other for other in scopes[factor] if other != node]
                used[factor] = True
                if any(depths[other] >= 0 for other in others):
                    return None
                depths[others] = depths[node] + 1
                stack += others
    return depths
