"""Checked, differentiable chain inference on the chosen backend.

The gradient of log Z is the marginals, so one forward-backward gives value and gradient on every backend.
Gradients *of* marginals (second derivatives of log Z) are computed through the reference backend.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.kernels.backends import ChainSums, Want, choose_backend
from gspen_ner.kernels.checks import check_gold, check_possible, check_shapes, check_tags
from gspen_ner.kernels.reference import ReferenceBackend, fold_boundaries, score_of_tags, tag_indices

Nodes = Float[Tensor, "B T L"]
Edges = Float[Tensor, "Be E L L"]
Lengths = Int[Tensor, " B"]
Tags = Int[Tensor, "B T"]
Boundary = Float[Tensor, " L"]


def forward_backward(nodes: Nodes, edges: Edges, lengths: Lengths, want: Want = "edges") -> ChainSums:
    """Return the log partition and, if requested, node and edge marginals (counts for a shared table).

    Args:
        nodes: scores of labels.
        edges: scores of transitions: one table per position, or one for all.
        lengths: number of positions of each row.
        want: the results to compute; each option includes those before it.

    Example:
        >>> nodes = torch.tensor([[[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])
        >>> sums = forward_backward(nodes, torch.zeros(1, 1, 2, 2), torch.tensor([3]))
        >>> sums.nodes[0, 0], sums.edges.sum()  # the shared table is used for two transitions
        (tensor([0.2689, 0.7311]), tensor(2.))
    """
    check_shapes(nodes, edges, lengths)
    if _differentiable(nodes, edges):
        log_z, node_marginals, edge_marginals = _Sums.apply(nodes, edges, lengths, want)
        return ChainSums(log_z, node_marginals, edge_marginals)
    sums = choose_backend(nodes.device).forward_backward(nodes, edges, lengths, want)
    check_possible(sums.log_partition, nodes, edges, lengths)
    return sums


def log_partition(nodes: Nodes, edges: Edges, lengths: Lengths) -> Float[Tensor, " B"]:
    """Return log Z of each row in float64; differentiable twice.

    Example:
        >>> log_partition(torch.zeros(2, 4, 3), torch.zeros(1, 1, 3, 3), torch.tensor([4, 1]))  # log 81, 3
        tensor([4.3944, 1.0986], dtype=torch.float64)
    """
    if not _differentiable(nodes, edges):
        return forward_backward(nodes, edges, lengths, "log_partition").log_partition
    return _LogPartition.apply(nodes, edges, lengths)


def sequence_score(nodes: Nodes, edges: Edges, lengths: Lengths, tags: Tags) -> Float[Tensor, " B"]:
    """Return the score of given labellings in float64; differentiable. Tags on padding are ignored.

    Example:
        >>> nodes = torch.tensor([[[0.0, 1.0], [0.0, 2.0]]])
        >>> edges = torch.tensor([[[[0.0, 0.0], [5.0, 0.0]]]])
        >>> sequence_score(nodes, edges, torch.tensor([2]), torch.tensor([[1, 0]]))  # 1 + 5 + 0
        tensor([6.], dtype=torch.float64)
    """
    check_shapes(nodes, edges, lengths)
    check_tags(nodes, lengths, tags)
    return score_of_tags(nodes, edges, *tag_indices(tags, lengths, nodes.shape[2]))


def log_likelihood(
    nodes: Nodes,
    edges: Edges,
    lengths: Lengths,
    tags: Tags,
    start: Boundary | None = None,
    end: Boundary | None = None,
) -> Float[Tensor, " B"]:
    """Return score of the tags - log Z; one pass for value and gradient, differentiable twice.

    Args:
        nodes: scores of labels.
        edges: scores of transitions: one table per position, or one for all.
        lengths: number of positions of each row.
        tags: labels; padding is ignored.
        start: scores added at each row's first position; None adds none.
        end: scores added at each row's last position; None adds none.

    Example:
        >>> nodes, lengths, tags = torch.zeros(1, 2, 2), torch.tensor([2]), torch.tensor([[0, 1]])
        >>> log_likelihood(nodes, torch.zeros(1, 1, 2, 2), lengths, tags).exp()
        tensor([0.2500], dtype=torch.float64)
    """
    check_shapes(nodes, edges, lengths)
    check_tags(nodes, lengths, tags)
    return _LogLikelihood.apply(nodes, edges, start, end, lengths, tags)


def viterbi(nodes: Nodes, edges: Edges, lengths: Lengths) -> tuple[Float[Tensor, " B"], Tags]:
    """Return the score of the best labelling of each row, and the labelling; padding is -1.

    Example:
        >>> nodes = torch.tensor([[[0.0, 1.0], [0.0, 2.0]]])
        >>> edges = torch.tensor([[[[0.0, 0.0], [5.0, 0.0]]]])
        >>> viterbi(nodes, edges, torch.tensor([2]))
        (tensor([6.], dtype=torch.float64), tensor([[1, 0]]))
    """
    check_shapes(nodes, edges, lengths)
    scores, tags = choose_backend(nodes.device).viterbi(nodes, edges, lengths)
    check_possible(scores, nodes, edges, lengths)
    return scores, tags


def k_best(
    nodes: Nodes, edges: Edges, lengths: Lengths, k: int
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K T"]]:
    """Return the scores of the k best labellings, best first, and the labellings.

    A row with fewer than k labellings has scores of -inf and tags of -1 for the missing ones.

    Example:
        >>> nodes = torch.tensor([[[0.0, 1.0], [0.0, 3.0]]])
        >>> scores, tags = k_best(nodes, torch.zeros(1, 1, 2, 2), torch.tensor([2]), 3)
        >>> scores.tolist(), tags.tolist()
        ([[4.0, 3.0, 1.0]], [[[1, 1], [0, 1], [1, 0]]])
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    _check_values(nodes, edges, lengths)
    return choose_backend(nodes.device).k_best(nodes, edges, lengths, k)


def sample(
    nodes: Nodes, edges: Edges, lengths: Lengths, uniforms: Float[Tensor, "S B T"]
) -> Int[Tensor, "S B T"]:
    """Return labellings drawn from the chain's distribution, one for each set of uniform numbers in [0, 1).

    Example:
        >>> nodes, edges, lengths = torch.zeros(1, 2, 2), torch.zeros(1, 1, 2, 2), torch.tensor([2])
        >>> sample(nodes, edges, lengths, torch.tensor([[[0.2, 0.7]]], dtype=torch.float64))
        tensor([[[0, 1]]])
    """
    _check_values(nodes, edges, lengths)
    return choose_backend(nodes.device).sample(nodes, edges, lengths, uniforms)


def _differentiable(nodes: Tensor, edges: Tensor) -> bool:
    return torch.is_grad_enabled() and (nodes.requires_grad or edges.requires_grad)


def _check_values(nodes: Tensor, edges: Tensor, lengths: Tensor) -> None:
    with torch.no_grad():
        forward_backward(nodes, edges, lengths, "log_partition")


class _Sums(torch.autograd.Function):
    """Forward-backward on the chosen backend, with derivatives through the reference backend."""

    @staticmethod
    def forward(ctx, nodes: Tensor, edges: Tensor, lengths: Tensor, want: Want):
        ctx.save_for_backward(nodes, edges, lengths)
        ctx.want = want
        ctx.set_materialize_grads(False)
        return tuple(forward_backward(nodes, edges, lengths, want))

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        nodes, edges, lengths = ctx.saved_tensors
        if all(grad is None for grad in grads):
            return None, None, None, None
        second = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = _alias(nodes, second), _alias(edges, second)
            sums = ReferenceBackend().forward_backward(*inputs, lengths, ctx.want)
            used = [(value, grad) for value, grad in zip(sums, grads, strict=True) if grad is not None]
            values, weights = zip(*used, strict=True)
            result = torch.autograd.grad(values, inputs, weights, create_graph=second, materialize_grads=True)
        return *result, None, None


def _alias(tensor: Tensor, connected: bool) -> Tensor:
    """Return a view of a tensor for `autograd.grad`; if not connected, a leaf outside the graph."""
    return tensor.view_as(tensor) if connected else tensor.detach().requires_grad_()


class _LogPartition(torch.autograd.Function):
    """log Z, whose gradient is the marginals."""

    @staticmethod
    def forward(ctx, nodes: Tensor, edges: Tensor, lengths: Tensor) -> Tensor:
        sums = forward_backward(nodes, edges, lengths, _wanted(ctx))
        ctx.save_for_backward(nodes, edges, lengths, sums.nodes, sums.edges)
        return sums.log_partition

    @staticmethod
    def backward(ctx, grad: Tensor):
        nodes, edges, lengths, node_marginals, edge_marginals = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are needed
            _, node_marginals, edge_marginals = ReferenceBackend().forward_backward(
                nodes, edges, lengths, "edges"
            )
        weight = grad.to(node_marginals.dtype)
        node_grad, edge_grad = (weight[:, None, None] * node_marginals).to(nodes.dtype), None
        if ctx.needs_input_grad[1]:
            if edges.shape[0] == 1 and len(nodes) > 1:  # a table that all rows share
                edge_grad = (weight @ edge_marginals.flatten(1)).view(edges.shape)
            else:
                edge_grad = weight[:, None, None, None] * edge_marginals
            edge_grad = edge_grad.to(edges.dtype)
        return node_grad, edge_grad, None


class _LogLikelihood(torch.autograd.Function):
    """`<theta, y> - log Z`, whose gradient is y minus the marginals."""

    @staticmethod
    def forward(ctx, nodes, edges, start, end, lengths: Tensor, tags: Tensor) -> Tensor:
        backend = choose_backend(nodes.device)
        likelihood = backend.likelihood(nodes, edges, lengths, tags, _wanted(ctx), start, end)
        value = likelihood.score - likelihood.log_partition
        if not math.isfinite(value.sum()):
            folded = fold_boundaries(nodes, lengths, start, end)
            check_possible(likelihood.log_partition, folded, edges, lengths)
            check_gold(likelihood.score)
        ctx.save_for_backward(nodes, edges, start, end, lengths, tags)
        ctx.gradients = likelihood.gradients
        return value

    @staticmethod
    def backward(ctx, grad: Tensor):
        if torch.is_grad_enabled():  # second derivatives are needed
            return _differentiable_gradients(ctx, grad, *ctx.saved_tensors)
        gradients = zip(ctx.gradients(grad), ctx.needs_input_grad, strict=False)
        return *(gradient if needed else None for gradient, needed in gradients), None, None


def _differentiable_gradients(ctx, grad, nodes, edges, start, end, lengths, tags):
    """Return the gradients of the likelihood, themselves differentiable."""
    needed = ctx.needs_input_grad[:4]
    nodes, edges, start, end = inputs = [
        _alias(tensor, connected=True) if need else tensor
        for tensor, need in zip((nodes, edges, start, end), needed, strict=True)
    ]
    folded = fold_boundaries(nodes, lengths, start, end)
    value = sequence_score(folded, edges, lengths, tags) - _LogPartition.apply(folded, edges, lengths)
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
    gradients = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
    return *(next(gradients) if need else None for need in needed), None, None


def _wanted(ctx) -> Want:
    return "edges" if ctx.needs_input_grad[1] else "nodes"
