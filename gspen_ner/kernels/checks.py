"""What chain inference refuses: shapes before it runs, impossible rows after.

Shapes and lengths are checked up front, which is cheap. Values are looked at only when a result came
out non-finite: then the cause is found and the row is named.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def check_shapes(nodes: Tensor, edges: Tensor, lengths: Tensor) -> None:
    """Raise ValueError unless nodes, edges and lengths describe a batch of chains."""
    if nodes.dim() != 3 or 0 in nodes.shape:
        raise ValueError(f"nodes must be a non-empty [batch, length, labels], got {list(nodes.shape)}")
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
            f"row {row}: length {int(lengths[row])} is outside 1..{length} "
            f"({'an empty sentence' if lengths[row] < 1 else 'longer than the tensor'})"
        )


def check_tags(nodes: Tensor, lengths: Tensor, tags: Tensor) -> None:
    """Raise ValueError unless tags are labels of the rows."""
    batch, length, labels = nodes.shape
    if tags.shape != (batch, length) or tags.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"tags must be integers {[batch, length]}, got {tags.dtype} {list(tags.shape)}")
    lowest, highest = (int(value) for value in torch.aminmax(tags))
    if lowest < 0 or highest >= labels:  # allowed in padding
        inside = torch.arange(length, device=nodes.device) < lengths[:, None]
        rows = (inside & ((tags < 0) | (tags >= labels))).any(1).nonzero().flatten().tolist()
        if rows:
            raise ValueError(f"row {rows[0]}: a tag is outside 0..{labels - 1}")


def check_possible(score: Tensor, nodes: Tensor, edges: Tensor, lengths: Tensor) -> None:
    """Raise ValueError that names the first row whose score is not finite, and says why."""
    if not math.isfinite(score.detach().sum()):  # one sum is the cheapest look at all of them
        row = int((~torch.isfinite(score)).nonzero()[0])
        raise ValueError(f"row {row}: {_cause(row, nodes, edges, int(lengths[row]))}")


def check_gold(score: Tensor) -> None:
    """Raise ValueError for the first row whose gold labels have the score -inf."""
    if score.detach().sum() == -torch.inf:
        raise ValueError(
            f"row {int(torch.isneginf(score).nonzero()[0])}: the gold labels contain something forbidden "
            "(score -inf); mend the labels, or train without constraints"
        )


def poison(**scores: Tensor) -> str | None:
    """What no score may be, NaN or +inf, if it is among some scores, which are told by name."""
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
    if cause := poison(node=scores, edge=table):
        return cause
    blocked = torch.isneginf(scores).all(-1).nonzero().flatten().tolist()
    if blocked:
        return f"no legal path: every label is forbidden at position {blocked[0]}"
    return "no legal path: forbidden transitions leave no labelling of the whole row"
