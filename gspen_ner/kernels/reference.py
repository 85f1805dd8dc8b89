"""Chain inference in torch: log space, any device, differentiable to any order.

    log Z = log sum_y exp( sum_t nodes[t, y_t] + sum_t edges[t, y_t, y_{t+1}] )

All sums run in float64 (float32 on devices without it), whatever the input's dtype. It is the only backend on
accelerators, and the one through which gradients of marginals are computed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gspen_ner.kernels.backends import ChainSums, Likelihood, Want
from gspen_ner.parts import wide_dtype


class ReferenceBackend:
    """Chain inference in torch, in log space; see the module's docstring."""

    name = "reference"

    def supports(self, device: torch.device) -> bool:
        return True

    def forward_backward(self, nodes: Tensor, edges: Tensor, lengths: Tensor, want: Want) -> ChainSums:
        scores, tables, mask = _widen(nodes, edges, lengths)
        alphas = _forward(scores, tables, mask)
        log_z = _log_sum_exp(alphas[-1], 1)
        if want == "log_partition":
            return ChainSums(log_z, None, None)
        betas = _backward(scores, tables, mask)
        dtype = torch.promote_types(nodes.dtype, torch.float32)
        beliefs = torch.stack([a + b for a, b in zip(alphas, betas, strict=True)], 1)
        node_marginals = _exp_where(mask[..., None], beliefs - log_z[:, None, None])
        if want == "nodes":
            return ChainSums(log_z, node_marginals.to(dtype), None)
        batch, length, labels = scores.shape
        counts, pairs = scores.new_zeros(batch, labels, labels), []
        for t in range(1, length):
            ahead = (scores[:, t] + betas[t])[:, None, :] + alphas[t - 1][:, :, None]
            pair = ahead + _table(tables, t - 1) - log_z[:, None, None]
            pair = _exp_where(mask[:, t, None, None], pair)
            if tables.shape[1] == 1:
                counts = counts + pair
            else:
                pairs.append(pair.to(dtype))
        if tables.shape[1] == 1:
            return ChainSums(log_z, node_marginals.to(dtype), counts[:, None].to(dtype))
        edges = torch.stack(pairs, 1) if pairs else scores.new_zeros(batch, 0, labels, labels, dtype=dtype)
        return ChainSums(log_z, node_marginals.to(dtype), edges)

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
        nodes = fold_boundaries(nodes, lengths, start, end)
        log_z, node_marginals, edge_marginals = self.forward_backward(nodes, edges, lengths, want)
        assert node_marginals is not None
        mask, tags, pairs = tag_indices(tags, lengths, nodes.shape[2])
        score = score_of_tags(nodes, edges, mask, tags, pairs)

        def gradients(weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
            present = mask.to(torch.promote_types(nodes.dtype, torch.float32))
            rest = (-node_marginals).scatter_add(2, tags[..., None], present[..., None])
            node_grad = weights.to(rest.dtype)[:, None, None] * rest
            rows = torch.arange(len(nodes), device=nodes.device)
            boundaries = node_grad[:, 0].sum(0), node_grad[rows, lengths - 1].sum(0)
            if edge_marginals is None:
                return node_grad, None, *boundaries
            shared = edge_marginals.shape[1] == 1
            indices = pairs[:, None] if shared else pairs[..., None]
            ones = present[:, None, 1:] if shared else present[:, 1:, None]
            rest = (-edge_marginals).flatten(2).scatter_add(2, indices, ones).view(edge_marginals.shape)
            edge_grad = weights.to(rest.dtype)[:, None, None, None] * rest
            if len(edges) == 1:
                edge_grad = edge_grad.sum(0, keepdim=True)
            return node_grad, edge_grad, *boundaries

        return Likelihood(log_z, score, gradients)

    def viterbi(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        scores, tags = self.k_best(nodes, edges, lengths, 1)
        return scores[:, 0], tags[:, 0]

    def k_best(self, nodes: Tensor, edges: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        scores, tables, mask = _widen(nodes, edges, lengths)
        batch, length, labels = scores.shape
        best = scores.new_full((batch, k, labels), -torch.inf)
        best[:, 0] = scores[:, 0]
        origins = []  # for each position: [B, k, L], an index into (rank, label) of the position before
        stay = torch.arange(k * labels, device=nodes.device).view(1, k, labels).expand(batch, k, labels)
        for t in range(1, length):
            ahead = best[..., None] + _table(tables, t - 1)[:, None] + scores[:, t, None, None]
            value, origin = ahead.reshape(batch, k * labels, labels).topk(k, 1)
            active = mask[:, t, None, None]
            best = torch.where(active, value, best)
            origins.append(torch.where(active, origin, stay))
        total, state = best.reshape(batch, k * labels).topk(k, 1)
        tags = [state % labels]
        for origin in reversed(origins):
            state = origin.reshape(batch, k * labels).gather(1, state)
            tags.append(state % labels)
        path = torch.stack(tags[::-1], 2)
        total = torch.where(invalid_rows(nodes, edges, lengths)[:, None], torch.nan, total)
        return total, path.masked_fill(~mask[:, None] | ~torch.isfinite(total)[..., None], -1)

    def sample(self, nodes: Tensor, edges: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
        scores, tables, mask = _widen(nodes, edges, lengths)
        alphas = _forward(scores, tables, mask)
        count, batch, length = uniforms.shape
        rows = torch.arange(batch, device=nodes.device)
        tag = torch.zeros(count, batch, dtype=torch.int64, device=nodes.device)
        tags = []
        for t in range(length - 1, -1, -1):
            logits = alphas[t].expand(count, batch, -1)
            if t + 1 < length:
                table = _table(tables, t).expand(batch, -1, -1)
                follow = table.mT[rows, tag]
                logits = torch.where(mask[:, t + 1, None], logits + follow, logits)
            cumulative = torch.softmax(logits, -1).cumsum(-1)
            draw = (uniforms[..., t, None] * cumulative[..., -1:] >= cumulative).sum(-1)
            tag = torch.where(mask[:, t], draw.clamp_max(nodes.shape[2] - 1), tag)
            tags.append(tag.masked_fill(~mask[:, t], -1))
        return torch.stack(tags[::-1], 2)


def _widen(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = wide_dtype(nodes.device)
    mask = torch.arange(nodes.shape[1], device=nodes.device) < lengths[:, None]
    tables = edges.to(wide)
    if edges.shape[1] > 1:  # tables per position have arbitrary scores on padding
        tables = torch.where(mask[:, 1:, None, None], tables, 0.0)
    return torch.where(mask[..., None], nodes.to(wide), 0.0), tables, mask


def _table(tables: Tensor, t: int) -> Tensor:
    return tables[:, t if tables.shape[1] > 1 else 0]


def _forward(scores: Tensor, tables: Tensor, mask: Tensor) -> list[Tensor]:
    alphas, storage = [scores[:, 0]], torch.empty_like(scores)
    for t in range(1, scores.shape[1]):
        step = _log_sum_exp(alphas[-1][:, :, None] + _table(tables, t - 1), 1) + scores[:, t]
        alphas.append(_store(torch.where(mask[:, t, None], step, alphas[-1]), storage[:, t]))
    return alphas


def _backward(scores: Tensor, tables: Tensor, mask: Tensor) -> list[Tensor]:
    betas, storage = [torch.zeros_like(scores[:, 0])], torch.empty_like(scores)
    for t in range(scores.shape[1] - 1, 0, -1):
        step = _log_sum_exp(_table(tables, t - 1) + (scores[:, t] + betas[-1])[:, None, :], 2)
        betas.append(_store(torch.where(mask[:, t, None], step, 0.0), storage[:, t - 1]))
    return betas[::-1]


def _store(value: Tensor, storage: Tensor) -> Tensor:
    """Return the value, copied into the storage unless autograd needs the original.

    Small tensors allocated between large temporary ones would fragment the heap, which would grow by the size
    of a large one in each step.
    """
    return value if value.requires_grad else storage.copy_(value)


def _log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """Return logsumexp, with finite derivatives also where all values are -inf."""
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(torch.isfinite(top), top, 0.0)
    total = (x - top).exp().sum(dim)
    possible = total != 0
    return torch.where(possible, torch.where(possible, total, 1.0).log() + top.squeeze(dim), -torch.inf)


def _exp_where(present: Tensor, logits: Tensor) -> Tensor:
    return torch.where(present, logits, -torch.inf).exp()


def invalid_rows(nodes: Tensor, edges: Tensor, lengths: Tensor) -> Tensor:
    """Return a mask of the rows with a score of NaN or +inf, which a maximum may not show."""
    scores, tables, _ = _widen(nodes, edges, lengths)
    return (~(scores < torch.inf)).flatten(1).any(1) | (~(tables < torch.inf)).flatten(1).any(1)


def fold_boundaries(nodes: Tensor, lengths: Tensor, start: Tensor | None, end: Tensor | None) -> Tensor:
    """Return nodes with start scores added to each row's first position and end scores to its last.

    Example:
        >>> fold_boundaries(torch.zeros(1, 3, 2), torch.tensor([2]), None, torch.tensor([0.0, 5.0]))[0, :, 1]
        tensor([0., 5., 0.])
    """
    if start is not None:
        nodes = torch.cat([nodes[:, :1] + start, nodes[:, 1:]], 1)
    if end is not None:
        last = torch.arange(nodes.shape[1], device=nodes.device) == lengths[:, None] - 1
        nodes = torch.where(last[..., None], nodes + end, nodes)
    return nodes


def tag_indices(tags: Tensor, lengths: Tensor, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mask (False on padding), the tags with 0 on padding, and pairs of tags as table indices."""
    mask = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
    tags = tags.masked_fill(~mask, 0)
    return mask, tags, tags[:, :-1] * labels + tags[:, 1:]


def score_of_tags(nodes: Tensor, edges: Tensor, mask: Tensor, tags: Tensor, pairs: Tensor) -> Tensor:
    """Return `<theta, y>` in float64; differentiable."""
    wide = wide_dtype(nodes.device)
    chosen = nodes.gather(2, tags[..., None]).squeeze(2).masked_fill(~mask, 0.0)
    row = torch.arange(len(nodes), device=nodes.device)[:, None] if edges.shape[0] > 1 else 0
    position = torch.arange(pairs.shape[1], device=nodes.device) if edges.shape[1] != 1 else 0
    steps = edges.flatten(2)[row, position, pairs].masked_fill(~mask[:, 1:], 0.0)
    return chosen.sum(1, dtype=wide) + steps.sum(1, dtype=wide)
