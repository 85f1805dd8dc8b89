"""The flat index arrays of a factor graph, by which message passing gathers and scatters.

cell       a label of a node
entry      an entry of a factor's table
slot       a variable of a factor, by its position in the factor; messages go between nodes and slots
message    a label of a slot
visit      a pair of a slot and an entry of its factor's table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Flat arrays of a graph; arrays of starts have one more element, which is the total size."""

    cell_starts: np.ndarray
    """First cell of each node."""
    entry_starts: np.ndarray
    """First entry of each factor."""
    slot_starts: np.ndarray
    """First slot of each factor."""
    slot_nodes: np.ndarray
    """Node of each slot."""
    slot_factors: np.ndarray
    """Factor of each slot."""
    slot_strides: np.ndarray
    """Distance between two entries of the factor's table that differ by one label in this slot only."""
    message_starts: np.ndarray
    """First message of each slot."""
    visit_starts: np.ndarray
    """First visit of each slot."""
    entry_messages: np.ndarray
    """Message of each visit: the label that the entry has at the slot."""
    node_slot_starts: np.ndarray
    """First element of each node in `node_slots`."""
    node_slots: np.ndarray
    """Slots of each node."""
    node_cells: np.ndarray
    """Index of each cell in padded, flattened nodes."""
    edge_cells: np.ndarray
    """Index of each entry of factors over two variables in padded, flattened edges."""
    num_large: int
    """Number of entries of factors over three or more variables."""
    colours: list[np.ndarray]
    """Nodes of each colour; no two of them share a factor."""
    depths: np.ndarray | None
    """Distance of each node from the root of its tree; None if the graph has a loop."""

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
    def visit_slots(self) -> np.ndarray:
        """The slot of each visit."""
        return _owners(self.visit_starts)

    @cached_property
    def visit_entries(self) -> np.ndarray:
        """The entry of each visit."""
        shifts = self.entry_starts[self.slot_factors] - self.visit_starts[:-1]
        return np.arange(self.visit_starts[-1]) + shifts[self.visit_slots]

    @cached_property
    def degrees(self) -> np.ndarray:
        """Number of factors of each node."""
        return np.diff(self.node_slot_starts)

    @cached_property
    def message_cells(self) -> np.ndarray:
        """The cell of each message."""
        slots = self.message_slots
        labels = np.arange(self.num_messages) - self.message_starts[slots]
        return self.cell_starts[self.slot_nodes[slots]] + labels

    @cached_property
    def factor_parents(self) -> np.ndarray:
        """The node of each factor that is nearest to the root; for forests only."""
        assert self.depths is not None
        slots = np.lexsort((self.depths[self.slot_nodes], self.slot_factors))
        return self.slot_nodes[slots[self.slot_starts[:-1]]]

    @property
    def num_cells(self) -> int:
        """Total number of labels of all nodes."""
        return int(self.cell_starts[-1])

    @property
    def num_entries(self) -> int:
        """Total number of entries of all tables."""
        return int(self.entry_starts[-1])

    @property
    def num_messages(self) -> int:
        """Total number of labels of all slots."""
        return int(self.message_starts[-1])

    @classmethod
    def of(cls, label_counts: Sequence[int], scopes: Sequence[tuple[int, ...]]) -> GraphIndex:
        """Return the arrays of a graph."""
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
    """Return the start of each of several consecutive ranges, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)


def _owners(starts: np.ndarray) -> np.ndarray:
    """Return the number of the range of each element, given the ranges' starts."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _edge_cells(shapes: Sequence[Sequence[int]], largest: int) -> np.ndarray:
    """Return the index of each entry of the tables in flat tables padded to [edges, largest, largest]."""
    cells = [
        (edge * largest + np.arange(rows)[:, None]) * largest + np.arange(columns)
        for edge, (rows, columns) in enumerate(shapes)
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(cell.ravel() for cell in cells)])


def _colours(num_nodes: int, scopes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return the colour of each node by greedy colouring, nodes with many neighbours first."""
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
    """Return the distance of each node from the first node of its tree; None if there is a loop."""
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
