"""Pairs of binary variables: the linear program over the local polytope as a minimum cut (Dinic).

    score(x) = constant - sum_i u_i x_i - sum_ij c_ij [x_i != x_j]     where the pair attracts
                                        - sum_ij c_ij [x_i == x_j]     where it repels

Each variable i has two nodes in a network: node i for x_i and node `count` + i for its negation; nodes on the
source's side are true. A repelling pair connects each variable to the negation of the other, so all
connections attract, and the minimum cut is the exact solution of the linear program. A variable has a
definite label if exactly one of its two nodes is true, and belief 1/2 in each label otherwise.
"""

import numpy as np

from gspen_ner.kernels.loops.compiled import compiled

_ROUNDING = 1e-13  # residuals below this share of the total capacity count as zero


@compiled
def halves(cells, tables, first, second, doubled, labels):
    """Solve the linear program of each example, and find a good labelling near its solution.

    `cells` and `tables` are scores `[examples, ...]` of nodes and pairs; `first` and `second` are the nodes
    of each pair. Fills `doubled` with twice the belief in label 1 (0, 1 or 2), and `labels` with a labelling
    that no change of one variable improves.
    """
    count = doubled.shape[1]
    size = 2 * count + 2
    residual, fields = np.empty((size, size)), np.empty(count)
    ties = np.empty((count, count))
    level, arc = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    work = np.empty(size, dtype=np.int64)
    for row in range(len(doubled)):
        total = _network(cells[row], tables[row], first, second, residual, fields, ties)
        while _levels(residual, level, work, total * _ROUNDING):
            arc[:] = 0
            _block(residual, level, arc, work, total * _ROUNDING)
        for node in range(count):
            doubled[row, node] = 1 + (level[node] >= 0) - (level[count + node] >= 0)
        _round(doubled[row], fields, ties, labels[row])


@compiled
def _network(cells, tables, first, second, residual, fields, ties):
    """Fill capacities, and fields and ties with energy(x) = fields x + x' ties x / 2; return their total."""
    count, size = len(fields), len(residual)
    source, sink = size - 2, size - 1
    residual[:] = 0.0
    ties[:] = 0.0
    for node in range(count):
        fields[node] = cells[2 * node] - cells[2 * node + 1]
    total = 0.0
    for pair in range(len(first)):
        i, j, entry = first[pair], second[pair], 4 * pair
        s00, s01, s10, s11 = tables[entry], tables[entry + 1], tables[entry + 2], tables[entry + 3]
        tie = s10 + s01 - s00 - s11
        fields[i] += s00 - s10
        fields[j] += s00 - s01
        ties[i, j] += tie
        ties[j, i] += tie
        shift, capacity = (0, -0.5 * tie) if tie < 0 else (count, 0.5 * tie)
        for a, b in ((i, j + shift), (i + count, j + count - shift)):
            residual[a, b] += capacity
            residual[b, a] += capacity
        total += 4.0 * capacity
    for node in range(count):
        pull = fields[node]
        for other in range(count):
            pull += 0.5 * ties[node, other]
        if pull < 0:
            residual[source, node] = residual[count + node, sink] = -pull
        else:
            residual[source, count + node] = residual[node, sink] = pull
        total += 2.0 * abs(pull)
    return total


@compiled
def _levels(residual, level, queue, least):
    """Fill the distances from the source; return whether the sink can be reached."""
    size = len(residual)
    source, sink = size - 2, size - 1
    level[:] = -1
    level[source], queue[0] = 0, source
    start, stop = 0, 1
    while start < stop:
        node = queue[start]
        start += 1
        for other in range(size):
            if level[other] < 0 and residual[node, other] > least:
                level[other] = level[node] + 1
                queue[stop] = other
                stop += 1
    return level[sink] >= 0


@compiled
def _block(residual, level, arc, path, least):
    """Push flow along shortest paths until each of them has a saturated arc."""
    size = len(residual)
    source, sink = size - 2, size - 1
    path[0] = source
    depth = 0
    while depth >= 0:
        node = path[depth]
        if node == sink:
            depth = _push(residual, path, depth, least)
            continue
        other = arc[node]
        while other < size and not (level[other] == level[node] + 1 and residual[node, other] > least):
            other += 1
        arc[node] = other
        if other < size:
            depth += 1
            path[depth] = other
        else:
            depth -= 1
            if depth >= 0:
                arc[path[depth]] += 1


@compiled
def _push(residual, path, depth, least):
    """Push the largest possible flow along the path; return the depth of its first saturated arc."""
    flow = np.inf
    for step in range(depth):
        flow = min(flow, residual[path[step], path[step + 1]])
    back = depth
    for step in range(depth - 1, -1, -1):
        residual[path[step], path[step + 1]] -= flow
        residual[path[step + 1], path[step]] += flow
        if residual[path[step], path[step + 1]] <= least:
            back = step
    return back


@compiled
def _round(doubled, fields, ties, labels):
    """Fill definite labels, 0 for others, then change single labels while that improves the score."""
    count = len(labels)
    for node in range(count):
        labels[node] = doubled[node] // 2
    changed = True
    while changed:
        changed = False
        for node in range(count):
            pull = fields[node]
            for other in range(count):
                pull += ties[node, other] * labels[other]
            gain = pull if labels[node] == 1 else -pull
            if gain > 1e-9:
                labels[node] = 1 - labels[node]
                changed = True
