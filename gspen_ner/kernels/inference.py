"""Checked, differentiable chain inference on whatever backend fits.

The gradient of log Z is the marginals, so one forward-backward serves value and gradient on every
backend. Gradients *of* marginals (second derivatives of log Z) are taken through the reference backend.
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
    """Log partition and, as wanted, node marginals and edge marginals (counts if the table is shared).

    Example:
        >>> nodes = torch.tensor([[[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])
        >>> sums = forward_backward(nodes, torch.zeros(1, 1, 2, 2), torch.tensor([3]))
        >>> sums.nodes[0, 0], sums.edges.sum()  # a shared table: how often each of its entries is used
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
    """Log Z of each row in the widest float; differentiable twice.

    Example:
        >>> log_partition(torch.zeros(2, 4, 3), torch.zeros(1, 1, 3, 3), torch.tensor([4, 1]))  # of 81 and 3
        tensor([4.3944, 1.0986], dtype=torch.float64)
    """
    if not _differentiable(nodes, edges):
        return forward_backward(nodes, edges, lengths, "log_partition").log_partition
    return _LogPartition.apply(nodes, edges, lengths)


def sequence_score(nodes: Nodes, edges: Edges, lengths: Lengths, tags: Tags) -> Float[Tensor, " B"]:
    """The score of given labellings in the widest float; differentiable. Padding of tags is ignored.

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
    """Score of the tags - log Z; one pass for value and gradient, differentiable twice.

    Args:
        nodes: scores of labels.
        edges: scores of neighbouring labels.
        lengths: of the rows.
        tags: labels of which the likelihood is wanted; padding is ignored.
        start: added to the scores of each row's first position.
        end: added to those of its last.

    Example:
        >>> nodes, lengths, tags = torch.zeros(1, 2, 2), torch.tensor([2]), torch.tensor([[0, 1]])
        >>> log_likelihood(nodes, torch.zeros(1, 1, 2, 2), lengths, tags).exp()
        tensor([0.2500], dtype=torch.float64)
    """
    check_shapes(nodes, edges, lengths)
    check_tags(nodes, lengths, tags)
    return _LogLikelihood.apply(nodes, edges, start, end, lengths, tags)


def viterbi(nodes: Nodes, edges: Edges, lengths: Lengths) -> tuple[Float[Tensor, " B"], Tags]:
    """The best labelling of each row and its score; padding is -1.

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
    """The k best labellings, best first; score -inf and tags -1 where a row has fewer.

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
    """Labellings drawn from the chain's distribution, one for each set of uniform numbers in [0, 1).

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
    """Forward-backward by the chosen backend; its derivatives through the reference."""

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
            found = torch.autograd.grad(values, inputs, weights, create_graph=second, materialize_grads=True)
        return *found, None, None


def _alias(tensor: Tensor, connected: bool) -> Tensor:
    """A tensor to differentiate with respect to: itself alone, not what it was computed from."""
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
        if torch.is_grad_enabled():  # somebody wants second derivatives
            _, node_marginals, edge_marginals = ReferenceBackend().forward_backward(
                nodes, edges, lengths, "edges"
            )
        return *_weigh(ctx, grad, nodes, edges, node_marginals, edge_marginals), None


class _LogLikelihood(torch.autograd.Function):
    """`<theta, y> - log Z`, whose gradient is y minus the marginals."""

    @staticmethod
    def forward(ctx, nodes, edges, start, end, lengths: Tensor, tags: Tensor) -> Tensor:
        backend = choose_backend(nodes.device)
        found = backend.likelihood(nodes, edges, lengths, tags, _wanted(ctx), start, end)
        value = found.score - found.log_partition
        if not math.isfinite(value.sum()):
            folded = fold_boundaries(nodes, lengths, start, end)
            check_possible(found.log_partition, folded, edges, lengths)
            check_gold(found.score)
        ctx.save_for_backward(nodes, edges, start, end, lengths, tags)
        ctx.gradients = found.gradients
        return value

    @staticmethod
    def backward(ctx, grad: Tensor):
        if torch.is_grad_enabled():  # somebody wants second derivatives
            return _graph_of_likelihood(ctx, grad, *ctx.saved_tensors)
        found = ctx.gradients(grad)
        return (
            *(g if need else None for g, need in zip(found, ctx.needs_input_grad, strict=False)),
            None,
            None,
        )


def _graph_of_likelihood(ctx, grad, nodes, edges, start, end, lengths, tags):
    """The likelihood's gradient, itself differentiable."""
    needed = ctx.needs_input_grad[:4]
    nodes, edges, start, end = inputs = [
        _alias(tensor, connected=True) if need else tensor
        for tensor, need in zip((nodes, edges, start, end), needed, strict=True)
    ]
    folded = fold_boundaries(nodes, lengths, start, end)
    value = sequence_score(folded, edges, lengths, tags) - _LogPartition.apply(folded, edges, lengths)
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
    found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
    return *(next(found) if need else None for need in needed), None, None


def _wanted(ctx) -> Want:
    return "edges" if ctx.needs_input_grad[1] else "nodes"


def _weigh(ctx, grad: Tensor, nodes: Tensor, edges: Tensor, node_part: Tensor, edge_part: Tensor):
    """The gradients of rows with these weights; summed over the batch for what the batch shares."""
    weight = grad.to(node_part.dtype)
    node_grad, edge_grad = (weight[:, None, None] * node_part).to(nodes.dtype), None
    if ctx.needs_input_grad[1]:
        if edges.shape[0] == 1 and len(nodes) > 1:
            edge_grad = (weight @ edge_part.flatten(1)).view(edges.shape)
        else:
            edge_grad = weight[:, None, None, None] * edge_part
        edge_grad = edge_grad.to(edges.dtype)
    return node_grad, edge_grad
