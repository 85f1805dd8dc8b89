"""The common part of all polytopes over a factor graph: vertices, entropies and the conversion to flat rows.

    H(p) = sum_r c_r H(p_r) + sum_p c_p H(p_p)            r: nodes, p: edges and larger factors

Marginals have a table for every edge and every factor of every example, also where scores are shared.
Log partitions are differentiable once; marginals are not differentiable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers, FactorGraph
from gspen_ner.graphs.compiled import Cells, Entries
from gspen_ner.kernels.checks import describe_invalid
from gspen_ner.kernels.linear_scores import best_labellings
from gspen_ner.kernels.messages import Beliefs
from gspen_ner.parts import Parts, inner_product, wide_dtype
from gspen_ner.polytopes.polytope import Messages, Polytope
from gspen_ner.polytopes.simplex import entropy_shares


class GraphPolytope(Polytope):
    """Marginals of the nodes, edges and factors of a graph; all examples of a batch share the graph."""

    def __init__(
        self,
        graph: FactorGraph | CompiledGraph,
        counting_numbers: Literal["unit", "bethe"] | CountingNumbers,
    ) -> None:
        self.graph = graph.compile() if isinstance(graph, FactorGraph) else graph
        self.counting_numbers = CountingNumbers.of(self.graph, counting_numbers)
        index = self.graph.index
        self._cell_weights = self.counting_numbers.nodes[index.cell_nodes]
        self._entry_weights = self.counting_numbers.factors[index.entry_factors]

    @abstractmethod
    def beliefs(self, cells: Cells, entries: Entries, messages: Messages | None = None) -> Beliefs:
        """Return the maximiser of `<theta, p> + H(p)` for flat scores in float64; see `Polytope.sums`."""

    def mask(self, positions: int) -> Bool[Tensor, "1 N"]:
        return torch.ones(1, self.graph.num_nodes, dtype=torch.bool)

    def log_partition(self, theta: Parts, messages: Messages | None = None) -> Float[Tensor, " B"]:
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in theta.tensors()):
            return _LogPartition.apply(self, messages, *self.graph.flatten(theta))
        return self.sums(theta, with_edges=False, messages=messages)[0]

    def sums(
        self, theta: Parts, with_edges: bool = True, messages: Messages | None = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return `<theta, p> + H(p)` at the resulting beliefs p, and p; see `Polytope.sums`.

        p is a point of the set, and the value is exact for this p. If message passing stops before it has
        converged, the value is a little below the maximum, never above it. Only with forbidden entries (-inf)
        may factors and nodes of such a p disagree, by as much as the messages do.
        """
        with torch.no_grad():
            value, beliefs = self.flat_sums(*self.graph.flatten(theta), messages)
        return value, self._parts(theta, beliefs.cells, beliefs.entries if with_edges else None)

    def flat_sums(
        self, cells: Cells, entries: Entries, messages: Messages | None = None
    ) -> tuple[Float[Tensor, " B"], Beliefs]:
        """Return the same as `sums` for flat rows."""
        wide = wide_dtype(cells.device)
        cells, entries = cells.to(wide), entries.to(wide)
        beliefs = self.beliefs(cells, entries, messages)
        value = inner_product(cells, beliefs.cells) + inner_product(entries, beliefs.entries)
        value = value + self._flat_entropy(beliefs.cells, beliefs.entries)
        check_possible(value, cells, entries)
        return value, beliefs

    def vertex(self, labels: Int[Tensor, "B N"], like: Parts) -> Parts:
        self._check_labels(labels, len(like.nodes))
        index = self.graph.index
        cells = like.nodes.new_zeros(len(labels), index.num_cells)
        entries = like.nodes.new_zeros(len(labels), index.num_entries)
        cells.scatter_(1, labels + torch.tensor(index.cell_starts[:-1], device=labels.device), 1.0)
        entries.scatter_(1, self.graph.entries_of(labels), 1.0)
        return self.graph.unflatten(cells, entries)

    def entropy(self, marginals: Parts) -> Float[Tensor, " B"]:
        return self._flat_entropy(*self.graph.flatten(marginals))

    def select(self, rows: Int[Tensor, " K"]) -> GraphPolytope:
        return self

    def join(self, others: Sequence[GraphPolytope]) -> GraphPolytope:
        return self

    def expand(self, scores: Parts) -> Parts:
        """Return the scores with a table for every edge and every factor of every example."""
        return self.graph.unflatten(*self.graph.flatten(scores))

    def _best_on_forest(self, theta: Parts) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
        """Return the score of each example's best labelling, and the labelling, for a graph without loops."""
        cells, entries = self.graph.flatten(theta)
        check_scores(cells, entries)
        scores, labels = best_labellings(self.graph, cells, entries)
        check_possible(scores, cells, entries)
        return scores, labels

    def _parts(self, like: Parts, cells: Tensor, entries: Tensor | None) -> Parts:
        """Return flat rows as `Parts`, in the dtype of the scores `like` (float32 for half precision)."""
        dtype = torch.promote_types(like.nodes.dtype, torch.float32)
        return self.graph.unflatten(cells.to(dtype), None if entries is None else entries.to(dtype))

    def _flat_entropy(self, cells: Tensor, entries: Tensor) -> Float[Tensor, " B"]:
        nodes, factors = entropy_shares(cells), entropy_shares(entries)
        return nodes @ self._cell_weights.to(nodes) + factors @ self._entry_weights.to(factors)

    def _check_labels(self, labels: Tensor, batch: int) -> None:
        expected = [batch, self.graph.num_nodes]
        if list(labels.shape) != expected or labels.is_floating_point():
            raise ValueError(
                f"labels must be integers of shape {expected}, "
                f"got {labels.dtype} of shape {list(labels.shape)}"
            )
        counts = torch.tensor(self.graph.label_counts, device=labels.device)
        invalid = ((labels < 0) | (labels >= counts)).nonzero().tolist()
        if invalid:
            row, node = invalid[0]
            raise ValueError(
                f"row {row}: label {int(labels[row, node])} of {self.graph.names[node]!r} is outside "
                f"0..{self.graph.label_counts[node] - 1}"
            )


class _LogPartition(torch.autograd.Function):
    """The log partition, whose gradient is the marginals."""

    @staticmethod
    def forward(
        ctx: Any, polytope: GraphPolytope, messages: Messages | None, cells: Tensor, entries: Tensor
    ) -> Tensor:
        value, beliefs = polytope.flat_sums(cells, entries, messages)
        ctx.save_for_backward(beliefs.cells.to(cells.dtype), beliefs.entries.to(entries.dtype))
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, Tensor]:
        cells, entries = ctx.saved_tensors
        weights = grad[:, None].to(cells.dtype)
        return None, None, cells * weights, entries * weights


def check_scores(cells: Tensor, entries: Tensor) -> None:
    """Raise a ValueError for the first row with a score of NaN or +inf; -inf is allowed."""
    total = cells.sum(1) + entries.sum(1)
    check_possible(torch.where(torch.isneginf(total), 0.0, total), cells, entries)


def check_possible(value: Tensor, cells: Tensor, entries: Tensor) -> None:
    """Raise a ValueError with the cause for the first row whose value is not finite."""
    if np.isfinite(float(value.sum())):
        return
    row = int((~torch.isfinite(value)).nonzero()[0])
    cause = describe_invalid(node=cells[row], factor=entries[row])
    raise ValueError(
        f"row {row}: {cause or 'no labelling is possible: each has a forbidden label or entry (-inf)'}"
    )
