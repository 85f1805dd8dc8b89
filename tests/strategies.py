"""Random batches of small chains for hypothesis: every layout, ragged lengths, garbage in the padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from gspen_ner import Chain, Parts


@dataclass(frozen=True)
class ChainBatch:
    theta: Parts
    lengths: torch.Tensor

    @property
    def chain(self) -> Chain:
        return Chain(self.lengths)

    def __repr__(self) -> str:
        edges = None if self.theta.edges is None else list(self.theta.edges.shape)
        return f"ChainBatch(nodes={list(self.theta.nodes.shape)}, {edges=}, lengths={self.lengths.tolist()})"


@st.composite
def chain_batches(draw, max_batch=10, max_length=5, masks=True, dtype=torch.float64, scale=3.0):
    """Batches of chains with at most 1,024 labellings each.

    Forbidden labels and transitions (-inf) always leave at least one legal labelling. Nodes and tables
    behind a row's end are NaN: reading them would show.
    """
    labels = draw(st.integers(1, 4), label="labels")
    length = draw(st.integers(1, max_length), label="length")
    batch = draw(st.integers(1, max_batch), label="batch")
    layout = draw(st.sampled_from(["shared", "per row", "per position", "per row and position"]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**16), label="seed"))
    lengths = torch.randint(1, length + 1, (batch,), generator=random)
    rows = batch if "row" in layout else 1
    positions = length - 1 if "position" in layout else 1
    nodes = scale * torch.randn(batch, length, labels, generator=random, dtype=torch.float64)
    edges = scale * torch.randn(rows, positions, labels, labels, generator=random, dtype=torch.float64)
    if masks and draw(st.booleans(), label="masks"):
        keep = torch.randint(0, labels, (length,), generator=random)  # this labelling stays legal
        nodes[torch.rand(nodes.shape, generator=random) < 0.3] = -torch.inf
        edges[torch.rand(edges.shape, generator=random) < 0.3] = -torch.inf
        for t in range(length):
            nodes[:, t, keep[t]] = torch.randn(batch, generator=random, dtype=torch.float64)
        for t in range(length - 1):
            edges[:, t if positions > 1 else 0, keep[t], keep[t + 1]] = 0.5
    if draw(st.booleans(), label="garbage in the padding"):
        padding = torch.arange(length) >= lengths[:, None]
        nodes[padding] = torch.nan
        if positions > 1 and rows == batch:
            edges[padding[:, 1:]] = torch.nan
    return ChainBatch(Parts(nodes.to(dtype), edges.to(dtype)), lengths)
