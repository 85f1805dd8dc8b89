"""Message passing over a factor graph.

argmax_b <theta, b> + sum_r c_r H(b_r) + sum_p c_p H(b_p),   b locally consistent

Block coordinate ascent on the dual: each visit to a node makes the messages between it and all its
factors optimal, so with positive counting numbers every sweep improves the dual, and the beliefs converge
to the maximiser. With Bethe numbers it *is* sum-product: from the leaves to the roots and back it is exact on
a forest.

Examples run in blocks with vector instructions (`loops.messages`); those whose scores spread too far for
the probability domain, and tensors that are not on the CPU, run in log space (`messages_log_space`).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers
from gspen_ner.kernels.beliefs import Beliefs, Sweeps
from gspen_ner.kernels.loops.graph import Graph
from gspen_ner.kernels.messages_log_space import pass_messages_in_log_space
from gspen_ner.kernels.thread_pool import over_rows

# Nats beyond which sums of exponentials may lose entries that matter: of a table's entries (with forbidden
# ones, of all scores together), and of a product of messages.
_MAX_SPREAD = 250.0
_MAX_PRODUCT = 600.0


def pass_messages(
    graph: CompiledGraph,
    numbers: CountingNumbers,
    cells: Float[Tensor, "B cells"],
    entries: Float[Tensor, "B entries"],
    sweeps: Sweeps,
    start: Float[Tensor, "B messages"] | None = None,
) -> Beliefs:
    """Beliefs of a batch.

    Args:
        graph: its structure.
        numbers: counting numbers.
        cells: scores of nodes, in double precision where the device has it.
        entries: scores of factors, likewise.
        sweeps: how nodes are visited.
        start: messages of an earlier call; None starts with constant ones.
    """
    if start is None:
        start = cells.new_ones(len(cells), graph.index.num_messages)
    if cells.device.type != "cpu":
        return pass_messages_in_log_space(graph, numbers, cells, entries, sweeps, start)
    found = _in_blocks(graph, numbers, cells, entries, sweeps, start)
    lost = ~torch.isfinite(found.cells.sum(1) + found.entries.sum(1))
    if lost.any():
        rows = lost.nonzero().flatten()
        again = pass_messages_in_log_space(graph, numbers, cells[rows], entries[rows], sweeps, start[rows])
        found = Beliefs(*(old.index_copy(0, rows, new) for old, new in zip(found, again, strict=True)))
    return found


def _in_blocks(
    graph: CompiledGraph,
    numbers: CountingNumbers,
    cells: Tensor,
    entries: Tensor,
    sweeps: Sweeps,
    start: Tensor,
) -> Beliefs:
    """In the probability domain; rows that it cannot do come back as NaN."""
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
                factor_numbers, node_totals, order, sweeps.most, sweeps.tolerance, sweeps.exact, chunk,
            )  # fmt: skip
            rounding.believe_factors(tables[block], sent[block], beliefs[block], arrays, sweeps.exact)

    over_rows(work, len(tables), tables.size * (40 + 4 * sweeps.most))  # exp and rounding come to 40
    found = Beliefs(*(_rows(part, batch) for part in (beliefs, tables, sent)))
    bound = torch.from_numpy(spread.reshape(-1)[:batch])
    forbidden = torch.isneginf(entries).any(1)
    if forbidden.any():  # what they leave may be as unlikely as all scores together make it
        nodes = torch.where(torch.isneginf(cells), 0.0, cells).abs().sum(1)
        bound = torch.where(forbidden, bound * len(graph.scopes) + 2 * nodes, bound)
    found.cells[bound > _MAX_SPREAD] = torch.nan
    return found


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
