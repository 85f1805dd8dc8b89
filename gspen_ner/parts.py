"""Parts: the data type of potentials, marginals, labels and gradients.

The score of a labelling is an inner product, `<scores, marginals>`, summed over nodes and edges. A table that
all edges share has an edge axis of length one. Its marginals are then the *expected counts* of its entries,
so the inner product is correct without a table per position.

    nodes  [B, N, L]      one row of L scores (or probabilities) for each of N variables
    edges  [B, E, L, L]   one table per edge; rows are labels before, columns labels after
           [1, 1, L, L]   one table for all edges of all examples
           [B, 1, L, L]   one table per example, or the expected counts of a shared table
           None           no edges (or edges with zero scores)
    factors [B, X]        factor graphs: the flattened, concatenated tables of factors over three or more
           [1, X]         variables, per example or shared by all examples; or None
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def wide_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums over long sequences: float64, or float32 on devices without it."""
    return torch.float32 if device.type == "mps" else torch.float64


def outside_graph(tensor: Tensor) -> Tensor:
    """Return a detached tensor that autograd can save; to be called outside `inference_mode`."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


@dataclass(frozen=True)
class Parts:
    """Scores, marginals, labels or gradients over the nodes and edges of a batch of graphs.

    Args:
        nodes: `[B, N, L]`.
        edges: `[B or 1, E or 1, L, L]`, a table `[L, L]` shared by all edges, or None (default).
        factors: `[B or 1, X]`, or None (default).

    Example:
        >>> scores = Parts(torch.zeros(2, 3, 4), torch.zeros(4, 4))
        >>> scores.edges.shape
        torch.Size([1, 1, 4, 4])
    """

    nodes: Float[Tensor, "B N L"]
    edges: Float[Tensor, ...] | None = None
    factors: Float[Tensor, "Bf X"] | None = None

    def __post_init__(self) -> None:
        if self.nodes.dim() != 3:
            raise ValueError(f"nodes must be [batch, nodes, labels], got {list(self.nodes.shape)}")
        batch, _, labels = self.nodes.shape
        if self.factors is not None and (self.factors.dim() != 2 or len(self.factors) not in (1, batch)):
            raise ValueError(f"factors must be [{batch} or 1, entries], got {list(self.factors.shape)}")
        if self.edges is None:
            return
        if self.edges.dim() == 2:
            object.__setattr__(self, "edges", self.edges[None, None])
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
        """Return chain labellings as 0 and 1 for each label and transition.

        Args:
            labels: label of each node.
            mask: True where an example has a node; labels on padding are ignored.
            num_labels: number of labels of each node.
            dtype: dtype of the result.
            per_position: whether edges are one table per position; by default, they are the counts of each
                transition, `[B, 1, L, L]`.
        """
        labels = labels.masked_fill(~mask, 0)
        nodes = torch.nn.functional.one_hot(labels, num_labels).to(dtype) * mask[..., None]
        if per_position:
            return cls(nodes, nodes[:, :-1, :, None] * nodes[:, 1:, None, :])
        return cls(nodes, (nodes[:, :-1].mT @ nodes[:, 1:])[:, None])

    @staticmethod
    def join(batches: Sequence[Parts]) -> Parts:
        """Return several batches as one; a table that all of them share stays shared."""
        nodes = torch.cat([batch.nodes for batch in batches])
        rows = [len(batch.nodes) for batch in batches]
        edges = _join([batch.edges for batch in batches], rows)
        return Parts(nodes, edges, _join([batch.factors for batch in batches], rows))

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.nodes + other.nodes, _sum(self.edges, other.edges), _sum(self.factors, other.factors)
        )

    def __sub__(self, other: Parts) -> Parts:
        return self + other * -1.0

    def __mul__(self, factor: float | Float[Tensor, " B"]) -> Parts:
        """Return all parts multiplied by a number, or each example by its own number."""
        if isinstance(factor, float) and factor == 1.0:
            return self
        if isinstance(factor, Tensor) and factor.dim() == 1:
            weights = factor.to(self.nodes.dtype)
            return self.map(lambda tensor: tensor * _over_rows(weights, tensor))
        return self.map(lambda tensor: tensor * factor)

    def dot(self, marginals: Parts) -> Float[Tensor, " B"]:
        """Return `<self, marginals>` of each example, summed in float64.

        A score of -inf (forbidden) counts as zero where its marginal is zero.
        """
        return reduce(torch.add, (inner_product(mine, its) for mine, its in self._pairs(marginals)))

    def inner(self, other: Parts) -> Float[Tensor, " B"]:
        """Return `<self, other>` of each example for finite numbers; faster than `dot`."""
        return reduce(torch.add, (_row_sums(mine * its) for mine, its in self._pairs(other)))

    def _pairs(self, other: Parts) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the nodes, the edges and the factors that both parts have."""
        yield self.nodes, other.nodes
        if self.edges is not None and other.edges is not None:
            yield self.edges, other.edges
        if self.factors is not None and other.factors is not None:
            yield self.factors, other.factors

    def map(self, function: Callable[[Tensor], Tensor]) -> Parts:
        """Return the result of a function applied to the nodes, the edges and the factors."""
        return Parts(
            function(self.nodes),
            None if self.edges is None else function(self.edges),
            None if self.factors is None else function(self.factors),
        )

    def tensors(self) -> list[Tensor]:
        """Return the nodes, edges and factors that are not None, in this order."""
        return [tensor for tensor in (self.nodes, self.edges, self.factors) if tensor is not None]

    def detach(self) -> Parts:
        """Return the same numbers outside the autograd graph."""
        return self.map(outside_graph)

    def select(self, rows: Int[Tensor, " K"]) -> Parts:
        """Return some examples of the batch; shared tables stay shared."""
        return self.map(lambda tensor: tensor[rows] if len(tensor) == len(self.nodes) else tensor)

    def merge(self, rows: Int[Tensor, " K"], update: Parts) -> Parts:
        """Return a copy in which the given examples are replaced; tables must be per example."""
        return self._combine(update, lambda mine, its: mine.index_copy(0, rows, its))

    def where(self, keep: Bool[Tensor, " B"], other: Parts) -> Parts:
        """Return these parts for the examples in `keep`, the other's for the rest; no shared tables."""
        return self._combine(other, lambda mine, its: torch.where(_over_rows(keep, mine), mine, its))

    def _combine(self, other: Parts, function: Callable[[Tensor, Tensor], Tensor]) -> Parts:
        """Return the results of a function of two tensors; None where one of the parts is None."""
        pairs = ((self.edges, other.edges), (self.factors, other.factors))
        tables = (None if mine is None or its is None else function(mine, its) for mine, its in pairs)
        return Parts(function(self.nodes, other.nodes), *tables)

    def per_position(self) -> Parts:
        """Return the same scores of a chain with one table per edge, which takes B * N * L * L numbers."""
        batch, length, labels = self.nodes.shape
        edges = self.nodes.new_zeros(1, 1, labels, labels) if self.edges is None else self.edges
        return Parts(self.nodes, edges.expand(batch, length - 1, labels, labels))


def inner_product(scores: Tensor, weights: Tensor) -> Float[Tensor, " B"]:
    """Return the sum of scores times weights of each row, in float64; scores with weight zero are ignored."""
    return _row_sums(torch.where(weights == 0, 0.0, scores) * weights)


def _row_sums(tensor: Tensor) -> Float[Tensor, " B"]:
    return tensor.sum(tuple(range(1, tensor.dim())), dtype=wide_dtype(tensor.device))


def value_and_gradient(
    function: Callable[[Parts], Float[Tensor, " B"]], point: Parts, create_graph: bool = False
) -> tuple[Float[Tensor, " B"], Parts]:
    """Return the values of a function of parts and their gradients, by autograd.

    Args:
        function: maps the parts of a batch to a value for each example.
        point: the parts at which the function is differentiated.
        create_graph: whether values and gradients stay differentiable in the function's parameters; by
            default they are constants.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaf = point.map(lambda tensor: tensor.detach().requires_grad_())
        value = function(leaf)
        gradients = torch.autograd.grad(
            value.sum(), leaf.tensors(), create_graph=create_graph, materialize_grads=True
        )
    remaining = iter(gradients)
    return value if create_graph else value.detach(), leaf.map(lambda _: next(remaining))


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _over_rows(values: Tensor, like: Tensor) -> Tensor:
    """Return one value per example, in a shape that broadcasts over the other axes of `like`."""
    return values.view(-1, *(1,) * (like.dim() - 1))


def _join(tables: Sequence[Tensor | None], rows: Sequence[int]) -> Tensor | None:
    """Return the tables of several batches one after the other, or the one that all of them share."""
    present = [table for table in tables if table is not None]
    if not present:
        return None
    if all(len(table) == 1 and torch.equal(table, present[0]) for table in present):
        return present[0]
    pairs = zip(present, rows, strict=True)
    return torch.cat([table.expand(count, *table.shape[1:]) for table, count in pairs])
