"""Message passing on factor graphs, a block of examples at a time, in the probability domain.

    m_{p->r}(y) = sum over entries of p with label y at r of table * product of the other slots' messages
    b_r(y)      ~ exp[(score_r(y) + sum_p c_p log m_{p->r}(y)) / (c_r + sum_p c_p)]
    l_{r->p}(y) = b_r(y) / m_{p->r}(y)

The last axis of every array holds at most WIDTH examples, and all inner loops run over it: it is long enough
for vector instructions (a short constant axis would be unrolled into scalar ones) and short enough for the
cache. Messages are scaled to a largest value of one; an example that still underflows has NaN as result, and
the caller recomputes it in log space. See `gspen_ner.graphs.index` for cells, entries, slots and messages;
`factor_numbers` are c_p, `node_totals` are c_r + sum_p c_p.
"""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled

WIDTH = 64


@compiled
def shift_tables(tables, graph, factor_numbers, spread):
    """Divide tables by counting numbers, subtract their maxima, and fill the largest spread of a table."""
    width = tables.shape[1]
    top, low = np.empty(width), np.empty(width)
    for factor in range(len(factor_numbers)):
        top[:] = -np.inf
        low[:] = np.inf
        inverse = 1.0 / factor_numbers[factor]
        for entry in range(graph.entry_starts[factor], graph.entry_starts[factor + 1]):
            for b in range(width):
                value = tables[entry, b] * inverse
                tables[entry, b] = value
                top[b] = max(top[b], value)
                low[b] = min(low[b], value if value > -np.inf else np.inf)
        for entry in range(graph.entry_starts[factor], graph.entry_starts[factor + 1]):
            for b in range(width):
                tables[entry, b] -= top[b]
        for b in range(width):
            spread[b] = max(spread[b], top[b] - low[b])


@compiled
def pass_messages(
    tables,
    cells,
    messages,
    beliefs,
    graph,
    factor_numbers,
    node_totals,
    order,
    max_sweeps,
    tolerance,
    exact,
    chunk,
):
    """Sweep over the nodes in the given order until beliefs change by less than the tolerance.

    Fills `messages` and `beliefs`; unless the sweeps are exact, beliefs are recomputed from the last
    messages. Returns the number of sweeps.
    """
    width = tables.shape[1]
    largest, widest = 1, 1
    for node in range(len(node_totals)):
        labels = graph.cell_starts[node + 1] - graph.cell_starts[node]
        slots = graph.node_slot_starts[node + 1] - graph.node_slot_starts[node]
        largest, widest = max(largest, labels * slots), max(widest, labels)
    inbox, belief, work = np.empty((largest, width)), np.empty((2 * widest, width)), np.empty(width)
    sums = np.empty((len(messages), width))
    sweeps, change = 0, np.inf
    beliefs[:] = 0.0
    while sweeps < max_sweeps and change >= tolerance:
        change = 0.0
        for node in order:
            _collect(node, tables, messages, inbox, work, graph)
            _believe(node, cells, inbox, belief, work, graph, factor_numbers, node_totals[node], chunk)
            _send(node, messages, inbox, belief, work, graph)
            change = max(change, _store(node, beliefs, belief, work, graph))
        sweeps += 1
        if change < tolerance:  # nodes with certain beliefs may not change while their factors disagree
            change = _disagreement(tables, messages, beliefs, sums, work, graph)
    if not exact:
        for node in range(len(node_totals)):
            _collect(node, tables, messages, inbox, work, graph)
            _believe(node, cells, inbox, belief, work, graph, factor_numbers, node_totals[node], chunk)
            _store(node, beliefs, belief, work, graph)
    return sweeps


@compiled
def _collect(node, tables, messages, inbox, work, graph):
    """Fill the inbox with the messages from all factors of a node, one after another."""
    width = tables.shape[1]
    offset = 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        slot = graph.node_slots[position]
        factor = graph.slot_factors[slot]
        first, last = graph.slot_starts[factor], graph.slot_starts[factor + 1]
        start = graph.entry_starts[factor]
        size = graph.entry_starts[factor + 1] - start
        labels = graph.message_starts[slot + 1] - graph.message_starts[slot]
        own, shift = graph.visit_starts[slot], offset - graph.message_starts[slot]
        inbox[offset : offset + labels] = 0.0
        if last - first == 2:
            other = graph.visit_starts[first + last - 1 - slot]
            for entry in range(size):
                to, origin = graph.entry_messages[own + entry] + shift, graph.entry_messages[other + entry]
                for b in range(width):
                    inbox[to, b] += tables[start + entry, b] * messages[origin, b]
        else:
            for entry in range(size):
                for b in range(width):
                    work[b] = tables[start + entry, b]
                for other in range(first, last):
                    if other != slot:
                        origin = graph.entry_messages[graph.visit_starts[other] + entry]
                        for b in range(width):
                            work[b] *= messages[origin, b]
                to = graph.entry_messages[own + entry] + shift
                for b in range(width):
                    inbox[to, b] += work[b]
        _scale(inbox, offset, offset + labels, work)
        offset += labels


@compiled
def _scale(rows, start, stop, work):
    """Divide rows by their largest entry."""
    width = rows.shape[1]
    work[:] = 0.0
    for row in range(start, stop):
        for b in range(width):
            work[b] = max(work[b], rows[row, b])
    for b in range(width):
        work[b] = 1.0 / work[b] if work[b] > 0.0 else 1.0
    for row in range(start, stop):
        for b in range(width):
            rows[row, b] *= work[b]


@compiled
def _believe(node, cells, inbox, belief, work, graph, factor_numbers, total, chunk):
    """Fill the first rows of `belief` with the node's belief, scaled to a largest entry of one.

    Logarithms are taken of products of at most `chunk` messages, which cannot underflow. The products are
    kept in the other rows of `belief`.
    """
    width = cells.shape[1]
    first = graph.cell_starts[node]
    labels = graph.cell_starts[node + 1] - first
    for y in range(labels):
        for b in range(width):
            belief[y, b] = cells[first + y, b]
            belief[labels + y, b] = 1.0
    count, number, offset = 0, 1.0, 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        own = factor_numbers[graph.slot_factors[graph.node_slots[position]]]
        if count == chunk or (count > 0 and own != number):
            _add_logarithms(belief, labels, number)
            count = 0
        number = own
        for y in range(labels):
            for b in range(width):
                belief[labels + y, b] *= inbox[offset + y, b]
        count += 1
        offset += labels
    if count > 0:
        _add_logarithms(belief, labels, number)
    work[:] = -np.inf
    for y in range(labels):
        for b in range(width):
            work[b] = max(work[b], belief[y, b])
    for y in range(labels):
        for b in range(width):
            belief[y, b] = np.exp((belief[y, b] - work[b]) / total)


@compiled
def _add_logarithms(belief, labels, number):
    width = belief.shape[1]
    for y in range(labels):
        for b in range(width):
            belief[y, b] += number * np.log(belief[labels + y, b])
            belief[labels + y, b] = 1.0


@compiled
def _send(node, messages, inbox, belief, work, graph):
    """Fill the node's messages to its factors."""
    width = messages.shape[1]
    offset = 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        slot = graph.node_slots[position]
        start, stop = graph.message_starts[slot], graph.message_starts[slot + 1]
        for y in range(stop - start):
            for b in range(width):
                received = inbox[offset + y, b]
                messages[start + y, b] = belief[y, b] / received if received > 0.0 else 0.0
        _scale(messages, start, stop, work)
        offset += stop - start


@compiled
def _store(node, beliefs, belief, work, graph):
    """Store the normalised belief; return the largest change of an entry in any example."""
    width = beliefs.shape[1]
    first = graph.cell_starts[node]
    labels = graph.cell_starts[node + 1] - first
    work[:] = 0.0
    for y in range(labels):
        for b in range(width):
            work[b] += belief[y, b]
    change = 0.0
    for y in range(labels):
        for b in range(width):
            value = belief[y, b] / work[b]
            change = max(change, abs(value - beliefs[first + y, b]))
            beliefs[first + y, b] = value
    return change


@compiled
def _disagreement(tables, messages, beliefs, sums, work, graph):
    """Return the largest difference between a factor's marginal and its node's belief."""
    width = tables.shape[1]
    largest = 0.0
    for factor in range(len(graph.entry_starts) - 1):
        first, last = graph.slot_starts[factor], graph.slot_starts[factor + 1]
        start = graph.entry_starts[factor]
        total = np.zeros(width)
        sums[graph.message_starts[first] : graph.message_starts[last]] = 0.0
        for entry in range(graph.entry_starts[factor + 1] - start):
            for b in range(width):
                work[b] = tables[start + entry, b]
            for slot in range(first, last):
                row = graph.entry_messages[graph.visit_starts[slot] + entry]
                for b in range(width):
                    work[b] *= messages[row, b]
            for b in range(width):
                total[b] += work[b]
            for slot in range(first, last):
                row = graph.entry_messages[graph.visit_starts[slot] + entry]
                for b in range(width):
                    sums[row, b] += work[b]
        for slot in range(first, last):
            cell = graph.cell_starts[graph.slot_nodes[slot]] - graph.message_starts[slot]
            for row in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
                for b in range(width):
                    largest = max(largest, abs(sums[row, b] / total[b] - beliefs[cell + row, b]))
    return largest
