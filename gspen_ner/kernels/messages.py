"""Message passing over a factor graph, and best labellings of a forest.

argmax_b <theta, b> + sum_r c_r H(b_r) + sum_p c_p H(b_p),   b locally consistent

Block coordinate ascent on the dual: each visit to a node makes the messages between it and all its
factors optimal, so with positive counting numbers every sweep improves the dual, and the beliefs converge
to the maximiser. With Bethe numbers it *is* sum-product: from the leaves to the roots and back it is exact on
a forest.

Examples run in blocks with vector instructions (`loops.messages`); those whose scores spread too far for
the probability domain, and tensors that are not on the CPU, run in log space (`messages_log_space`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers
from gspen_ner.kernels.messages_log_space import pass_messages_in_log_space
from gspen_ner.kernels.thread_pool import over_rows

if TYPE_CHECKING:
    from gspen_ner.kernels.loops.messages import Graph

# Nats beyond which sums of exponentials may lose entries that matter: of a table's entries (with forbidden
# ones, of all scores together), and of a product of messages.
_MAX_SPREAD = 250.0
_MAX_PRODUCT = 600.0


class Beliefs(NamedTuple):
    """What message passing found, in flat rows; factors' marginals are exactly the nodes'."""

    cells: Float[Tensor, "B cells"]
    entries: Float[Tensor, "B entries"]
    messages: Float[Tensor, "B messages"]
    """From nodes to factors, each with a largest entry of one: where a later call may go on from."""


def pass_messages(
    graph: CompiledGraph,
    cells: Float[Tensor, "B cells"],
    entries: Float[Tensor, "B entries"],
    numbers: CountingNumbers,
    groups: list[np.ndarray],
    max_sweeps: int,
    tolerance: float,
    exact: bool = False,
    start: Float[Tensor, "B messages"] | None = None,
) -> Beliefs:
    """Beliefs of a batch.

    Args:
        graph: its structure.
        cells: scores of nodes, in double precision where the device has it.
        entries: scores of factors, likewise.
        numbers: counting numbers.
        groups: the order in which nodes are visited; those of a group must not share a factor (or be
            siblings in a forest).
        max_sweeps: how often all groups are visited at most.
        tolerance: an example is done when no belief of a node changes by more than this in a sweep.
        exact: whether one sweep over these groups is all that it takes, as on a forest from leaves to roots
            and back; else factors' beliefs are rounded to agree with the nodes'.
        start: messages of an earlier call; None starts with constant ones.
    """
    if start is None:
        start = cells.new_ones(len(cells), graph.index.num_messages)
    arguments = (numbers, groups, max_sweeps, tolerance, exact)
    if cells.device.type != "cpu":
        return Beliefs(*pass_messages_in_log_space(graph, cells, entries, start, *arguments))
    found = _in_blocks(graph, cells, entries, start, *arguments)
    lost = ~torch.isfinite(found.cells.sum(1) + found.entries.sum(1))
    if lost.any():
        rows = lost.nonzero().flatten()
        again = pass_messages_in_log_space(graph, cells[rows], entries[rows], start[rows], *arguments)
        found = Beliefs(*(old.index_copy(0, rows, new) for old, new in zip(found, again, strict=True)))
    return found


def _in_blocks(
    graph: CompiledGraph,
    cells: Tensor,
    entries: Tensor,
    start: Tensor,
    numbers: CountingNumbers,
    groups: list[np.ndarray],
    max_sweeps: int,
    tolerance: float,
    exact: bool,
) -> Beliefs:
    """In the probability domain; rows that it cannot do come back as NaN."""
    from gspen_ner.kernels.loops import messages as loops  # compiled on first use

    batch, arrays = len(cells), _arrays(graph, numbers)
    width = min(loops.WIDTH, batch)
    tables, scores, sent = (_blocks(rows, width) for rows in (entries, cells, start))
    beliefs, spread = np.empty_like(scores), np.zeros((len(tables), width))
    order = np.concatenate(groups)

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            loops.shift_tables(tables[block], arrays, spread[block])
            np.exp(tables[block], out=tables[block])
            chunk = max(int(_MAX_PRODUCT / max(float(spread[block].max()), 1.0)), 1)
            loops.pass_messages(
                tables[block], scores[block], sent[block], beliefs[block], arrays, order, max_sweeps,
                tolerance, exact, chunk,
            )  # fmt: skip

    over_rows(work, len(tables), tables.size * (40 + 4 * max_sweeps))  # exp and rounding come to 40
    found = Beliefs(*(_rows(part, batch) for part in (beliefs, tables, sent)))
    bound = torch.from_numpy(spread.reshape(-1)[:batch])
    forbidden = torch.isneginf(entries).any(1)
    if forbidden.any():  # what they leave may be as unlikely as all scores together make it
        nodes = torch.where(torch.isneginf(cells), 0.0, cells).abs().sum(1)
        bound = torch.where(forbidden, bound * len(graph.scopes) + 2 * nodes, bound)
    found.cells[bound > _MAX_SPREAD] = torch.nan
    return found


def best_labellings(
    graph: CompiledGraph, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
    """The best labelling of each example of a forest, and its score. Runs on the CPU."""
    from gspen_ner.kernels.loops import max_product

    index = graph.index
    assert index.depths is not None
    labels = np.empty((len(cells), graph.num_nodes), dtype=np.int64)
    scores = np.empty(len(cells))
    tables, nodes = (rows.detach().double().cpu().contiguous().numpy() for rows in (entries, cells))
    leaves_first = np.argsort(-index.depths, kind="stable")
    arrays = _arrays(graph, CountingNumbers.of(graph, "bethe"))
    max_product.best_labellings(
        tables, nodes, arrays, index.slot_strides, index.factor_parents, leaves_first, labels, scores
    )
    return torch.from_numpy(scores).to(cells.device), torch.from_numpy(labels).to(cells.device)


def _arrays(graph: CompiledGraph, numbers: CountingNumbers) -> Graph:
    """What all loops know as `graph`."""
    from gspen_ner.kernels.loops.messages import Graph

    index = graph.index
    return Graph(
        index.cell_starts, index.entry_starts, index.slot_starts, index.message_starts,
        index.node_slot_starts, index.node_slots, index.slot_nodes, index.slot_factors,
        index.visit_starts, index.entry_messages,
        numbers.factors.numpy(), numbers.totals(graph).numpy(),
    )  # fmt: skip


def _blocks(rows: Tensor, width: int) -> np.ndarray:
    """[B, K] as [blocks, K, width]; the last example is repeated to fill the last block."""
    wide = rows.detach().double()
    missing = -len(wide) % width
    if missing:
        wide = torch.cat([wide, wide[-1:].expand(missing, -1)])
    blocks = wide.view(len(wide) // width, width, wide.shape[1])
    return blocks.transpose(1, 2).clone(memory_format=torch.contiguous_format).numpy()


def _rows(blocks: np.ndarray, batch: int) -> Tensor:
    """The way back."""
    return torch.from_numpy(blocks).transpose(1, 2).reshape(len(blocks) * blocks.shape[2], -1)[:batch]
