"""Parts: the one shape that potentials, marginals, labels and gradients share.

A score of a labelling is an inner product, <scores, marginals>, summed over nodes and edges. A table
that all edges share keeps an edge axis of length one; its marginal is then the *expected number of
uses* of each entry, so the inner product holds without ever building a table per position.

    nodes  [B, N, L]      one row of L scores (or probabilities) for each of N variables
    edges  [B, E, L, L]   one table per edge, rows = label before, columns = label after
           [1, 1, L, L]   one table for all edges of all examples
           [B, 1, L, L]   one table per example; or the expected counts of a shared table
           None           no edges at all (or: all of them zero)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def wide_dtype(device: torch.device) -> torch.dtype:
    """The widest float of a device, in which sums over long sequences are kept."""
    return torch.float32 if device.type == "mps" else torch.float64


def outside_graph(tensor: Tensor) -> Tensor:
    """The same numbers as a constant that autograd may still save; call it outside `inference_mode`."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


@dataclass(frozen=True)
class Parts:
    """Scores, marginals, labels or gradients over the nodes and edges of a batch of graphs.

    Args:
        nodes: `[B, N, L]`.
        edges: `[B or 1, E or 1, L, L]`, a plain `[L, L]` table shared by every edge, or None.

    Example:
        >>> scores = Parts(torch.zeros(2, 3, 4), torch.zeros(4, 4))
        >>> scores.edges.shape
        torch.Size([1, 1, 4, 4])
    """

    nodes: Float[Tensor, "B N L"]
    edges: Float[Tensor, ...] | None = None

    def __post_init__(self) -> None:
        if self.nodes.dim() != 3:
            raise ValueError(f"nodes must be [batch, nodes, labels], got {list(self.nodes.shape)}")
        if self.edges is None:
            return
        if self.edges.dim() == 2:
            object.__setattr__(self, "edges", self.edges[None, None])
        batch, _, labels = self.nodes.shape
        shape = tuple(self.edges.shape)
        if len(shape) != 4 or shape[2:] != (labels, labels) or shape[0] not in (1, batch):
            raise ValueError(
                f"edges must be [{labels}, {labels}] or [{batch} or 1, edges or 1, {labels}, {labels}] "
                f"to fit nodes {list(self.nodes.shape)}, got {list(shape)}"
            )

    @classmethod
    def one_hot(
        cls,
        labels: Int[Tensor, "B N"],
        mask: Bool[Tensor, "B N"],
        num_labels: int,
        dtype: torch.dtype = torch.float32,
        per_position: bool = False,
    ) -> Parts:
        """The indicator of chain labellings: nodes, and edges between neighbours.

        Edges come as counts of each transition `[B, 1, L, L]`, or one table per position.
        """
        safe = labels.masked_fill(~mask, 0)
        nodes = torch.nn.functional.one_hot(safe, num_labels).to(dtype) * mask[..., None]
        if per_position:
            return cls(nodes, nodes[:, :-1, :, None] * nodes[:, 1:, None, :])
        return cls(nodes, (nodes[:, :-1].mT @ nodes[:, 1:])[:, None])

    def __add__(self, other: Parts) -> Parts:
        if self.edges is None or other.edges is None:
            return Parts(self.nodes + other.nodes, self.edges if other.edges is None else other.edges)
        return Parts(self.nodes + other.nodes, self.edges + other.edges)

    def __sub__(self, other: Parts) -> Parts:
        return self + other * -1.0

    def __mul__(self, factor: float | Float[Tensor, " B"]) -> Parts:
        """Scale every part by a number, or each example by its own."""
        if isinstance(factor, float) and factor == 1.0:
            return self
        if isinstance(factor, Tensor) and factor.dim() == 1:
            factor = factor.to(self.nodes.dtype)
            edges = None if self.edges is None else self.edges * factor[:, None, None, None]
            return Parts(self.nodes * factor[:, None, None], edges)
        return self.map(lambda tensor: tensor * factor)

    def dot(self, marginals: Parts) -> Float[Tensor, " B"]:
        """<self, marginals> of each example, summed in the widest float.

        A score of -inf (something forbidden) counts as nothing where its marginal is zero.
        """
        total = _inner(self.nodes, marginals.nodes, (1, 2))
        if self.edges is None or marginals.edges is None:
            return total
        return total + _inner(self.edges, marginals.edges, (1, 2, 3))

    def inner(self, other: Parts) -> Float[Tensor, " B"]:
        """<self, other> of each example where both are finite; cheaper than `dot`."""
        wide = wide_dtype(self.nodes.device)
        total = (self.nodes * other.nodes).sum((1, 2), dtype=wide)
        if self.edges is None or other.edges is None:
            return total
        return total + (self.edges * other.edges).sum((1, 2, 3), dtype=wide)

    def map(self, function: Callable[[Tensor], Tensor]) -> Parts:
        """Apply one function to the nodes and to the edges."""
        return Parts(function(self.nodes), None if self.edges is None else function(self.edges))

    def detach(self) -> Parts:
        """The same numbers outside the autograd graph."""
        return self.map(outside_graph)

    def select(self, rows: Int[Tensor, " K"]) -> Parts:
        """Some examples of the batch; what the batch shares stays shared."""
        edges = self.edges
        if edges is not None and edges.shape[0] == len(self.nodes):
            edges = edges[rows]
        return Parts(self.nodes[rows], edges)

    def merge(self, rows: Int[Tensor, " K"], update: Parts) -> Parts:
        """A copy in which the given examples are replaced (edges, if any, must be per example)."""
        edges = None
        if self.edges is not None and update.edges is not None:
            edges = self.edges.index_copy(0, rows, update.edges)
        return Parts(self.nodes.index_copy(0, rows, update.nodes), edges)

    def where(self, keep: Bool[Tensor, " B"], other: Parts) -> Parts:
        """Self where `keep`, else the other's example (edges, if any, must be per example)."""
        edges = None
        if self.edges is not None and other.edges is not None:
            edges = torch.where(keep[:, None, None, None], self.edges, other.edges)
        return Parts(torch.where(keep[:, None, None], self.nodes, other.nodes), edges)

    def per_position(self) -> Parts:
        """The same scores with one table per edge of a chain: memory B * N * L * L."""
        batch, length, labels = self.nodes.shape
        if self.edges is None:
            edges = self.nodes.new_zeros(batch, length - 1, labels, labels)
        else:
            edges = self.edges.expand(batch, length - 1, labels, labels)
        return Parts(self.nodes, edges)


def _inner(scores: Tensor, weights: Tensor, dims: tuple[int, ...]) -> Tensor:
    product = torch.where(weights == 0, 0.0, scores) * weights
    return product.sum(dims, dtype=wide_dtype(product.device))
