"""Message passing on factor graphs, a block of examples at a time, in the probability domain.

    m_{p->r}(y) = sum over entries of p with label y at r of table * product of the other slots' messages
    b_r(y)      ~ exp[(score_r(y) + sum_p c_p log m_{p->r}(y)) / (c_r + sum_p c_p)]
    l_{r->p}(y) = b_r(y) / m_{p->r}(y)

Every array ends in an axis of at most WIDTH examples, over which all inner loops run: long enough for
vector instructions (a short constant one would be unrolled into scalar ones), short enough for the cache.
Messages are scaled to a largest value of one; a row that underflows all the same ends as NaN, for the caller
to do again in log space. See `gspen_ner.graphs.index` for cells, entries, slots and messages;
`factor_numbers` are c_p, `node_totals` c_r + sum_p c_p.
"""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled

WIDTH = 64


@compiled
def shift_tables(tables, graph, factor_numbers, spread):
    """Divide by the counting numbers, subtract each table's maximum; the largest spread of finite entries."""
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

    `messages` and `beliefs` are filled, the beliefs from the last messages unless the sweeps are known to be
    exact. Gives back the number of sweeps.
    """
    width = tables.shape[1]
    largest, widest = 1, 1
    for node in range(len(node_totals)):
        labels = graph.cell_starts[node + 1] - graph.cell_starts[node]
        slots = graph.node_slot_starts[node + 1] - graph.node_slot_starts[node]
        largest, widest = max(largest, labels * slots), max(widest, labels)
    inbox, mine, work = np.empty((largest, width)), np.empty((2 * widest, width)), np.empty(width)
    sums = np.empty((len(messages), width))
    sweeps, change = 0, np.inf
    beliefs[:] = 0.0
    while sweeps < max_sweeps and change >= tolerance:
        change = 0.0
        for node in order:
            _collect(node, tables, messages, inbox, work, graph)
            _believe(node, cells, inbox, mine, work, graph, factor_numbers, node_totals[node], chunk)
            _send(node, messages, inbox, mine, work, graph)
            change = max(change, _note(node, beliefs, mine, work, graph))
        sweeps += 1
        if change < tolerance:  # nodes that are sure may stand still while their factors disagree
            change = _disagreement(tables, messages, beliefs, sums, work, graph)
    if not exact:
        for node in range(len(node_totals)):
            _collect(node, tables, messages, inbox, work, graph)
            _believe(node, cells, inbox, mine, work, graph, factor_numbers, node_totals[node], chunk)
            _note(node, beliefs, mine, work, graph)
    return sweeps


@compiled
def _collect(node, tables, messages, inbox, work, graph):
    """The messages from all factors of a node, one after the other in the inbox."""
    width = tables.shape[1]
    place = 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        slot = graph.node_slots[position]
        factor = graph.slot_factors[slot]
        first, last = graph.slot_starts[factor], graph.slot_starts[factor + 1]
        start = graph.entry_starts[factor]
        size = graph.entry_starts[factor + 1] - start
        labels = graph.message_starts[slot + 1] - graph.message_starts[slot]
        own, moved = graph.visit_starts[slot], place - graph.message_starts[slot]
        inbox[place : place + labels] = 0.0
        if last - first == 2:
            other = graph.visit_starts[first + last - 1 - slot]
            for entry in range(size):
                to, origin = graph.entry_messages[own + entry] + moved, graph.entry_messages[other + entry]
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
                to = graph.entry_messages[own + entry] + moved
                for b in range(width):
                    inbox[to, b] += work[b]
        _scale(inbox, place, place + labels, work)
        place += labels


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
def _believe(node, cells, inbox, mine, work, graph, factor_numbers, total, chunk):
    """The node's belief, its largest entry one, into the first rows of `mine`.

    The logarithm is taken of a product of at most `chunk` messages at a time (the rows behind), which
    cannot underflow.
    """
    width = cells.shape[1]
    first = graph.cell_starts[node]
    labels = graph.cell_starts[node + 1] - first
    for y in range(labels):
        for b in range(width):
            mine[y, b] = cells[first + y, b]
            mine[labels + y, b] = 1.0
    held, number, place = 0, 1.0, 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        own = factor_numbers[graph.slot_factors[graph.node_slots[position]]]
        if held == chunk or (held > 0 and own != number):
            _add_logarithms(mine, labels, number)
            held = 0
        number = own
        for y in range(labels):
            for b in range(width):
                mine[labels + y, b] *= inbox[place + y, b]
        held += 1
        place += labels
    if held > 0:
        _add_logarithms(mine, labels, number)
    work[:] = -np.inf
    for y in range(labels):
        for b in range(width):
            work[b] = max(work[b], mine[y, b])
    for y in range(labels):
        for b in range(width):
            mine[y, b] = np.exp((mine[y, b] - work[b]) / total)


@compiled
def _add_logarithms(mine, labels, number):
    width = mine.shape[1]
    for y in range(labels):
        for b in range(width):
            mine[y, b] += number * np.log(mine[labels + y, b])
            mine[labels + y, b] = 1.0


@compiled
def _send(node, messages, inbox, mine, work, graph):
    """The node's messages to its factors."""
    width = messages.shape[1]
    place = 0
    for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
        slot = graph.node_slots[position]
        start, stop = graph.message_starts[slot], graph.message_starts[slot + 1]
        for y in range(stop - start):
            for b in range(width):
                received = inbox[place + y, b]
                messages[start + y, b] = mine[y, b] / received if received > 0.0 else 0.0
        _scale(messages, start, stop, work)
        place += stop - start


@compiled
def _note(node, beliefs, mine, work, graph):
    """Write the normalised belief down; the largest change of any entry in any example."""
    width = beliefs.shape[1]
    first = graph.cell_starts[node]
    labels = graph.cell_starts[node + 1] - first
    work[:] = 0.0
    for y in range(labels):
        for b in range(width):
            work[b] += mine[y, b]
    change = 0.0
    for y in range(labels):
        for b in range(width):
            value = mine[y, b] / work[b]
            change = max(change, abs(value - beliefs[first + y, b]))
            beliefs[first + y, b] = value
    return change


@compiled
def _disagreement(tables, messages, beliefs, sums, work, graph):
    """The largest difference between a factor's marginal and its node's belief."""
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
