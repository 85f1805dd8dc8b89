"""The arrays of a factor graph as argument of compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gspen_ner.graphs.index import GraphIndex


class Graph(NamedTuple):
    """Arrays of a `GraphIndex`, with the same names."""

    cell_starts: np.ndarray
    entry_starts: np.ndarray
    slot_starts: np.ndarray
    slot_nodes: np.ndarray
    slot_factors: np.ndarray
    slot_strides: np.ndarray
    message_starts: np.ndarray
    visit_starts: np.ndarray
    entry_messages: np.ndarray
    node_slot_starts: np.ndarray
    node_slots: np.ndarray

    @classmethod
    def of(cls, index: GraphIndex) -> Graph:
        """Return the arrays of a graph."""
        return cls(*(getattr(index, name) for name in cls._fields))
