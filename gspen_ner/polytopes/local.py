"""The local polytope: beliefs of nodes, edges and factors that agree where they overlap, on any graph.

    marginals(theta) = argmax_b <theta, b> + sum_r c_r H(b_r) + sum_p c_p H(b_p),   b locally consistent

The paper's M_L with its fractional entropy (all c = 1), solved by convex message passing: one node's
messages at a time, or all nodes of a colour. On a graph with loops its points need not be marginals of any
distribution; on a forest with Bethe numbers they are the exact ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.components import Count, NonNegative
from gspen_ner.graphs import CompiledGraph, CountingNumbers, FactorGraph
from gspen_ner.kernels.beliefs import Beliefs, Sweeps
from gspen_ner.kernels.linear_program import solve_linear_programs
from gspen_ner.kernels.messages import pass_messages
from gspen_ner.kernels.minimum_cut import can_be_cut, labellings_by_cuts, solve_by_cuts
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.graph_polytope import GraphPolytope, check_scores
from gspen_ner.polytopes.polytope import POLYTOPES, Messages

Cut = TypeVar("Cut")

# How far apart, in units of the entropy's weight, the scores of the linear problem are pulled: as far as
# message passing goes without log space. Getting there in stages was tried, and was no better.
_SHARPNESS = 240.0


@POLYTOPES.register("local", given=["graph", "counting_numbers"])
class LocalPolytope(GraphPolytope):
    """Locally consistent beliefs over a factor graph.

    Args:
        graph: the graph.
        counting_numbers: `"unit"` (the paper's), `"bethe"` (on forests), or your own.
        max_sweeps: visits to all nodes in one inference, at most.
        tolerance: done when no node's belief changes by more than this in a sweep; 0 takes all sweeps.
        oracle: how linear scores are maximised on a graph with loops (on a forest it is always max-product,
            an exact labelling). `"lp"`: by linear programming (HiGHS), the true maximum over the local
            polytope, some milliseconds an example. `"messages"`: by message passing with little
            entropy, rounded, or the labelling read off it if that scores higher: always a point of the
            set, near the maximum but not at it, so that gaps without temperature are no bound. `"cut"`:
            by minimum cuts, the true maximum in a fraction of a millisecond, where all variables are binary
            and all factors are pairs. Examples with forbidden entries go to the linear program.
        oracle_sweeps: visits to all nodes by which `"messages"` maximises linear scores.

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
            raise ValueError('oracle="cut" needs variables of two labels and factors over two variables only')
        self.max_sweeps, self.tolerance, self.oracle = max_sweeps, tolerance, oracle
        self.oracle_sweeps = oracle_sweeps
        self._messages: Messages | None = None

    def beliefs(self, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]) -> Beliefs:
        start = None if self._messages is None else self._messages.rows
        if start is not None and len(start) != len(cells):
            start = None
        beliefs = self._pass(cells, entries, self.max_sweeps, self.tolerance, start)
        if self._messages is not None and torch.isfinite(beliefs.messages.sum()):
            self._messages.rows = beliefs.messages
        return beliefs

    def argmax(self, theta: Parts) -> Int[Tensor, "B N"]:
        """On a forest the best labelling; else the better of two guesses, with no guarantee.

        They take each node's likeliest label: in the marginals, and in the maximiser. With `"cut"`, the
        maximiser if it is a labelling, else one near it that no change of a single label improves.
        """
        if self.graph.is_forest:
            return self._best_on_forest(theta)[1]
        if self.oracle != "cut":
            return self._better_guess(theta)
        cells, entries = self.graph.flatten(theta)
        check_scores(cells, entries)
        impossible, labels = self._cut(labellings_by_cuts, cells, entries)
        rows = impossible.nonzero().flatten()
        return labels.index_copy(0, rows, self._better_guess(theta.select(rows))) if len(rows) else labels

    def maximiser(self, theta: Parts) -> Parts:
        if self.graph.is_forest:
            return super().maximiser(theta)
        wide = wide_dtype(theta.nodes.device)
        cells, entries = (rows.to(wide) for rows in self.graph.flatten(theta))
        check_scores(cells, entries)
        if self.oracle == "lp":
            return self._parts(theta, *solve_linear_programs(self.graph, cells, entries))
        if self.oracle == "cut":
            impossible, points = self._cut(solve_by_cuts, cells, entries)
            found = self._parts(theta, *points)
        else:
            impossible = torch.isneginf(entries).any(1)
            found = self._near_maximiser(theta, cells, entries)
        rows = impossible.nonzero().flatten()
        if not len(rows):
            return found
        exact = solve_linear_programs(self.graph, cells[rows], entries[rows])
        return found.merge(rows, self._parts(theta, *exact))

    def _cut(self, by_cuts: Callable[..., Cut], cells: Tensor, entries: Tensor) -> tuple[Tensor, Cut]:
        """Which examples have something forbidden, and what cuts say of the others (of these, anything)."""
        impossible = torch.isneginf(entries).any(1) | torch.isneginf(cells).any(1)
        finite = (rows.masked_fill(impossible[:, None], 0.0) for rows in (cells, entries))
        return impossible, by_cuts(self.graph, *finite)

    def _better_guess(self, theta: Parts) -> Int[Tensor, "B N"]:
        """Each node's likeliest label: in the marginals or in the maximiser, whichever scores higher."""
        points = self.sums(theta, with_edges=False)[1], self.maximiser(theta)
        smooth, sharp = (point.nodes.argmax(-1) for point in points)
        better = self.score(theta, sharp) >= self.score(theta, smooth)
        return torch.where(better[:, None], sharp, smooth)

    def _near_maximiser(self, theta: Parts, cells: Tensor, entries: Tensor) -> Parts:
        scale = _SHARPNESS * self.counting_numbers.factors.min().item() / _spread(entries).clamp_min(1e-12)
        beliefs = self._pass(cells * scale[:, None], entries * scale[:, None], self.oracle_sweeps, 1e-6)
        between = self._parts(theta, beliefs.cells, beliefs.entries)
        labelling = self.vertex(between.nodes.argmax(-1), between)
        return labelling.where(theta.dot(labelling) >= theta.dot(between), between)

    def warmed(self, messages: Messages) -> LocalPolytope:
        warm = copy.copy(self)
        warm._messages = messages
        return warm

    def _pass(
        self, cells: Tensor, entries: Tensor, max_sweeps: int, tolerance: float, start: Tensor | None = None
    ) -> Beliefs:
        sweeps = Sweeps(self.graph.index.colours, max_sweeps, tolerance)
        return pass_messages(self.graph, self.counting_numbers, cells, entries, sweeps, start)


def _spread(rows: Tensor) -> Tensor:
    """The largest difference between finite entries of each row."""
    if not rows.shape[1]:
        return rows.new_zeros(len(rows))
    low = torch.where(torch.isneginf(rows), torch.inf, rows).amin(1)
    return rows.amax(1) - low
