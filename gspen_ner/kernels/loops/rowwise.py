"""One row after another: for chains with their own tables, and for small batches."""

from __future__ import annotations

import math

import numpy as np

from gspen_ner.kernels.loops import EDGES, NODES
from gspen_ner.kernels.loops.compiled import compiled


@compiled
def scaled_forward_backward(
    weights, tables, tops, lengths, start, stop, want, risk_limit, log_z, marginals, pairs, trusted
):
    """Run forward-backward as in `interleaved`, for tables [B or 1, T-1 or 1, L, L].

    Pairs may be the tables themselves.
    """
    _, length, labels = weights.shape
    alpha = np.empty((length, labels), weights.dtype)
    scale = np.empty(length, weights.dtype)
    beta = np.empty(labels, weights.dtype)
    onward = np.empty(labels, weights.dtype)
    zero = weights.dtype.type(0)
    for b in range(start, stop):
        own = tables[b if len(tables) > 1 else 0]
        last = lengths[b] - 1
        log_z[b] = 0.0
        for t in range(last + 1):
            if t == 0:
                for j in range(labels):
                    alpha[0, j] = weights[b, 0, j]
            else:
                table = own[min(t, len(own)) - 1]
                for j in range(labels):
                    alpha[t, j] = 0.0
                for i in range(labels):
                    mass = alpha[t - 1, i]
                    for j in range(labels):
                        alpha[t, j] += mass * table[i, j]
                for j in range(labels):
                    alpha[t, j] *= weights[b, t, j]
            norm = zero
            for j in range(labels):
                norm += alpha[t, j]
            log_z[b] += math.log(norm) + tops[b, t]
            scale[t] = 1 / norm
            for j in range(labels):
                alpha[t, j] *= scale[t]
        trust = math.isfinite(log_z[b])
        for j in range(labels):
            beta[j] = 1.0
        if want >= NODES:
            for j in range(labels):
                marginals[b, last, j] = alpha[last, j]
        if want == EDGES and pairs.shape[1] > 1:
            pairs[b, last:] = 0.0
        for t in range(last, 0, -1):
            table = own[min(t, len(own)) - 1]
            risk = zero
            for j in range(labels):
                ratio = beta[j] * scale[t]
                risk += ratio
                onward[j] = weights[b, t, j] * ratio
            trust = trust and risk <= risk_limit
            norm = zero
            for i in range(labels):
                mass = zero
                for j in range(labels):
                    mass += table[i, j] * onward[j]
                beta[i] = mass
                norm += alpha[t - 1, i] * mass
            norm = 1 / norm  # corrects rounding errors: the norm should be one
            for i in range(labels):
                beta[i] *= norm
            if want >= NODES:
                for i in range(labels):
                    marginals[b, t - 1, i] = alpha[t - 1, i] * beta[i]
            if want == EDGES:
                for i in range(labels):
                    mass = alpha[t - 1, i] * norm
                    if pairs.shape[1] == 1:
                        for j in range(labels):
                            pairs[b, 0, i, j] += mass * onward[j]
                    else:
                        for j in range(labels):
                            pairs[b, t - 1, i, j] *= mass * onward[j]
        trusted[b] = trust and beta.sum() * scale[0] <= risk_limit


@compiled
def viterbi(nodes, tables, lengths, start, stop, scores, tags):
    """Fill the best path of each row. The backward pass recomputes each argmax, at L operations per step."""
    _, length, labels = nodes.shape
    best = np.empty((length, labels))
    for b in range(start, stop):
        own = tables[b if len(tables) > 1 else 0]
        last = lengths[b] - 1
        invalid = 0.0
        for t in range(last + 1):
            for j in range(labels):
                best[t, j] = -np.inf if t else 0.0
            if t:
                table = own[min(t, len(own)) - 1]
                for i in range(labels):
                    reached = best[t - 1, i]
                    for j in range(labels):
                        value = reached + table[i, j]
                        best[t, j] = value if value > best[t, j] else best[t, j]
            for j in range(labels):
                best[t, j] += nodes[b, t, j]
                invalid += not nodes[b, t, j] < np.inf
        tag = np.argmax(best[last])
        scores[b] = best[last, tag] if invalid == 0 else np.nan
        tags[b, last] = tag
        for t in range(last, 0, -1):
            table = own[min(t, len(own)) - 1]
            top, origin = -np.inf, 0
            for i in range(labels):
                value = best[t - 1, i] + table[i, tag]
                if value > top:
                    top, origin = value, i
            tag = origin
            tags[b, t - 1] = tag
