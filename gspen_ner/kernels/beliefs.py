"""What message passing is asked for, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor


class Sweeps(NamedTuple):
    """How nodes are visited, and how often.

    Args:
        groups: the order; nodes of a group must not share a factor (or be siblings in a forest).
        most: how often all groups are visited at most.
        tolerance: examples that are swept together are done when no node's belief changes by more than this
            in a sweep, nor differs by more from the marginals of its factors.
        exact: whether one sweep over these groups is all that it takes, as on a forest from leaves to roots
            and back; else factors' beliefs are rounded to agree with the nodes'.
    """

    groups: list[np.ndarray]
    most: int
    tolerance: float
    exact: bool = False


class Beliefs(NamedTuple):
    """What message passing found, in flat rows; factors' marginals are exactly the nodes'."""

    cells: Float[Tensor, "B cells"]
    entries: Float[Tensor, "B entries"]
    messages: Float[Tensor, "B messages"]
    """From nodes to factors, each with a largest entry of one: where a later call may go on from."""
