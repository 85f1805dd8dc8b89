"""The local polytope: locally consistent beliefs of nodes, edges and factors, on any graph.

    marginals(theta) = argmax_b <theta, b> + sum_r c_r H(b_r) + sum_p c_p H(b_p),   b locally consistent

Locally consistent means that the marginals of each factor are the beliefs of its nodes. This is the paper's
M_L with its fractional entropy (all c = 1), solved by convex message passing. On a graph with loops, a point
of the set need not be the marginals of any distribution; on a forest with Bethe numbers, results are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from gspen_ner.components import Count, NonNegative
from gspen_ner.graphs import CompiledGraph, CountingNumbers, FactorGraph
from gspen_ner.graphs.compiled import Cells, Entries
from gspen_ner.kernels.linear_scores import (
    can_be_cut,
    labellings_by_cuts,
    solve_by_cuts,
    solve_linear_programs,
)
from gspen_ner.kernels.messages import Beliefs, Sweeps, pass_messages
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.graph_polytope import GraphPolytope, check_scores
from gspen_ner.polytopes.polytope import POLYTOPES, Messages

Cuts = TypeVar("Cuts")

# The linear problem is solved with scores scaled to this spread, in units of the entropy's weight: the
# largest for which message passing needs no log space. Increasing it in stages was tried and gave no better
# results.
_SHARPNESS = 240.0


@POLYTOPES.register("local", given=["graph", "counting_numbers"])
class LocalPolytope(GraphPolytope):
    """Locally consistent beliefs over a factor graph.

    Args:
        graph: the graph.
        counting_numbers: weights of the entropies: `"unit"` (the paper's), `"bethe"` (for forests), or given
            numbers.
        max_sweeps: maximum number of sweeps over all nodes in one inference.
        tolerance: message passing stops when no belief of a node changes by more than this in a sweep; 0 runs
            all `max_sweeps` sweeps.
        oracle: method that maximises linear scores on a graph with loops; a forest always uses exact
            max-product. `lp`: linear programming (HiGHS), the exact maximum, some milliseconds per
            example. `messages`: message passing with little entropy, rounded to a point near the maximum; the
            gap at temperature 0 is then only an estimate. `cut`: minimum cuts, the exact maximum in a
            fraction of a millisecond per example, for binary variables and pairwise factors only. With
            `messages` and `cut`, examples with forbidden entries use linear programming.
        oracle_sweeps: maximum number of sweeps of the oracle `messages`.

    Example:
        >>> triangle = FactorGraph.of_edges([2, 2, 2], [(0, 1), (1, 2), (0, 2)])
        >>> polytope = LocalPolytope(triangle)
        >>> theta = polytope.graph.potentials({0: torch.tensor([[0.0, 2.0]]), (0, 1): torch.eye(2)})
        >>> polytope.marginals(theta).nodes.round(decimals=2)[0, 1]
        tensor([0.4700, 0.5300])
    """

    def __init__(
        self,
        graph: FactorGraph | CompiledGraph,
        counting_numbers: Literal["unit", "bethe"] | CountingNumbers = "unit",
        *,
        max_sweeps: Count = 200,
        tolerance: NonNegative = 1e-7,
        oracle: Literal["lp", "messages", "cut"] = "messages",
        oracle_sweeps: Count = 200,
    ) -> None:
        super().__init__(graph, counting_numbers)
        if oracle == "cut" and not can_be_cut(self.graph):
            raise ValueError(
                'oracle="cut" needs variables with two labels and factors over two variables only; '
                'use "lp" or "messages" for this graph'
            )
        self.max_sweeps, self.tolerance, self.oracle = max_sweeps, tolerance, oracle
        self.oracle_sweeps = oracle_sweeps

    def beliefs(self, cells: Cells, entries: Entries, messages: Messages | None = None) -> Beliefs:
        start = None if messages is None else messages.values
        if start is not None and len(start) != len(cells):
            raise ValueError(f"messages must be of {len(cells)} examples like the scores, got {len(start)}")
        beliefs = self._pass(cells, entries, self.max_sweeps, self.tolerance, start)
        if messages is not None and torch.isfinite(beliefs.messages.sum()):
            messages.values = beliefs.messages
        return beliefs

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        """Return the best labelling on a forest, else an approximation without guarantee.

        The approximation takes the most likely label of each node in the marginals or in the maximiser,
        whichever scores higher. With the oracle `cut`, it is the maximiser if that is a labelling, else a
        labelling near it that no change of a single label improves.
        """
        if self.graph.is_forest:
            return self._best_on_forest(theta)[1]
        if self.oracle != "cut":
            return self._approximate_argmax(theta)
        cells, entries = self.graph.flatten(theta)
        check_scores(cells, entries)
        forbidden, labels = self._cut(labellings_by_cuts, cells, entries)
        rows = forbidden.nonzero().flatten()
        if not len(rows):
            return labels
        return labels.index_copy(0, rows, self._approximate_argmax(theta.select(rows)))

    def maximiser(self, theta: Parts) -> Parts:
        if self.graph.is_forest:
            return super().maximiser(theta)
        wide = wide_dtype(theta.nodes.device)
        cells, entries = (rows.to(wide) for rows in self.graph.flatten(theta))
        check_scores(cells, entries)
        if self.oracle == "lp":
            return self._parts(theta, *solve_linear_programs(self.graph, cells, entries))
        if self.oracle == "cut":
            forbidden, cut = self._cut(solve_by_cuts, cells, entries)
            points = self._parts(theta, *cut)
        else:
            forbidden = torch.isneginf(entries).any(1)
            points = self._maximise_by_messages(theta, cells, entries)
        rows = forbidden.nonzero().flatten()
        if not len(rows):
            return points
        exact = solve_linear_programs(self.graph, cells[rows], entries[rows])
        return points.merge(rows, self._parts(theta, *exact))

    def _cut(self, method: Callable[..., Cuts], cells: Tensor, entries: Tensor) -> tuple[Tensor, Cuts]:
        """Return a mask of the examples with forbidden scores, and a result by cuts, valid for the others."""
        forbidden = torch.isneginf(entries).any(1) | torch.isneginf(cells).any(1)
        finite = (rows.masked_fill(forbidden[:, None], 0.0) for rows in (cells, entries))
        return forbidden, method(self.graph, *finite)

    def _approximate_argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        """Return the most likely labels in the marginals or in the maximiser, whichever scores higher."""
        points = self.sums(theta, with_edges=False)[1], self.maximiser(theta)
        smooth, sharp = (point.nodes.argmax(-1) for point in points)
        better = self.score(theta, sharp) >= self.score(theta, smooth)
        return torch.where(better[:, None], sharp, smooth)

    def _maximise_by_messages(self, theta: Parts, cells: Tensor, entries: Tensor) -> Parts:
        """Return the beliefs at a low temperature, or their most likely labels if these score higher."""
        scale = _SHARPNESS * self.counting_numbers.factors.min().item() / _spread(entries).clamp_min(1e-12)
        beliefs = self._pass(cells * scale[:, None], entries * scale[:, None], self.oracle_sweeps, 1e-6)
        point = self._parts(theta, beliefs.cells, beliefs.entries)
        labelling = self.vertex(point.nodes.argmax(-1), point)
        return labelling.where(theta.dot(labelling) >= theta.dot(point), point)

    def _pass(
        self, cells: Tensor, entries: Tensor, max_sweeps: int, tolerance: float, start: Tensor | None = None
    ) -> Beliefs:
        sweeps = Sweeps(self.graph.index.colours, max_sweeps, tolerance)
        return pass_messages(self.graph, self.counting_numbers, cells, entries, sweeps, start)


def _spread(rows: Tensor) -> Tensor:
    """Return the largest difference between finite entries of each row."""
    if not rows.shape[1]:
        return rows.new_zeros(len(rows))
    low = torch.where(torch.isneginf(rows), torch.inf, rows).amin(1)
    return rows.amax(1) - low
