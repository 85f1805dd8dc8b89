"""Derivatives of log Z and of the likelihood, first and second, in every layout."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gspen_ner import Chain, Parts

pytestmark = pytest.mark.usefixtures("backend")
LENGTHS = torch.tensor([4, 1, 3])
LAYOUTS = [(1, 1), (3, 1), (1, 3), (3, 3)]


def inputs(rows, positions):
    random = torch.Generator().manual_seed(4)
    nodes = torch.randn(3, 4, 3, generator=random, dtype=torch.float64, requires_grad=True)
    edges = torch.randn(rows, positions, 3, 3, generator=random, dtype=torch.float64, requires_grad=True)
    return nodes, edges


@pytest.mark.parametrize("layout", LAYOUTS)
def test_log_partition(layout):
    def function(nodes, edges):
        return Chain(LENGTHS).log_partition(Parts(nodes, edges))

    assert gradcheck(function, inputs(*layout))
    assert gradgradcheck(function, inputs(*layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_log_likelihood(layout):
    labels = torch.tensor([[0, 1, 2, 2], [1, 0, 0, 0], [2, 2, 0, 1]])

    def function(nodes, edges):
        return Chain(LENGTHS).log_likelihood(Parts(nodes, edges), labels)

    assert gradcheck(function, inputs(*layout))
    assert gradgradcheck(function, inputs(*layout))


def test_likelihood_with_boundaries():
    from gspen_ner.kernels import log_likelihood

    labels = torch.tensor([[0, 1, 2, 2], [1, 0, 0, 0], [2, 2, 0, 1]])
    start, end = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def function(nodes, edges, start, end):
        return log_likelihood(nodes, edges, LENGTHS, labels, start, end)

    assert gradcheck(function, (*inputs(1, 1), start, end))
    assert gradgradcheck(function, (*inputs(1, 1), start, end))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_marginals_are_the_gradient_and_have_one(layout):
    nodes, edges = inputs(*layout)
    theta = Parts(nodes, edges)
    chain = Chain(LENGTHS)
    node_grad, edge_grad = torch.autograd.grad(chain.log_partition(theta).sum(), (nodes, edges))
    marginals = chain.marginals(theta)
    torch.testing.assert_close(marginals.nodes, node_grad)
    expected = marginals.edges if layout[0] == 3 else marginals.edges.sum(0, keepdim=True)
    torch.testing.assert_close(expected, edge_grad)
    assert gradcheck(lambda nodes, edges: chain.marginals(Parts(nodes, edges)).nodes, (nodes, edges))


def test_gradients_are_finite_where_everything_is_forbidden():
    nodes = torch.zeros(1, 3, 3, dtype=torch.float64)
    nodes[0, :, 2] = -torch.inf  # a label that can never occur
    edges = torch.full((3, 3), -torch.inf, dtype=torch.float64)
    edges[0, 1] = edges[1, 0] = 0.0
    nodes.requires_grad_(), edges.requires_grad_()
    log_z = Chain(torch.tensor([3])).log_partition(Parts(nodes, edges))
    grads = torch.autograd.grad(log_z.sum(), (nodes, edges), create_graph=True)
    second = torch.autograd.grad(sum((grad**2).sum() for grad in grads), (nodes, edges))
    assert all(torch.isfinite(tensor).all() for tensor in (*grads, *second))


def test_inputs_that_depend_on_each_other_are_not_counted_twice():
    from gspen_ner import LinearChainCRF

    crf = LinearChainCRF(3, batch_first=True).double()
    tags, x = torch.tensor([[0, 1, 2]]), torch.randn(1, 3, 3, dtype=torch.float64)
    loss = -crf(x + crf.start_transitions, tags)
    (plain,) = torch.autograd.grad(loss, crf.start_transitions, retain_graph=True)
    (connected,) = torch.autograd.grad(loss, crf.start_transitions, create_graph=True)
    torch.testing.assert_close(connected, plain)


def test_no_gradient_is_asked_for_by_inputs_without_one():
    nodes = torch.randn(2, 3, 3, requires_grad=True)
    chain = Chain(torch.tensor([3, 2]))
    chain.log_partition(Parts(nodes, torch.zeros(3, 3))).sum().backward()
    torch.testing.assert_close(nodes.grad, chain.marginals(Parts(nodes.detach(), torch.zeros(3, 3))).nodes)
