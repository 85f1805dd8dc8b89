"""The graph that all examples of a task share, and what systems over it are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gspen_ner.graphs import FactorGraph
from gspen_ner.head import GSPENHead, make_head
from gspen_ner.polytopes import Simplex
from gspen_ner.recipe import Inference


@dataclass(frozen=True)
class TaskGraph:
    """Variables of equally many labels, and the pairs that are scored together.

    Args:
        nodes: how many variables.
        labels: of each.
        edges: the pairs.
    """

    nodes: int
    labels: int
    edges: Sequence[tuple[int, int]]

    def factor_graph(self) -> FactorGraph:
        """For the polytopes over it."""
        return FactorGraph.of_edges([self.labels] * self.nodes, self.edges)

    def over_nodes(self, batch: int) -> Simplex:
        """Variables by themselves."""
        return Simplex(torch.ones(batch, self.nodes, dtype=torch.bool))

    def head(
        self, term: str, inference: Inference, hidden: int | None, with_edges: bool, **options: Any
    ) -> GSPENHead:
        """A global term, over pairs too or over single variables only, and its inference."""
        entry = {"name": term, "hidden": hidden, **options}
        sizes = self.nodes, len(self.edges) * with_edges
        return make_head(self.labels, [entry], inference.model_dump(), *sizes)


def frozen(part: nn.Module | None) -> nn.Module:
    """A part that another system stands on."""
    assert part is not None
    return part.requires_grad_(False)
