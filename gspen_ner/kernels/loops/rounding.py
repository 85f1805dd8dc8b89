"""Beliefs of factors from their tables and messages, rounded so that their marginals are the nodes' beliefs.

    b_p ~ table * product of its messages

Entries are scaled down where a marginal exceeds the belief of its node; then, the product of the missing
masses is added. The result is in the local polytope, also if message passing has not converged. The arrays
are those of `messages`.
"""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled


@compiled
def believe_factors(tables, messages, beliefs, graph, exact):
    """Replace tables by the beliefs of their factors; exact ones agree with the nodes without rounding."""
    width = tables.shape[1]
    sums, work = np.empty((len(messages), width)), np.empty(width)
    for factor in range(len(graph.entry_starts) - 1):
        _normalise_table(factor, tables, messages, work, graph)
        if not exact:
            _scale_down(factor, tables, beliefs, sums, graph)
            _fill_up(factor, tables, beliefs, sums, work, graph)


@compiled
def _normalise_table(factor, tables, messages, work, graph):
    """Replace a factor's table by its belief before rounding."""
    width = tables.shape[1]
    start, stop = graph.entry_starts[factor], graph.entry_starts[factor + 1]
    for slot in range(graph.slot_starts[factor], graph.slot_starts[factor + 1]):
        own = graph.visit_starts[slot]
        for entry in range(stop - start):
            origin = graph.entry_messages[own + entry]
            for b in range(width):
                tables[start + entry, b] *= messages[origin, b]
    work[:] = 0.0
    for entry in range(start, stop):
        for b in range(width):
            work[b] += tables[entry, b]
    for b in range(width):
        work[b] = 1.0 / work[b]
    for entry in range(start, stop):
        for b in range(width):
            tables[entry, b] *= work[b]


@compiled
def _marginal(slot, factor, tables, sums, graph):
    """Fill the slot's rows of `sums` with the marginal of the factor's belief."""
    width = tables.shape[1]
    sums[graph.message_starts[slot] : graph.message_starts[slot + 1]] = 0.0
    own, start = graph.visit_starts[slot], graph.entry_starts[factor]
    for entry in range(graph.entry_starts[factor + 1] - start):
        row = graph.entry_messages[own + entry]
        for b in range(width):
            sums[row, b] += tables[start + entry, b]


@compiled
def _scale_down(factor, tables, beliefs, sums, graph):
    """Scale entries so that no marginal of the factor exceeds the belief of its node."""
    width = tables.shape[1]
    start = graph.entry_starts[factor]
    for slot in range(graph.slot_starts[factor], graph.slot_starts[factor + 1]):
        _marginal(slot, factor, tables, sums, graph)
        cell = graph.cell_starts[graph.slot_nodes[slot]] - graph.message_starts[slot]
        for row in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
            for b in range(width):
                target, marginal = beliefs[cell + row, b], sums[row, b]
                sums[row, b] = target / marginal if marginal > target else 1.0
        own = graph.visit_starts[slot]
        for entry in range(graph.entry_starts[factor + 1] - start):
            row = graph.entry_messages[own + entry]
            for b in range(width):
                tables[start + entry, b] *= sums[row, b]


@compiled
def _fill_up(factor, tables, beliefs, missing, work, graph):
    """Add the product of the missing masses of the slots; entries that are zero stay zero."""
    width = tables.shape[1]
    first, last = graph.slot_starts[factor], graph.slot_starts[factor + 1]
    start, total = graph.entry_starts[factor], np.zeros(width)
    for slot in range(first, last):
        _marginal(slot, factor, tables, missing, graph)
        cell = graph.cell_starts[graph.slot_nodes[slot]] - graph.message_starts[slot]
        total[:] = 0.0
        for row in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
            for b in range(width):
                missing[row, b] = max(beliefs[cell + row, b] - missing[row, b], 0.0)
                total[b] += missing[row, b]
        if slot < last - 1:  # the missing mass is the same at all slots: the last one keeps it, others divide
            for row in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
                for b in range(width):
                    missing[row, b] /= total[b] if total[b] > 0.0 else 1.0
    if np.max(total) <= 1e-15:
        return
    for entry in range(graph.entry_starts[factor + 1] - start):
        for b in range(width):
            work[b] = 1.0 if tables[start + entry, b] > 0.0 else 0.0
        for slot in range(first, last):
            row = graph.entry_messages[graph.visit_starts[slot] + entry]
            for b in range(width):
                work[b] *= missing[row, b]
        for b in range(width):
            tables[start + entry, b] += work[b]
