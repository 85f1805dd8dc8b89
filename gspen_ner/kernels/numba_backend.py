"""Chain inference on the CPU by the compiled loops of `loops`.

numba is imported with the first inference, not with the package. Small array operations, including exp, use
numpy: its calls have a fraction of the overhead of torch's, and do not depend on the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspen_ner.kernels.backends import ChainSums, Likelihood, Want
from gspen_ner.kernels.loops import EDGES, LOG_PARTITION, NODES
from gspen_ner.kernels.reference import invalid_rows
from gspen_ner.kernels.thread_pool import over_rows

MAX_LOST_MASS = 1e-8  # probability mass of a row that may underflow before it is recomputed more precisely
FLOAT32_MAX_LENGTH = 1000  # longer float32 chains are computed in float64, since rounding errors add up
MODERATE_SCORE = 15.0  # float32 scores up to this are exponentiated without subtracting the maximum
FORBIDDEN_DEPTH = 5000.0  # scores further below the maximum are treated as masks, such as -10,000
INTERLEAVED_MIN_ROWS = 8  # number of rows from which vector operations over the batch are faster

_WANTED = {"log_partition": LOG_PARTITION, "nodes": NODES, "edges": EDGES}


class NumbaBackend:
    """Scaled forward-backward; rows that underflow are recomputed in float64, then in log space if needed."""

    name = "numba"

    @cached_property
    def _loops(self) -> dict[str, ModuleType]:
        from gspen_ner.kernels.loops import interleaved, log_space, rowwise

        return {"interleaved": interleaved, "rowwise": rowwise, "log_space": log_space}

    def supports(self, device: torch.device) -> bool:
        return device.type == "cpu"

    def forward_backward(self, nodes: Tensor, edges: Tensor, lengths: Tensor, want: Want) -> ChainSums:
        log_z, *rest = self._scaled(_array(nodes), _array(edges), _array(lengths), _WANTED[want])
        marginals = (None if array is None else torch.from_numpy(array) for array in rest)
        return ChainSums(torch.from_numpy(log_z), *marginals)

    def likelihood(
        self,
        nodes: Tensor,
        edges: Tensor,
        lengths: Tensor,
        tags: Tensor,
        want: Want,
        start: Tensor | None,
        end: Tensor | None,
    ) -> Likelihood:
        scores, tables, sizes, wanted = _array(nodes), _array(edges), _array(lengths), _WANTED[want]
        if start is not None or end is not None:
            scores = scores.copy()
        if start is not None:
            scores[:, 0] += _array(start)
        if end is not None:
            scores[np.arange(len(scores)), sizes - 1] += _array(end)
        log_z, node_rest, edge_rest = self._scaled(scores, tables, sizes, wanted)
        if edge_rest is None:
            edge_rest = np.empty((0, 0, 0, 0), node_rest.dtype)
        gold = np.empty(len(scores))
        loops = self._loops["log_space"]
        loops.subtract_gold(scores, tables, sizes, _array(tags), gold, node_rest, edge_rest)

        def gradients(weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
            node_grad = np.empty_like(node_rest)
            edge_grad = np.zeros_like(tables if wanted == EDGES else edge_rest)
            boundaries = np.zeros((2, nodes.shape[2]), node_rest.dtype)
            results = node_grad, edge_grad, boundaries
            loops.weigh_rows(-weights.double().numpy(), sizes, node_rest, edge_rest, *results)
            start_grad, end_grad = torch.from_numpy(boundaries)
            edge_result = torch.from_numpy(edge_grad) if wanted == EDGES else None
            return torch.from_numpy(node_grad), edge_result, start_grad, end_grad

        return Likelihood(torch.from_numpy(log_z), torch.from_numpy(gold), gradients)

    def viterbi(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        scores, tags = np.empty(len(nodes)), np.full(nodes.shape[:2], -1)
        loop, inputs = self._loop("viterbi", _array(nodes), _array(edges), _array(lengths))
        over_rows(lambda start, stop: loop(*inputs, start, stop, scores, tags), *_work(nodes))
        if np.isnan(inputs[1]).any():  # the loops detect NaN among the nodes, but not among the edges
            scores[invalid_rows(nodes, edges, lengths).numpy()] = np.nan
        return torch.from_numpy(scores), torch.from_numpy(tags)

    def k_best(self, nodes: Tensor, edges: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        batch, length, _ = nodes.shape
        scores, tags = np.empty((batch, k)), np.full((batch, k, length), -1)
        inputs, loop = _doubles(nodes, edges, lengths), self._loops["log_space"].k_best
        over_rows(lambda start, stop: loop(*inputs, start, stop, k, scores, tags), *_work(nodes))
        return torch.from_numpy(scores), torch.from_numpy(tags)

    def sample(self, nodes: Tensor, edges: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
        tags = np.full(uniforms.shape, -1)
        inputs, loop = _doubles(nodes, edges, lengths), self._loops["log_space"].sample
        draws = _array(uniforms).astype(np.float64)
        over_rows(lambda start, stop: loop(*inputs, start, stop, draws, tags), *_work(nodes))
        return torch.from_numpy(tags)

    def _scaled(self, nodes: np.ndarray, edges: np.ndarray, lengths: np.ndarray, wanted: int) -> Any:
        """Return the log partition and the requested marginals, in the dtype of the input."""
        batch, length, labels = nodes.shape
        narrow = nodes.dtype == np.float32 and length <= FLOAT32_MAX_LENGTH
        dtype = np.float32 if narrow else np.float64
        weights, tables, tops, growth = _exponentiate(nodes, edges, dtype)
        lost = _lost_rows(nodes, weights) | _lost_rows(edges, tables)
        log_z, trusted = np.empty(batch), np.empty(batch, bool)
        marginals = np.zeros((batch, length, labels) if wanted >= NODES else (0, 0, 0), dtype)
        pairs = _pairs(tables, batch) if wanted == EDGES else np.zeros((0, 0, 0, 0), dtype)
        outputs = (log_z, marginals, pairs, trusted)
        limit = MAX_LOST_MASS / (np.finfo(dtype).tiny * labels * growth)
        loop, inputs = self._loop("scaled_forward_backward", weights, tables, tops, lengths)
        over_rows(lambda start, stop: loop(*inputs, start, stop, wanted, limit, *outputs), *_work(nodes))
        if wanted == EDGES and tables.shape[1] == 1:
            with np.errstate(invalid="ignore", over="ignore"):  # in rows that are recomputed below
                pairs *= tables
        sums = [
            log_z,
            marginals.astype(nodes.dtype, copy=False) if wanted >= NODES else None,
            pairs.astype(nodes.dtype, copy=False) if wanted == EDGES else None,
        ]
        trusted &= ~lost
        if not trusted.all():
            rows = np.flatnonzero(~trusted)
            recompute = self._scaled if narrow else self._in_log_space
            own = edges if len(edges) == 1 else edges[rows]
            better = recompute(nodes[rows].astype(np.float64), own.astype(np.float64), lengths[rows], wanted)
            for result, update in zip(sums, better, strict=True):
                if result is not None:
                    result[rows] = update
        return sums

    def _in_log_space(self, nodes: np.ndarray, edges: np.ndarray, lengths: np.ndarray, wanted: int) -> Any:
        sums = np.empty(len(nodes)), np.zeros_like(nodes), np.zeros((len(nodes), *edges.shape[1:]))
        self._loops["log_space"].log_forward_backward(nodes, edges, lengths, wanted, *sums)
        return sums

    def _loop(
        self, name: str, nodes: np.ndarray, edges: np.ndarray, *rest: np.ndarray
    ) -> tuple[Callable, tuple]:
        """Return the faster loop for the batch, and its inputs: rows are interleaved if they share tables."""
        if len(edges) > 1 or len(nodes) < INTERLEAVED_MIN_ROWS:
            return getattr(self._loops["rowwise"], name), (nodes, edges, *rest)
        longest_first = np.argsort(-rest[-1], kind="stable")
        return getattr(self._loops["interleaved"], name), (nodes, edges[0], *rest, longest_first)


def _array(tensor: Tensor) -> np.ndarray:
    """Return a contiguous array, a view of the tensor where possible; half precision becomes float32."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor.contiguous().numpy()


def _doubles(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[np.ndarray, ...]:
    return _array(nodes).astype(np.float64), _array(edges).astype(np.float64), _array(lengths)


def _work(nodes: Tensor | np.ndarray) -> tuple[int, int]:
    batch, length, labels = nodes.shape
    return batch, batch * length * labels * labels


def _exponentiate(nodes: np.ndarray, edges: np.ndarray, dtype: type) -> tuple:
    """Return exp(nodes - max), exp(edges - max), the maxima at each position, and a bound on growth.

    No maximum is subtracted from moderate float32 scores: the loops detect underflow, given the bound on the
    factor by which a step can multiply a number. A shared table is exponentiated in float64, since its
    rounding errors would add up over the steps.
    """
    tops, growth = np.zeros(nodes.shape[:2]), 1.0
    if dtype == np.float32 and (highest := nodes.max()) <= MODERATE_SCORE:
        weights = np.exp(nodes)
        growth *= np.exp(max(highest, 0.0))
    else:
        tops = _finite(torch.from_numpy(nodes).amax(2).double().numpy())  # numpy is slow over a short axis
        weights = np.exp(nodes - tops[..., None]).astype(dtype, copy=False)
    if edges.shape[1] == 1:
        edges = edges.astype(np.float64)
    if dtype == np.float32 and (highest := edges.max(initial=0.0)) <= MODERATE_SCORE:
        return weights, np.exp(edges).astype(dtype, copy=False), tops, growth * np.exp(highest)
    top = _finite(edges.max((2, 3), keepdims=True, initial=-np.inf).astype(np.float64))
    tops[:, 1:] += top[..., 0, 0]
    return weights, np.exp(edges - top).astype(dtype, copy=False), tops, growth


def _lost_rows(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a mask of the rows in which exp of a score underflowed, other than of scores used as masks.

    The loops detect underflow of products, but not of their inputs: a path through two weights that have
    underflowed would remain undetected.
    """
    floor = 100 * np.finfo(weights.dtype).tiny
    if not weights.size or weights.min() >= floor:  # the usual case
        return np.zeros(1, bool)
    lost = (weights < floor) & (scores > np.fmax.reduce(scores, axis=None) - FORBIDDEN_DEPTH)
    return lost.reshape(len(lost), -1).any(1)


def _finite(top: np.ndarray) -> np.ndarray:
    """Return maxima to subtract: 0 where all scores are forbidden."""
    return np.where(np.isfinite(top), top, 0.0)


def _pairs(tables: np.ndarray, batch: int) -> np.ndarray:
    """Return the array for edge marginals: zeros for counts, or the tables themselves, one per position."""
    if tables.shape[1] == 1:
        return np.zeros((batch, *tables.shape[1:]), tables.dtype)
    return tables if len(tables) == batch else np.repeat(tables, batch, 0)
