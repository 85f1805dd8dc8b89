"""Settings and results of message passing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor


class Sweeps(NamedTuple):
    """The order in which nodes are visited, and when to stop.

    Args:
        groups: groups of nodes in the order of their visits; nodes of a group must not share a factor (or
            must be siblings in a forest).
        max_sweeps: maximum number of sweeps; a sweep visits all groups once.
        tolerance: a block of examples stops when no belief of a node changes by more than this in a sweep,
            nor differs by more from the marginals of its factors.
        exact: whether one sweep gives the exact result, as on a forest from leaves to roots and back;
            otherwise, beliefs of factors are rounded to be consistent with those of nodes.
    """

    groups: list[np.ndarray]
    max_sweeps: int
    tolerance: float
    exact: bool = False


class Beliefs(NamedTuple):
    """Beliefs of nodes and factors in flat rows; the marginals of factors equal the beliefs of nodes."""

    cells: Float[Tensor, "B cells"]
    entries: Float[Tensor, "B entries"]
    messages: Float[Tensor, "B messages"]
    """Messages from nodes to factors, each with a largest entry of one; a later call can start from them."""
