"""What all polytopes over a factor graph share: labellings as vertices, entropies, and the way to flat rows.

    H(p) = sum_r c_r H(p_r) + sum_p c_p H(p_p)            r: nodes, p: edges and larger factors

Marginals are always per edge and per factor; a table that edges or examples share in the scores is
expanded. Log partitions are differentiable once; marginals are not.
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
from gspen_ner.kernels.beliefs import Beliefs
from gspen_ner.kernels.checks import poison
from gspen_ner.kernels.max_product import best_labellings
from gspen_ner.parts import Parts, inner_product, wide_dtype
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.polytopes.simplex import entropy_shares


class GraphPolytope(Polytope):
    """Marginals of the nodes, edges and factors of a graph that a batch shares."""

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
    def beliefs(self, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]) -> Beliefs:
        """The maximiser of `<theta, p> + H(p)` for flat scores in the widest float."""

    def mask(self, positions: int) -> Bool[Tensor, "1 N"]:
        return torch.ones(1, self.graph.num_nodes, dtype=torch.bool)

    def marginals(self, theta: Parts) -> Parts:
        return self.sums(theta)[1]

    def log_partition(self, theta: Parts) -> Float[Tensor, " B"]:
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in theta.tensors()):
            return _LogPartition.apply(self, *self.graph.flatten(theta))
        return self.sums(theta, with_edges=False)[0]

    def sums(self, theta: Parts, with_edges: bool = True) -> tuple[Float[Tensor, " B"], Parts]:
        """`<theta, p> + H(p)` at the beliefs p that were found, and p.

        p is a point of the set, and the value is p's own: where message passing was cut short, a little
        below the maximum, never above. Only where entries are forbidden (-inf) does a p that was cut short
        agree no better than its messages do.
        """
        with torch.no_grad():
            value, found = self.flat_sums(*self.graph.flatten(theta))
        return value, self._parts(theta, found.cells, found.entries if with_edges else None)

    def flat_sums(self, cells: Tensor, entries: Tensor) -> tuple[Float[Tensor, " B"], Beliefs]:
        """The same in flat rows."""
        wide = wide_dtype(cells.device)
        cells, entries = cells.to(wide), entries.to(wide)
        found = self.beliefs(cells, entries)
        value = inner_product(cells, found.cells) + inner_product(entries, found.entries)
        value = value + self._flat_entropy(found.cells, found.entries)
        check_possible(value, cells, entries)
        return value, found

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
        """The scores with a table for every edge and every factor of every example."""
        return self.graph.unflatten(*self.graph.flatten(scores))

    def _best_on_forest(self, theta: Parts) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
        """The best labelling of each example of a graph without loops, with its score."""
        cells, entries = self.graph.flatten(theta)
        check_scores(cells, entries)
        scores, labels = best_labellings(self.graph, cells, entries)
        check_possible(scores, cells, entries)
        return scores, labels

    def _parts(self, like: Parts, cells: Tensor, entries: Tensor | None) -> Parts:
        """Flat rows as parts, of the dtype of given scores (single, if that is half)."""
        dtype = torch.promote_types(like.nodes.dtype, torch.float32)
        return self.graph.unflatten(cells.to(dtype), None if entries is None else entries.to(dtype))

    def _flat_entropy(self, cells: Tensor, entries: Tensor) -> Float[Tensor, " B"]:
        nodes, factors = entropy_shares(cells), entropy_shares(entries)
        return nodes @ self._cell_weights.to(nodes) + factors @ self._entry_weights.to(factors)

    def _check_labels(self, labels: Tensor, batch: int) -> None:
        expected = [batch, self.graph.num_nodes]
        if list(labels.shape) != expected or labels.is_floating_point():
            raise ValueError(f"labels must be integers {expected}, got {labels.dtype} {list(labels.shape)}")
        counts = torch.tensor(self.graph.label_counts, device=labels.device)
        wrong = ((labels < 0) | (labels >= counts)).nonzero().tolist()
        if wrong:
            row, node = wrong[0]
            raise ValueError(
                f"row {row}: label {int(labels[row, node])} of {self.graph.names[node]!r} is outside "
                f"0..{self.graph.label_counts[node] - 1}"
            )


class _LogPartition(torch.autograd.Function):
    """The log partition, whose gradient is the marginals."""

    @staticmethod
    def forward(ctx: Any, polytope: GraphPolytope, cells: Tensor, entries: Tensor) -> Tensor:
        value, found = polytope.flat_sums(cells, entries)
        ctx.save_for_backward(found.cells.to(cells.dtype), found.entries.to(entries.dtype))
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        cells, entries = ctx.saved_tensors
        weights = grad[:, None].to(cells.dtype)
        return None, cells * weights, entries * weights


def check_scores(cells: Tensor, entries: Tensor) -> None:
    """Raise ValueError for the first row with NaN or +inf; -inf is allowed."""
    total = cells.sum(1) + entries.sum(1)
    check_possible(torch.where(torch.isneginf(total), 0.0, total), cells, entries)


def check_possible(value: Tensor, cells: Tensor, entries: Tensor) -> None:
    """Raise ValueError that names the first row whose value is not finite, and says why."""
    if np.isfinite(float(value.sum())):
        return
    row = int((~torch.isfinite(value)).nonzero()[0])
    cause = poison(node=cells[row], factor=entries[row])
    raise ValueError(f"row {row}: {cause or 'forbidden labels and entries (-inf) leave no labelling'}")
