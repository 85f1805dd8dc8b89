"""Message passing on factor graphs, WIDTH examples at a time, in the probability domain.

    m_{p->r}(y) = sum over entries of p with label y at r of table * product of the other slots' messages
    b_r(y)      ~ exp[(score_r(y) + sum_p c_p log m_{p->r}(y)) / (c_r + sum_p c_p)]
    l_{r->p}(y) = b_r(y) / m_{p->r}(y)

Every array ends in an axis of WIDTH examples, a constant, so that all inner loops become vector
instructions. Messages are scaled to a largest value of one; a row that underflows all the same ends as NaN, for
the caller to do again in log space. See `gspen_ner.graphs.index` for cells, entries, slots and messages.
"""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled

WIDTH = 16


@compiled
def shift_tables(tables, entry_starts, factor_numbers, spread):
    """Divide by the counting numbers, subtract each table's maximum; the largest spread of finite entries."""
    top, low = np.empty(WIDTH), np.empty(WIDTH)
    for factor in range(len(factor_numbers)):
        top[:] = -np.inf
        low[:] = np.inf
        inverse = 1.0 / factor_numbers[factor]
        for entry in range(entry_starts[factor], entry_starts[factor + 1]):
            for b in range(WIDTH):
                value = tables[entry, b] * inverse
                tables[entry, b] = value
                top[b] = max(top[b], value)
                low[b] = min(low[b], value if value > -np.inf else np.inf)
        for entry in range(entry_starts[factor], entry_starts[factor + 1]):
            for b in range(WIDTH):
                tables[entry, b] -= top[b]
        for b in range(WIDTH):
            spread[b] = max(spread[b], top[b] - low[b])


@compiled
def _collect(node, tables, messages, inbox, work, graph):
    """The messages from all factors of a node, one after the other in the inbox."""
    node_starts, node_slots, slot_factors, slot_starts, message_starts, entry_starts, visits, visited = graph[:8]
    place = 0
    for position in range(node_starts[node], node_starts[node + 1]):
        slot = node_slots[position]
        factor = slot_factors[slot]
        first, last = slot_starts[factor], slot_starts[factor + 1]
        labels = message_starts[slot + 1] - message_starts[slot]
        start, size = entry_starts[factor], entry_starts[factor + 1] - entry_starts[factor]
        inbox[place : place + labels] = 0.0
        own, moved = visits[slot], place - message_starts[slot]
        if last - first == 2:
            other = visits[first + last - 1 - slot]
            for entry in range(size):
                to, origin = visited[own + entry] + moved, visited[other + entry]
                for b in range(WIDTH):
                    inbox[to, b] += tables[start + entry, b] * messages[origin, b]
        else:
            for entry in range(size):
                for b in range(WIDTH):
                    work[b] = tables[start + entry, b]
                for other in range(first, last):
                    if other != slot:
                        origin = visited[visits[other] + entry]
                        for b in range(WIDTH):
                            work[b] *= messages[origin, b]
                to = visited[own + entry] + moved
                for b in range(WIDTH):
                    inbox[to, b] += work[b]
        _scale(inbox, place, place + labels, work)
        place += labels


@compiled
def _scale(rows, start, stop, work):
    """Divide rows by their largest entry."""
    work[:] = 0.0
    for row in range(start, stop):
        for b in range(WIDTH):
            work[b] = max(work[b], rows[row, b])
    for b in range(WIDTH):
        work[b] = 1.0 / work[b] if work[b] > 0.0 else 1.0
    for row in range(start, stop):
        for b in range(WIDTH):
            rows[row, b] *= work[b]


@compiled
def _believe(node, cells, inbox, mine, product, work, graph, cell_starts, factor_numbers, node_total, chunk):
    """The node's belief, its largest entry one, into the first rows of `mine`.

    The logarithm is taken of a product of at most `chunk` messages at a time, which cannot underflow.
    """
    node_starts, node_slots, slot_factors = graph[0], graph[1], graph[2]
    first = cell_starts[node]
    labels = cell_starts[node + 1] - first
    for y in range(labels):
        for b in range(WIDTH):
            mine[y, b] = cells[first + y, b]
            product[y, b] = 1.0
    held, number, place = 0, 1.0, 0
    for position in range(node_starts[node], node_starts[node + 1]):
        own = factor_numbers[slot_factors[node_slots[position]]]
        if held == chunk or (held > 0 and own != number):
            _add_logarithm(mine, product, labels, number)
            held = 0
        number = own
        for y in range(labels):
            for b in range(WIDTH):
                product[y, b] *= inbox[place + y, b]
        held += 1
        place += labels
    if held > 0:
        _add_logarithm(mine, product, labels, number)
    work[:] = -np.inf
    for y in range(labels):
        for b in range(WIDTH):
            work[b] = max(work[b], mine[y, b])
    for y in range(labels):
        for b in range(WIDTH):
            mine[y, b] = np.exp((mine[y, b] - work[b]) / node_total)


@compiled
def _add_logarithm(mine, product, labels, number):
    for y in range(labels):
        for b in range(WIDTH):
            mine[y, b] += number * np.log(product[y, b])
            product[y, b] = 1.0


@compiled
def _send(node, messages, inbox, mine, work, graph):
    """The node's messages to its factors."""
    node_starts, node_slots, message_starts = graph[0], graph[1], graph[4]
    place = 0
    for position in range(node_starts[node], node_starts[node + 1]):
        slot = node_slots[position]
        start, stop = message_starts[slot], message_starts[slot + 1]
        for y in range(stop - start):
            for b in range(WIDTH):
                received = inbox[place + y, b]
                messages[start + y, b] = mine[y, b] / received if received > 0.0 else 0.0
        _scale(messages, start, stop, work)
        place += stop - start


@compiled
def _note(node, beliefs, mine, cell_starts, work):
    """Write the normalised belief down; the largest change of any entry in any example."""
    first = cell_starts[node]
    labels = cell_starts[node + 1] - first
    work[:] = 0.0
    for y in range(labels):
        for b in range(WIDTH):
            work[b] += mine[y, b]
    change = 0.0
    for y in range(labels):
        for b in range(WIDTH):
            value = mine[y, b] / work[b]
            change = max(change, abs(value - beliefs[first + y, b]))
            beliefs[first + y, b] = value
    return change


@compiled
def pass_messages(
    tables, cells, messages, beliefs, graph, cell_starts, factor_numbers, node_totals, order, largest_inbox,
    most_labels, max_sweeps, tolerance, chunk,
):  # fmt: skip
    """Sweep over the nodes in the given order until beliefs change by less than the tolerance.

    `tables` and `beliefs` end as the beliefs of factors and nodes; the factors' are rounded so that they
    have exactly the nodes' as their marginals. Gives back the number of sweeps.
    """
    inbox = np.empty((largest_inbox, WIDTH))
    mine, product, work = np.empty((most_labels, WIDTH)), np.empty((most_labels, WIDTH)), np.empty(WIDTH)
    sweeps, change = 0, np.inf
    beliefs[:] = 0.0
    while sweeps < max_sweeps and change >= tolerance:
        change = 0.0
        for node in order:
            _collect(node, tables, messages, inbox, work, graph)
            _believe(
                node, cells, inbox, mine, product, work, graph, cell_starts, factor_numbers, node_totals[node],
                chunk,
            )  # fmt: skip
            _send(node, messages, inbox, mine, work, graph)
            change = max(change, _note(node, beliefs, mine, cell_starts, work))
        sweeps += 1
    for node in range(len(node_totals)):
        _collect(node, tables, messages, inbox, work, graph)
        _believe(
            node, cells, inbox, mine, product, work, graph, cell_starts, factor_numbers, node_totals[node], chunk
        )
        _note(node, beliefs, mine, cell_starts, work)
    _round_tables(tables, messages, beliefs, graph, cell_starts)
    return sweeps


@compiled
def _round_tables(tables, messages, beliefs, graph, cell_starts):
    """Factor beliefs, moved as little as needed to agree with the nodes': scale down, then fill up."""
    _, _, slot_factors, slot_starts, message_starts, entry_starts, visits, visited, slot_nodes = graph[:9]
    sums = np.empty((len(messages), WIDTH))
    work = np.empty(WIDTH)
    for factor in range(len(entry_starts) - 1):
        start, stop = entry_starts[factor], entry_starts[factor + 1]
        first, last = slot_starts[factor], slot_starts[factor + 1]
        for slot in range(first, last):
            own = visits[slot]
            for entry in range(stop - start):
                origin = visited[own + entry]
                for b in range(WIDTH):
                    tables[start + entry, b] *= messages[origin, b]
        work[:] = 0.0
        for entry in range(start, stop):
            for b in range(WIDTH):
                work[b] += tables[entry, b]
        for entry in range(start, stop):
            for b in range(WIDTH):
                tables[entry, b] /= work[b]
        for slot in range(first, last):
            _marginal(slot, tables, sums, start, stop, message_starts, visits, visited)
            cell = cell_starts[slot_nodes[slot]] - message_starts[slot]
            for row in range(message_starts[slot], message_starts[slot + 1]):
                for b in range(WIDTH):
                    wanted, found = beliefs[cell + row, b], sums[row, b]
                    sums[row, b] = wanted / found if found > wanted else 1.0
            own = visits[slot]
            for entry in range(stop - start):
                row = visited[own + entry]
                for b in range(WIDTH):
                    tables[start + entry, b] *= sums[row, b]
        for slot in range(first, last):
            _marginal(slot, tables, sums, start, stop, message_starts, visits, visited)
            cell = cell_starts[slot_nodes[slot]] - message_starts[slot]
            for row in range(message_starts[slot], message_starts[slot + 1]):
                for b in range(WIDTH):
                    sums[row, b] = max(beliefs[cell + row, b] - sums[row, b], 0.0)
        _fill_up(tables, sums, start, stop, first, last, message_starts, visits, visited)


@compiled
def _marginal(slot, tables, sums, start, stop, message_starts, visits, visited):
    sums[message_starts[slot] : message_starts[slot + 1]] = 0.0
    own = visits[slot]
    for entry in range(stop - start):
        row = visited[own + entry]
        for b in range(WIDTH):
            sums[row, b] += tables[start + entry, b]


@compiled
def _fill_up(tables, missing, start, stop, first, last, message_starts, visits, visited):
    """Add the product of what the slots miss, so that each gets it."""
    total, work = np.zeros(WIDTH), np.empty(WIDTH)
    for row in range(message_starts[first], message_starts[first + 1]):
        for b in range(WIDTH):
            total[b] += missing[row, b]
    needed = False
    for b in range(WIDTH):
        needed = needed or total[b] > 1e-15
    if not needed:
        return
    for b in range(WIDTH):
        total[b] = total[b] ** (1 - (last - first)) if total[b] > 1e-100 else 0.0
    for entry in range(stop - start):
        for b in range(WIDTH):
            work[b] = total[b]
        for slot in range(first, last):
            row = visited[visits[slot] + entry]
            for b in range(WIDTH):
                work[b] *= missing[row, b]
        for b in range(WIDTH):
            tables[start + entry, b] += work[b]


@compiled
def best_labellings(
    tables, cells, graph, cell_starts, slot_strides, slot_labels, factor_parents, order, labels, scores
):
    """Max-product up a forest and back down, one example after the other, in log space."""
    node_starts, node_slots, slot_factors, slot_starts, message_starts, entry_starts, visits, visited = graph[:8]
    slot_nodes = graph[8]
    up, best = np.empty(cells.shape[1]), np.empty(message_starts[-1], dtype=np.int64)
    value = np.empty(message_starts[-1])
    for row in range(len(cells)):
        up[:] = cells[row]
        scores[row] = 0.0
        for node in order:
            for position in range(node_starts[node], node_starts[node + 1]):
                slot = node_slots[position]
                factor = slot_factors[slot]
                if factor_parents[factor] != node:
                    continue
                for message in range(message_starts[slot], message_starts[slot + 1]):
                    value[message], best[message] = -np.inf, entry_starts[factor]
                for entry in range(entry_starts[factor], entry_starts[factor + 1]):
                    total, local = tables[row, entry], entry - entry_starts[factor]
                    for other in range(slot_starts[factor], slot_starts[factor + 1]):
                        if other != slot:
                            message = visited[visits[other] + local]
                            total += up[cell_starts[slot_nodes[other]] + message - message_starts[other]]
                    message = visited[visits[slot] + local]
                    if total > value[message]:
                        value[message], best[message] = total, entry
                for y in range(slot_labels[slot]):
                    up[cell_starts[node] + y] += value[message_starts[slot] + y]
            labels[row, node] = -1
        for node in order[::-1]:
            if labels[row, node] < 0:  # a root
                first = cell_starts[node]
                labels[row, node] = np.argmax(up[first : cell_starts[node + 1]])
                scores[row] += up[first + labels[row, node]]
            for position in range(node_starts[node], node_starts[node + 1]):
                slot = node_slots[position]
                factor = slot_factors[slot]
                if factor_parents[factor] != node:
                    continue
                entry = best[message_starts[slot] + labels[row, node]] - entry_starts[factor]
                for other in range(slot_starts[factor], slot_starts[factor + 1]):
                    if other != slot:
                        label = entry // slot_strides[other] % slot_labels[other]
                        labels[row, slot_nodes[other]] = label
