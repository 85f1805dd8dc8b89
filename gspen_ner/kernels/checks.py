"""Checks of chain inference: shapes before it runs, scores after it has run.

Checking shapes and lengths is cheap. Scores are examined only if a result is not finite, to report the row
and the cause.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def check_shapes(nodes: Tensor, edges: Tensor, lengths: Tensor) -> None:
    """Raise a ValueError unless nodes, edges and lengths describe a batch of chains."""
    if nodes.dim() != 3 or 0 in nodes.shape:
        raise ValueError(f"nodes must be non-empty [batch, length, labels], got {list(nodes.shape)}")
    batch, length, labels = nodes.shape
    rows, positions = edges.shape[:2]
    if rows not in (1, batch) or positions not in (1, length - 1) or edges.shape[2:] != (labels, labels):
        raise ValueError(
            f"edges must be [{batch} or 1, {length - 1} or 1, {labels}, {labels}] "
            f"for nodes {list(nodes.shape)}, got {list(edges.shape)}"
        )
    if lengths.shape != (batch,) or lengths.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"lengths must be {batch} integers, got {lengths.dtype} of shape {list(lengths.shape)}"
        )
    shortest, longest = (int(value) for value in torch.aminmax(lengths))
    if shortest < 1 or longest > length:
        row = int(((lengths < 1) | (lengths > length)).nonzero()[0])
        raise ValueError(
            f"row {row}: length must be in 1..{length}, got {int(lengths[row])} "
            f"({'an empty sentence' if lengths[row] < 1 else 'longer than the tensor'})"
        )


def check_tags(nodes: Tensor, lengths: Tensor, tags: Tensor) -> None:
    """Raise a ValueError unless tags are labels of the rows; padding is not checked."""
    batch, length, labels = nodes.shape
    if tags.shape != (batch, length) or tags.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"tags must be integers of shape {[batch, length]}, got {tags.dtype} of shape {list(tags.shape)}"
        )
    lowest, highest = (int(value) for value in torch.aminmax(tags))
    if lowest < 0 or highest >= labels:  # allowed on padding
        inside = torch.arange(length, device=nodes.device) < lengths[:, None]
        rows = (inside & ((tags < 0) | (tags >= labels))).any(1).nonzero().flatten().tolist()
        if rows:
            raise ValueError(f"row {rows[0]}: a tag is outside 0..{labels - 1}")


def check_possible(score: Tensor, nodes: Tensor, edges: Tensor, lengths: Tensor) -> None:
    """Raise a ValueError with the cause for the first row whose score is not finite."""
    if not math.isfinite(score.detach().sum()):  # the sum is the cheapest test of all rows
        row = int((~torch.isfinite(score)).nonzero()[0])
        raise ValueError(f"row {row}: {_cause(row, nodes, edges, int(lengths[row]))}")


def check_gold(score: Tensor) -> None:
    """Raise a ValueError for the first row whose gold labels have the score -inf."""
    if score.detach().sum() == -torch.inf:
        raise ValueError(
            f"row {int(torch.isneginf(score).nonzero()[0])}: the gold labels contain a forbidden label or "
            "transition (score -inf); correct the labels, or train without constraints"
        )


def describe_invalid(**scores: Tensor) -> str | None:
    """Return a description of the first NaN or +inf among named scores; None if there is none."""
    for name, tensor in scores.items():
        if torch.isnan(tensor).any():
            return f"NaN among the {name} scores"
        if torch.isposinf(tensor).any():
            return f"+inf among the {name} scores"
    return None


def _cause(row: int, nodes: Tensor, edges: Tensor, length: int) -> str:
    scores = nodes[row, :length]
    table = edges[row if edges.shape[0] > 1 else 0]
    table = table if edges.shape[1] == 1 else table[: length - 1]
    if cause := describe_invalid(node=scores, edge=table):
        return cause
    blocked = torch.isneginf(scores).all(-1).nonzero().flatten().tolist()
    if blocked:
        return f"no legal path: every label is forbidden at position {blocked[0]}"
    return "no legal path: every labelling of the row has a forbidden label or transition"
