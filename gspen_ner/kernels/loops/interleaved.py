"""Chains that share their tables, many rows at once: work arrays are [T, L, rows], with rows innermost.

Rows are processed in `order`, longest first, so the rows that reach position t are the first ones of a block.
The inner loops run over exactly these rows, and padding costs nothing.
"""

from __future__ import annotations

import math

import numpy as np

from gspen_ner.kernels.loops import EDGES, NODES
from gspen_ner.kernels.loops.compiled import compiled

BLOCK = 32  # number of rows processed together, so that their forward sums fit into the cache
RENORMALISE = 16  # number of steps between two corrections of rounding errors


@compiled
def _active(lengths, block, count, t):
    """Return how many of the first `count` rows of a block, longest first, reach position t."""
    while count > 0 and lengths[block[count - 1]] <= t:
        count -= 1
    return count


@compiled
def _times_table(vectors, table, result, rows):
    """Fill result[j, r] = sum_i vectors[i, r] table[i, j], four labels at a time."""
    labels = len(table)
    whole = labels - labels % 4
    for j in range(labels):
        for r in range(rows):
            result[j, r] = 0.0
        for i in range(0, whole, 4):
            a, b, c, d = table[i, j], table[i + 1, j], table[i + 2, j], table[i + 3, j]
            for r in range(rows):
                result[j, r] += (
                    a * vectors[i, r] + b * vectors[i + 1, r] + c * vectors[i + 2, r] + d * vectors[i + 3, r]
                )
        for i in range(whole, labels):
            a = table[i, j]
            for r in range(rows):
                result[j, r] += a * vectors[i, r]


@compiled
def _renormalise(alpha, beta, norm, rows):
    """Scale beta so that sum_i alpha[i, r] beta[i, r] is 1, which corrects rounding errors."""
    labels = len(alpha)
    for r in range(rows):
        norm[r] = 0.0
    for i in range(labels):
        for r in range(rows):
            norm[r] += alpha[i, r] * beta[i, r]
    for r in range(rows):
        norm[r] = 1 / norm[r]
    for i in range(labels):
        for r in range(rows):
            beta[i, r] *= norm[r]


@compiled
def _forward(weights, tables, tops, lengths, block, across, alpha, scale, log_z):
    """Fill normalised forward sums of a block, their scales, log Z, and the weights as across[t, j, r]."""
    labels = weights.shape[2]
    norm = np.empty(BLOCK, weights.dtype)
    product = np.ones(BLOCK)  # of norms; its logarithm, which costs more than a step, is taken rarely
    rows = len(block)
    for r in range(rows):
        log_z[block[r]] = 0.0
    for t in range(lengths[block[0]]):
        rows = _active(lengths, block, rows, t)
        for r in range(rows):
            for j in range(labels):
                across[t, j, r] = weights[block[r], t, j]
        if t == 0:
            alpha[0] = 1.0
        else:
            _times_table(alpha[t - 1], tables[min(t, len(tables)) - 1], alpha[t], rows)
        for r in range(rows):
            norm[r] = 0.0
        for j in range(labels):
            for r in range(rows):
                mass = alpha[t, j, r] * across[t, j, r]
                alpha[t, j, r] = mass
                norm[r] += mass
        for r in range(rows):
            scale[t, r] = 1 / norm[r]
            log_z[block[r]] += tops[block[r], t]
            if 1e-100 < norm[r] < 1e100:
                product[r] *= norm[r]
            else:
                log_z[block[r]] += math.log(norm[r])
        for j in range(labels):
            for r in range(rows):
                alpha[t, j, r] *= scale[t, r]
        for r in range(rows):
            if not 1e-150 < product[r] < 1e150:
                log_z[block[r]] += math.log(product[r])
                product[r] = 1.0
    for r in range(len(block)):
        log_z[block[r]] += math.log(product[r])


@compiled
def scaled_forward_backward(
    weights, tables, tops, lengths, order, start, stop, want, risk_limit, log_z, marginals, pairs, trusted
):
    """Run forward-backward on exp(nodes - max) [B, T, L] and exp(edges - max) [T-1 or 1, L, L].

    `tops[b, t]` is the sum of the maxima subtracted at t, for nodes and edges. Fills log_z and, if requested,
    marginals [B, T, L] and pairs [B, T-1 or 1, L, L]. Pairs per position must be initialised with the tables.
    Pairs of a shared table must be initialised with zeros; the caller multiplies the result by the table.
    `trusted` is False for rows in which too much may have underflowed.
    """
    _, length, labels = weights.shape
    flipped = np.ascontiguousarray(tables.transpose(0, 2, 1))
    across = np.empty((length, labels, BLOCK), weights.dtype)
    alpha = np.empty((length, labels, BLOCK), weights.dtype)
    scale = np.empty((length, BLOCK), weights.dtype)
    beta = np.empty((labels, BLOCK), weights.dtype)
    onward = np.empty((labels, BLOCK), weights.dtype)
    norm = np.empty(BLOCK, weights.dtype)
    risk = np.empty(BLOCK, weights.dtype)
    shared = len(tables) == 1
    counts = np.empty((labels, labels, BLOCK) if want == EDGES and shared else (0, 0, 0), weights.dtype)
    for first in range(start, stop, BLOCK):
        block = order[first : min(first + BLOCK, stop)]
        _forward(weights, tables, tops, lengths, block, across, alpha, scale, log_z)
        beta[:] = 1.0
        risk[:] = 0.0
        counts[:] = 0.0
        if want >= NODES:
            for r in range(len(block)):
                last = lengths[block[r]] - 1
                for j in range(labels):
                    marginals[block[r], last, j] = alpha[last, j, r]
                if want == EDGES and not shared:
                    pairs[block[r], last:] = 0.0
        for t in range(lengths[block[0]] - 1, 0, -1):
            rows = _active(lengths, block, len(block), t)
            for j in range(labels):
                for r in range(rows):
                    ratio = beta[j, r] * scale[t, r]
                    risk[r] = max(risk[r], ratio)
                    onward[j, r] = across[t, j, r] * ratio
            _times_table(onward, flipped[min(t, len(tables)) - 1], beta, rows)
            if t % RENORMALISE == 0:
                _renormalise(alpha[t - 1], beta, norm, rows)
            if want >= NODES:
                for r in range(rows):
                    for i in range(labels):
                        marginals[block[r], t - 1, i] = alpha[t - 1, i, r] * beta[i, r]
            if want < EDGES:
                continue
            for i in range(labels):
                for j in range(labels):
                    if shared:
                        for r in range(rows):
                            counts[i, j, r] += alpha[t - 1, i, r] * onward[j, r]
                    else:
                        for r in range(rows):
                            pairs[block[r], t - 1, i, j] *= alpha[t - 1, i, r] * onward[j, r]
        if want == EDGES and shared:
            for r in range(len(block)):
                for i in range(labels):
                    for j in range(labels):
                        pairs[block[r], 0, i, j] = counts[i, j, r]
        for r in range(len(block)):
            total = 0.0  # a sum shows a NaN in beta, the maximum above does not
            for j in range(labels):
                total += beta[j, r] * scale[0, r]
            safe = risk[r] <= risk_limit and total <= risk_limit
            trusted[block[r]] = safe and math.isfinite(log_z[block[r]])


@compiled
def viterbi(nodes, tables, lengths, order, start, stop, scores, tags):
    """Fill the best path of each row. The backward pass recomputes each argmax, at L operations per step."""
    _, length, labels = nodes.shape
    best = np.empty((length, labels, BLOCK))
    invalid = np.empty(BLOCK)
    here = np.empty((labels, BLOCK))
    for first in range(start, stop, BLOCK):
        block = order[first : min(first + BLOCK, stop)]
        invalid[:] = 0.0
        rows = len(block)
        for t in range(lengths[block[0]]):
            rows = _active(lengths, block, rows, t)
            for r in range(rows):
                for j in range(labels):
                    here[j, r] = nodes[block[r], t, j]
            for j in range(labels):
                for r in range(rows):
                    best[t, j, r] = -np.inf if t else 0.0
                if t:
                    table = tables[min(t, len(tables)) - 1]
                    for i in range(labels):
                        step = table[i, j]
                        for r in range(rows):
                            value = best[t - 1, i, r] + step
                            best[t, j, r] = value if value > best[t, j, r] else best[t, j, r]
                for r in range(rows):
                    best[t, j, r] += here[j, r]
                    invalid[r] += not here[j, r] < np.inf
        for r in range(len(block)):
            row, last = block[r], lengths[block[r]] - 1
            tag = np.argmax(best[last, :, r])
            scores[row] = best[last, tag, r] if invalid[r] == 0 else np.nan
            tags[row, last] = tag
            for t in range(last, 0, -1):
                table = tables[min(t, len(tables)) - 1]
                top, origin = -np.inf, 0
                for i in range(labels):
                    value = best[t - 1, i, r] + table[i, tag]
                    if value > top:
                        top, origin = value, i
                tag = origin
                tags[row, t - 1] = tag
