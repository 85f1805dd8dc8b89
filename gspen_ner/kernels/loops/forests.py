"""Best labellings of forests: max-product from the leaves to the roots and back, in log space."""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled


@compiled
def best_labellings(tables, cells, graph, factor_parents, order, labels, scores):
    """Fill `labels` and `scores` with the best labelling of each example and its score.

    `tables` and `cells` are scores `[examples, ...]`; `order` lists the nodes from the leaves to the roots.
    """
    up = np.empty(cells.shape[1])  # the best score of the subtree of a node, for each label of the node
    value, best = np.empty(graph.message_starts[-1]), np.empty(graph.message_starts[-1], dtype=np.int64)
    for row in range(len(cells)):
        up[:] = cells[row]
        labels[row] = -1
        scores[row] = 0.0
        for node in order:
            for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
                slot = graph.node_slots[position]
                if factor_parents[graph.slot_factors[slot]] == node:
                    _climb(slot, tables[row], up, value, best, graph)
        for node in order[::-1]:
            if labels[row, node] < 0:
                first = graph.cell_starts[node]
                labels[row, node] = np.argmax(up[first : graph.cell_starts[node + 1]])
                scores[row] += up[first + labels[row, node]]
            for position in range(graph.node_slot_starts[node], graph.node_slot_starts[node + 1]):
                slot = graph.node_slots[position]
                if factor_parents[graph.slot_factors[slot]] == node:
                    entry = best[graph.message_starts[slot] + labels[row, node]]
                    _descend(slot, entry, labels[row], graph)


@compiled
def _climb(slot, table, up, value, best, graph):
    """Add the best score of a factor and its children to each label of its parent (the slot's node)."""
    factor = graph.slot_factors[slot]
    for message in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
        value[message], best[message] = -np.inf, 0
    start = graph.entry_starts[factor]
    for entry in range(graph.entry_starts[factor + 1] - start):
        total = table[start + entry]
        for other in range(graph.slot_starts[factor], graph.slot_starts[factor + 1]):
            if other != slot:
                label = graph.entry_messages[graph.visit_starts[other] + entry] - graph.message_starts[other]
                total += up[graph.cell_starts[graph.slot_nodes[other]] + label]
        message = graph.entry_messages[graph.visit_starts[slot] + entry]
        if total > value[message]:
            value[message], best[message] = total, entry
    first = graph.cell_starts[graph.slot_nodes[slot]] - graph.message_starts[slot]
    for message in range(graph.message_starts[slot], graph.message_starts[slot + 1]):
        up[first + message] += value[message]


@compiled
def _descend(slot, entry, labels, graph):
    """Set the labels of the children from the best entry."""
    factor = graph.slot_factors[slot]
    for other in range(graph.slot_starts[factor], graph.slot_starts[factor + 1]):
        if other != slot:
            count = graph.message_starts[other + 1] - graph.message_starts[other]
            labels[graph.slot_nodes[other]] = entry // graph.slot_strides[other] % count
