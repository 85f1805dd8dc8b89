"""Message passing in log space: the same algorithm as `messages`, in torch, for any device and any scores.

All nodes of a group are visited at once: the entries of their factors are gathered, summed into messages by
segments, and scattered back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.graphs import CompiledGraph, CountingNumbers
from gspen_ner.graphs.compiled import Cells, Entries


class Sweeps(NamedTuple):
    """The order in which nodes are visited, and when to stop.

    Args:
        groups: groups of nodes in the order of their visits; nodes of a group must not share a factor (or
            must be siblings in a forest).
        max_sweeps: maximum number of sweeps; a sweep visits all groups once.
        tolerance: a block of examples stops when no belief of a node changes by more than this in a sweep,
            nor differs by more from the marginals of its factors.
        exact: whether one sweep gives the exact result, as on a forest from leaves to roots and back;
            otherwise, beliefs of factors are rounded to be consistent with those of nodes.
    """

    groups: list[np.ndarray]
    max_sweeps: int
    tolerance: float
    exact: bool = False


class Beliefs(NamedTuple):
    """Beliefs of nodes and factors in flat rows; the marginals of factors equal the beliefs of nodes."""

    cells: Cells
    entries: Entries
    messages: Float[Tensor, "B messages"]
    """Messages from nodes to factors, each with a largest entry of one; a later call can start from them."""


class _Group(NamedTuple):
    """Index tensors for a visit to a group of nodes."""

    entries: Tensor
    """Entries of the nodes' factors, once for each slot of the nodes."""
    others: Tensor
    """`[entries, arity - 1]`: messages of the factor's other slots, padded with a constant message."""
    own: Tensor
    """The message to which each entry is added."""
    messages: Tensor
    """All messages between these nodes and their factors."""
    cells: Tensor
    """The cell of each of these messages."""


@lru_cache(maxsize=4096)
def _group(graph: CompiledGraph, nodes: tuple[int, ...], device: torch.device) -> _Group:
    index = graph.index
    slots = np.flatnonzero(np.isin(index.slot_nodes, nodes))
    visits = np.flatnonzero(np.isin(index.visit_slots, slots))
    slot = index.visit_slots[visits]
    factor = index.slot_factors[slot]
    offset = visits - index.visit_starts[slot]  # of the entry in its table
    widest = int(np.diff(index.slot_starts).max(initial=1))
    others = index.slot_starts[factor][:, None] + np.arange(widest - 1)
    others += others >= slot[:, None]
    present = others < index.slot_starts[factor + 1][:, None]
    sources = np.where(present, index.visit_starts[np.where(present, others, 0)] + offset[:, None], 0)
    messages = np.flatnonzero(np.isin(index.message_slots, slots))
    arrays = (
        index.visit_entries[visits],
        np.where(present, index.entry_messages[sources], index.num_messages),
        index.entry_messages[visits],
        messages,
        index.message_cells[messages],
    )
    return _Group(*(torch.tensor(array, device=device) for array in arrays))


def pass_messages_in_log_space(
    graph: CompiledGraph,
    numbers: CountingNumbers,
    cells: Cells,
    entries: Entries,
    sweeps: Sweeps,
    start: Tensor,
) -> Beliefs:
    """Return the beliefs of a batch; see `pass_messages`."""
    sweeper = _Sweeper(graph, numbers, cells, entries)
    sent = torch.cat([start.log(), start.new_zeros(len(start), 1)], 1)
    plans = [_group(graph, tuple(group.tolist()), cells.device) for group in sweeps.groups]
    all_nodes = _group(graph, tuple(range(graph.num_nodes)), cells.device)
    before = torch.zeros_like(cells)
    for _ in range(sweeps.max_sweeps):
        for plan in plans:
            received = sweeper.collect(plan, sent)
            sent[:, plan.messages] = sweeper.answer(plan, received, sweeper.believe(plan, received))
        beliefs = sweeper.all_beliefs(all_nodes, sent)
        change = (beliefs - before).abs().max()
        before = beliefs
        if change < sweeps.tolerance and sweeper.disagreement(sent, beliefs) < sweeps.tolerance:
            break
    beliefs = sweeper.all_beliefs(all_nodes, sent)
    tables = sweeper.tables_of(sent) if sweeps.exact else sweeper.rounded_tables(sent, beliefs)
    return Beliefs(beliefs, tables, sent[:, :-1].exp())


class _Sweeper:
    """The steps of message passing for one batch of scores."""

    def __init__(
        self, graph: CompiledGraph, numbers: CountingNumbers, cells: Tensor, entries: Tensor
    ) -> None:
        index, device = graph.index, cells.device
        self.graph, self.cells = graph, cells
        self.entry_factors = torch.tensor(index.entry_factors, device=device)
        self.message_slots = torch.tensor(index.message_slots, device=device)
        self.cell_nodes = torch.tensor(index.cell_nodes, device=device)
        factors = numbers.factors.to(cells)
        self.tables = entries / factors[self.entry_factors] if len(factors) else entries
        slot_factors = torch.tensor(index.slot_factors, device=device)
        self.message_numbers = factors[slot_factors[self.message_slots]]
        self.cell_totals = numbers.totals(graph).to(cells)[self.cell_nodes]
        self.message_cells = torch.tensor(index.message_cells, device=device)
        arity = int(np.diff(index.slot_starts).max(initial=0))
        self.visits = [_visits(graph, position, device) for position in range(arity)]

    def collect(self, plan: _Group, sent: Tensor) -> Tensor:
        """Return the messages from factors to the group's nodes, as columns of all messages."""
        values = self.tables[:, plan.entries] + sent[:, plan.others].sum(-1)
        return _segment_logsumexp(values, plan.own, sent.shape[1] - 1)

    def believe(self, plan: _Group, received: Tensor) -> Tensor:
        """Return log beliefs of all cells, which are valid for the group's nodes."""
        own = received[:, plan.messages] * self.message_numbers[plan.messages]
        total = self.cells.index_add(1, plan.cells, own) / self.cell_totals
        norm = _segment_logsumexp(total, self.cell_nodes, self.graph.num_nodes)
        return total - norm[:, self.cell_nodes]

    def answer(self, plan: _Group, received: Tensor, beliefs: Tensor) -> Tensor:
        """Return the messages from the group's nodes to their factors, with a largest entry of zero."""
        own = received[:, plan.messages]
        value = torch.where(torch.isneginf(own), own, beliefs[:, plan.cells] - own)
        slots = self.message_slots[plan.messages]
        top = _segment_max(value, slots, len(self.graph.index.slot_nodes))
        return value - top[:, slots].nan_to_num(neginf=0.0)

    def all_beliefs(self, all_nodes: _Group, sent: Tensor) -> Tensor:
        """Return the beliefs of all nodes."""
        return self.believe(all_nodes, self.collect(all_nodes, sent)).exp()

    def rounded_tables(self, sent: Tensor, beliefs: Tensor) -> Tensor:
        """Return beliefs of factors, rounded so that their marginals are the beliefs of the nodes."""
        tables, wanted = self.tables_of(sent), beliefs[:, self.message_cells]
        for entries, messages in self.visits:
            sums = torch.zeros_like(wanted).index_add(1, messages, tables[:, entries])
            ratio = torch.where(sums > wanted, wanted / sums, 1.0)
            factor = torch.ones_like(tables)
            factor[:, entries] = ratio[:, messages]
            tables = tables * factor
        missing = (wanted - self._marginals(tables)).clamp_min(0.0)
        # The missing mass of a factor is the same at each slot. It is taken from the first slot; the other
        # slots are normalised, to distribute it.
        index, device = self.graph.index, sent.device
        sums = missing.new_zeros(len(missing), len(index.slot_nodes))
        sums = sums.index_add(1, self.message_slots, missing)
        sums[:, torch.tensor(index.slot_starts[:-1], device=device)] = 1.0
        missing = missing / torch.where(sums > 0, sums, 1.0)[:, self.message_slots]
        addition = (~torch.isneginf(self.tables)).to(missing)
        for entries, messages in self.visits:
            addition = addition.index_copy(1, entries, addition[:, entries] * missing[:, messages])
        return tables + addition

    def disagreement(self, sent: Tensor, beliefs: Tensor) -> float:
        """Return the largest difference between a factor's marginal and its node's belief."""
        if not len(self.graph.scopes):
            return 0.0
        return float((self._marginals(self.tables_of(sent)) - beliefs[:, self.message_cells]).abs().max())

    def tables_of(self, sent: Tensor) -> Tensor:
        """Return the beliefs of factors."""
        values = self.tables
        for entries, messages in self.visits:
            values = values.index_add(1, entries, sent[:, messages])
        norm = _segment_logsumexp(values, self.entry_factors, len(self.graph.scopes))
        return (values - norm[:, self.entry_factors]).exp()

    def _marginals(self, tables: Tensor) -> Tensor:
        """Return the marginals of beliefs of factors at each slot."""
        sums = tables.new_zeros(len(tables), self.graph.index.num_messages)
        for entries, messages in self.visits:
            sums = sums.index_add(1, messages, tables[:, entries])
        return sums


@lru_cache(maxsize=64)
def _visits(graph: CompiledGraph, position: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the entries of all factors with a slot at this position, and the message of each entry there."""
    index = graph.index
    positions = np.arange(len(index.slot_nodes)) - index.slot_starts[index.slot_factors]
    visits = np.flatnonzero(positions[index.visit_slots] == position)
    entries, messages = index.visit_entries[visits], index.entry_messages[visits]
    return torch.tensor(entries, device=device), torch.tensor(messages, device=device)


def _segment_max(values: Tensor, segments: Tensor, count: int) -> Tensor:
    top = values.new_full((len(values), count), -torch.inf)
    return top.scatter_reduce(1, segments.expand_as(values), values, "amax")


def _segment_logsumexp(values: Tensor, segments: Tensor, count: int) -> Tensor:
    top = _segment_max(values, segments, count).nan_to_num(neginf=0.0)
    sums = values.new_zeros(len(values), count)
    return sums.index_add(1, segments, (values - top[:, segments]).exp()).log() + top
