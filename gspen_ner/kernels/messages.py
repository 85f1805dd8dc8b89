"""Message passing over a factor graph: beliefs that maximise <theta, b> + sum_r c_r H(b_r), and best labellings.

Block coordinate ascent on the dual: each visit to a node makes the messages between it and all its
factors optimal, so with positive counting numbers every sweep improves the dual and the beliefs converge to the
maximiser over the local polytope. With Bethe numbers it *is* sum-product: from the leaves to the roots and back it
is exact on a forest.

Examples run in blocks with vector instructions (`loops.messages`); those whose scores spread too far for the
probability domain, and tensors that are not on the CPU, run in log space (`messages_log_space`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers
from gspen_ner.kernels.messages_log_space import pass_messages_in_log_space
from gspen_ner.kernels.thread_pool import over_rows

# Beyond these (nats), sums of exponentials may lose entries that matter: with forbidden entries, which
# leave the rest to decide, any; else two tables' worth.
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
    start: Float[Tensor, "B messages"] | None = None,
) -> Beliefs:
    """Beliefs of a batch.

    Args:
        graph: its structure.
        cells, entries: scores, in double precision where the device has it.
        numbers: counting numbers.
        groups: the order in which nodes are visited; those of a group must not share a factor (or be
            siblings in a forest).
        max_sweeps: how often all groups are visited at most.
        tolerance: an example is done when no belief of a node changes by more than this in a sweep.
        start: messages of an earlier call; None starts with constant ones.
    """
    if start is None:
        start = cells.new_ones(len(cells), graph.index.num_messages)
    arguments = (numbers, groups, max_sweeps, tolerance)
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
) -> Beliefs:
    """In the probability domain; rows that it cannot do come back as NaN."""
    from gspen_ner.kernels.loops import messages as loops  # compiled on first use

    index, batch = graph.index, len(cells)
    tables, scores, sent = (_blocks(rows, loops.WIDTH) for rows in (entries, cells, start))
    beliefs = np.empty_like(scores)
    spread = np.zeros((len(tables), loops.WIDTH))
    factor_numbers, totals = numbers.factors.numpy(), numbers.totals(graph).numpy()
    order = np.concatenate(groups)
    inbox = int(np.max(np.diff(index.node_slot_starts) * np.diff(index.cell_starts)))
    labels = int(np.diff(index.cell_starts).max())

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            loops.shift_tables(tables[block], index.entry_starts, factor_numbers, spread[block])
            np.exp(tables[block], out=tables[block])
            furthest = max(float(spread[block].max()), 1e-3)
            chunk = max(int(_MAX_PRODUCT / furthest), 1) if furthest < _MAX_PRODUCT else 1
            loops.pass_messages(
                tables[block], scores[block], sent[block], beliefs[block], _arrays(graph), index.cell_starts,
                factor_numbers, totals, order, inbox, labels, max_sweeps, tolerance, chunk,
            )  # fmt: skip

    over_rows(work, len(tables), 4 * tables.size * max_sweeps)
    found = Beliefs(*(_rows(part, batch) for part in (beliefs, tables, sent)))
    bound = torch.from_numpy(spread.reshape(-1)[:batch])
    forbidden = torch.isneginf(entries).any(1)
    bound = torch.where(forbidden, bound * index.num_messages, bound)
    found.cells[bound > _MAX_SPREAD] = torch.nan
    return found


def best_labellings(
    graph: CompiledGraph, cells: Float[Tensor, "B cells"], entries: Float[Tensor, "B entries"]
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B N"]]:
    """The best labelling of each example of a forest, and its score. Runs on the CPU."""
    from gspen_ner.kernels.loops import messages as loops

    index = graph.index
    assert index.depths is not None
    labels = np.empty((len(cells), graph.num_nodes), dtype=np.int64)
    scores = np.empty(len(cells))
    loops.best_labellings(
        np.ascontiguousarray(entries.detach().double().cpu().numpy()),
        np.ascontiguousarray(cells.detach().double().cpu().numpy()),
        _arrays(graph), index.cell_starts, index.slot_strides, np.diff(index.message_starts),
        index.factor_parents, np.argsort(-index.depths, kind="stable"), labels, scores,
    )  # fmt: skip
    return torch.from_numpy(scores).to(cells.device), torch.from_numpy(labels).to(cells.device)


def _arrays(graph: CompiledGraph) -> tuple[np.ndarray, ...]:
    """The arrays that all loops know as `graph`."""
    index = graph.index
    return (
        index.node_slot_starts, index.node_slots, index.slot_factors, index.slot_starts, index.message_starts,
        index.entry_starts, index.visit_starts, index.entry_messages, index.slot_nodes,
    )  # fmt: skip


def _blocks(rows: Tensor, width: int) -> np.ndarray:
    """[B, K] as [blocks, K, width]; the last example is repeated to fill the last block."""
    wide = rows.detach().double()
    missing = -len(wide) % width
    if missing:
        wide = torch.cat([wide, wide[-1:].expand(missing, -1)])
    return wide.view(-1, width, wide.shape[1]).transpose(1, 2).contiguous().clone().numpy()


def _rows(blocks: np.ndarray, batch: int) -> Tensor:
    """The way back."""
    return torch.from_numpy(blocks).transpose(1, 2).reshape(-1, blocks.shape[1])[:batch]
