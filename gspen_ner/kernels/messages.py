"""Message passing over a factor graph.

argmax_b <theta, b> + sum_r c_r H(b_r) + sum_p c_p H(b_p),   b locally consistent

This is block coordinate ascent on the dual: each visit to a node makes the messages between it and all its
factors optimal. With positive counting numbers, every sweep improves the dual, and the beliefs converge to
the maximiser. With Bethe numbers, it is sum-product, which is exact on a forest after one pass from the
leaves to the roots and back.

Examples are computed in blocks with vector instructions (`loops.messages`). Examples with a spread of scores
that is too large for the probability domain, and tensors on other devices than the CPU, are computed in log
space (`messages_log_space`).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers
from gspen_ner.graphs.compiled import Cells, Entries
from gspen_ner.kernels.loops.graph import Graph
from gspen_ner.kernels.messages_log_space import Beliefs, Sweeps, pass_messages_in_log_space
from gspen_ner.kernels.thread_pool import over_rows

# Largest spreads, in nats, for which sums of exponentials lose no relevant entries: of the entries of a table
# (with forbidden entries, of all scores together), and of a product of messages.
_MAX_SPREAD = 250.0
_MAX_PRODUCT = 600.0


def pass_messages(
    graph: CompiledGraph,
    numbers: CountingNumbers,
    cells: Cells,
    entries: Entries,
    sweeps: Sweeps,
    start: Float[Tensor, "B messages"] | None = None,
) -> Beliefs:
    """Return the beliefs of a batch.

    Args:
        graph: the graph.
        numbers: counting numbers.
        cells: scores of nodes, in float64 (float32 on devices without it).
        entries: scores of factors, in the same dtype.
        sweeps: order and number of the visits to nodes.
        start: messages of an earlier call; None starts from constant messages.
    """
    if start is None:
        start = cells.new_ones(len(cells), graph.index.num_messages)
    if cells.device.type != "cpu":
        return pass_messages_in_log_space(graph, numbers, cells, entries, sweeps, start)
    beliefs = _in_blocks(graph, numbers, cells, entries, sweeps, start)
    failed = ~torch.isfinite(beliefs.cells.sum(1) + beliefs.entries.sum(1))
    if failed.any():
        rows = failed.nonzero().flatten()
        safe = pass_messages_in_log_space(graph, numbers, cells[rows], entries[rows], sweeps, start[rows])
        beliefs = Beliefs(*(old.index_copy(0, rows, new) for old, new in zip(beliefs, safe, strict=True)))
    return beliefs


def _in_blocks(
    graph: CompiledGraph,
    numbers: CountingNumbers,
    cells: Tensor,
    entries: Tensor,
    sweeps: Sweeps,
    start: Tensor,
) -> Beliefs:
    """Return beliefs computed in the probability domain; NaN for rows that need log space."""
    from gspen_ner.kernels.loops import messages as loops  # compiled on first use
    from gspen_ner.kernels.loops import rounding

    batch, arrays = len(cells), Graph.of(graph.index)
    factor_numbers, node_totals = numbers.factors.numpy(), numbers.totals(graph).numpy()
    width = min(loops.WIDTH, batch)
    tables, scores, sent = (_blocks(rows, width) for rows in (entries, cells, start))
    beliefs, spread = np.empty_like(scores), np.zeros((len(tables), width))
    order = np.concatenate(sweeps.groups)

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            loops.shift_tables(tables[block], arrays, factor_numbers, spread[block])
            np.exp(tables[block], out=tables[block])
            chunk = max(int(_MAX_PRODUCT / max(float(spread[block].max()), 1.0)), 1)
            loops.pass_messages(
                tables[block], scores[block], sent[block], beliefs[block], arrays,
                factor_numbers, node_totals, order, sweeps.max_sweeps, sweeps.tolerance, sweeps.exact, chunk,
            )  # fmt: skip
            rounding.believe_factors(tables[block], sent[block], beliefs[block], arrays, sweeps.exact)

    # exp and rounding cost about 40 multiply-adds per entry
    over_rows(work, len(tables), tables.size * (40 + 4 * sweeps.max_sweeps))
    result = Beliefs(*(_rows(part, batch) for part in (beliefs, tables, sent)))
    bound = torch.from_numpy(spread.reshape(-1)[:batch])
    forbidden = torch.isneginf(entries).any(1)
    if forbidden.any():  # the remaining labellings may be as unlikely as all scores together can make them
        nodes = torch.where(torch.isneginf(cells), 0.0, cells).abs().sum(1)
        bound = torch.where(forbidden, bound * len(graph.scopes) + 2 * nodes, bound)
    result.cells[bound > _MAX_SPREAD] = torch.nan
    return result


def _blocks(rows: Tensor, width: int) -> np.ndarray:
    """Return rows [B, K] as blocks [blocks, K, width]; repeats of the last example fill the last block."""
    wide = rows.detach().double()
    missing = -len(wide) % width
    if missing:
        wide = torch.cat([wide, wide[-1:].expand(missing, -1)])
    blocks = wide.view(len(wide) // width, width, wide.shape[1])
    return blocks.transpose(1, 2).clone(memory_format=torch.contiguous_format).numpy()


def _rows(blocks: np.ndarray, batch: int) -> Tensor:
    """Return blocks as rows; the inverse of `_blocks`."""
    return torch.from_numpy(blocks).transpose(1, 2).reshape(len(blocks) * blocks.shape[2], -1)[:batch]
