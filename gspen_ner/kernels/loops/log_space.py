"""Loops in log space, slow but safe for any scores; also k-best, sampling and scores of given tags."""

from __future__ import annotations

import math

import numpy as np

from gspen_ner.kernels.loops import EDGES, LOG_PARTITION
from gspen_ner.kernels.loops.compiled import compiled


@compiled
def _log_sum(values):
    top = -np.inf
    for value in values:
        if math.isnan(value):
            return np.nan
        top = max(top, value)
    if math.isinf(top):
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@compiled
def log_forward(nodes, edges, length, b, alpha):
    """Fill alpha[t, j] = log of the total weight of all paths that end in j at t; return log Z."""
    labels = nodes.shape[2]
    own = edges[b if len(edges) > 1 else 0]
    into = np.empty(labels)
    for j in range(labels):
        alpha[0, j] = nodes[b, 0, j]
    for t in range(1, length):
        table = own[min(t, len(own)) - 1]
        for j in range(labels):
            for i in range(labels):
                into[i] = alpha[t - 1, i] + table[i, j]
            alpha[t, j] = _log_sum(into) + nodes[b, t, j]
    return _log_sum(alpha[length - 1])


@compiled
def log_forward_backward(nodes, edges, lengths, want, log_z, node_out, edge_out):
    """Run forward-backward of all rows in log space; outputs must be initialised with zeros."""
    _, length, labels = nodes.shape
    alpha = np.empty((length, labels))
    beta = np.empty(labels)
    ahead = np.empty(labels)
    out_of = np.empty(labels)
    for b in range(len(nodes)):
        own = edges[b if len(edges) > 1 else 0]
        last = lengths[b] - 1
        log_z[b] = log_forward(nodes, edges, lengths[b], b, alpha)
        if want == LOG_PARTITION or not math.isfinite(log_z[b]):
            continue
        for j in range(labels):
            beta[j] = 0.0
            node_out[b, last, j] = math.exp(alpha[last, j] - log_z[b])
        for t in range(last, 0, -1):
            table = own[min(t, len(own)) - 1]
            for j in range(labels):
                ahead[j] = nodes[b, t, j] + beta[j]
            if want == EDGES:
                for i in range(labels):
                    for j in range(labels):
                        joint = math.exp(alpha[t - 1, i] + table[i, j] + ahead[j] - log_z[b])
                        edge_out[b, min(t, len(own)) - 1, i, j] += joint
            for i in range(labels):
                for j in range(labels):
                    out_of[j] = table[i, j] + ahead[j]
                beta[i] = _log_sum(out_of)
                node_out[b, t - 1, i] = math.exp(alpha[t - 1, i] + beta[i] - log_z[b])


@compiled
def k_best(nodes, edges, lengths, start, stop, k, scores, tags):
    """Fill the k best paths: each (position, label) keeps its k best incoming paths in descending order."""
    _, length, labels = nodes.shape
    best = np.empty((length, labels, k))
    origin = np.empty((length, labels, k), np.int64)  # (label before) * k + (its rank)
    end_score = np.empty(k)
    end_origin = np.empty(k, np.int64)
    for b in range(start, stop):
        own = edges[b if len(edges) > 1 else 0]
        last = lengths[b] - 1
        best[0] = -np.inf
        for j in range(labels):
            best[0, j, 0] = nodes[b, 0, j]
        for t in range(1, last + 1):
            table = own[min(t, len(own)) - 1]
            for j in range(labels):
                best[t, j] = -np.inf
                for i in range(labels):
                    step = table[i, j] + nodes[b, t, j]
                    for r in range(k):
                        if not _insert(best[t, j], origin[t, j], best[t - 1, i, r] + step, i * k + r):
                            break
        end_score[:] = -np.inf
        for j in range(labels):
            for r in range(k):
                if not _insert(end_score, end_origin, best[last, j, r], j * k + r):
                    break
        for rank in range(k):
            scores[b, rank] = end_score[rank]
            if end_score[rank] == -np.inf:
                continue
            state = end_origin[rank]
            for t in range(last, -1, -1):
                tags[b, rank, t] = state // k
                state = origin[t, state // k, state % k]


@compiled
def _insert(scores, origins, score, origin):
    """Insert a score into a descending list; return False if it is too low for the list."""
    position = len(scores) - 1
    if not score > scores[position]:
        return False
    while position > 0 and score > scores[position - 1]:
        scores[position] = scores[position - 1]
        origins[position] = origins[position - 1]
        position -= 1
    scores[position] = score
    origins[position] = origin
    return True


@compiled
def sample(nodes, edges, lengths, start, stop, uniforms, tags):
    """Draw paths from the last position to the first, by inverting each conditional distribution."""
    count, _, length = uniforms.shape
    labels = nodes.shape[2]
    alpha = np.empty((length, labels))
    logits = np.empty(labels)
    cumulative = np.empty(labels)
    for b in range(start, stop):
        own = edges[b if len(edges) > 1 else 0]
        last = lengths[b] - 1
        log_forward(nodes, edges, lengths[b], b, alpha)
        for s in range(count):
            tag = 0
            for t in range(last, -1, -1):
                for i in range(labels):
                    logits[i] = alpha[t, i]
                    if t < last:
                        logits[i] += own[min(t + 1, len(own)) - 1, i, tag]
                top = np.max(logits)
                total = 0.0
                for i in range(labels):
                    total += math.exp(logits[i] - top)
                    cumulative[i] = total
                level = uniforms[s, b, t] * total
                tag = 0
                while tag < labels - 1 and level >= cumulative[tag]:
                    tag += 1
                tags[s, b, t] = tag


@compiled
def subtract_gold(nodes, edges, lengths, tags, scores, node_rest, edge_rest):
    """Fill the scores of given tags and subtract the tags from the marginals; edge_rest may be empty."""
    for b in range(len(nodes)):
        own = edges[b if len(edges) > 1 else 0]
        total = 0.0
        for t in range(lengths[b]):
            tag = tags[b, t]
            total += nodes[b, t, tag]
            node_rest[b, t, tag] -= 1.0
            if t:
                e = min(t, len(own)) - 1
                total += own[e, tags[b, t - 1], tag]
                if len(edge_rest):
                    edge_rest[b, e, tags[b, t - 1], tag] -= 1.0
        scores[b] = total


@compiled
def weigh_rows(weights, lengths, node_rest, edge_rest, node_grad, edge_grad, boundaries):
    """Multiply each row by its weight; sum over rows for shared tables, start scores and end scores."""
    labels = node_rest.shape[2]
    for b in range(len(node_rest)):
        weight = weights[b]
        for t in range(node_rest.shape[1]):
            for j in range(labels):
                node_grad[b, t, j] = weight * node_rest[b, t, j]
        for j in range(labels):
            boundaries[0, j] += node_grad[b, 0, j]
            boundaries[1, j] += node_grad[b, lengths[b] - 1, j]
        if len(edge_rest):
            own = edge_grad[b if len(edge_grad) > 1 else 0]
            for e in range(edge_rest.shape[1]):
                for i in range(labels):
                    for j in range(labels):
                        own[e, i, j] += weight * edge_rest[b, e, i, j]
