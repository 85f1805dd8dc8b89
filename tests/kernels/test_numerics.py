"""Extremes: what must stay finite and right where single precision alone would not."""

import numpy as np
import pytest
import torch

from gspen_ner import Chain, Parts
from gspen_ner.kernels import use_backend


def double_truth(theta, lengths):
    """The reference backend in float64 is itself checked against enumeration."""
    with use_backend("reference"):
        wide = theta.map(lambda tensor: tensor.double())
        return Chain(lengths).sums(wide)


def check(theta, lengths):
    log_z, marginals = Chain(lengths).sums(theta)
    true_z, truth = double_truth(theta, lengths)
    torch.testing.assert_close(log_z, true_z, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(marginals.nodes.double(), truth.nodes, rtol=0, atol=1e-4)
    scale = max(1.0, float(truth.edges.max()))
    torch.testing.assert_close(marginals.edges.double() / scale, truth.edges / scale, rtol=0, atol=1e-4)
    score, tags = Chain(lengths).viterbi(theta)
    torch.testing.assert_close(Chain(lengths).score(theta, tags), score, rtol=1e-6, atol=1e-4)
    with use_backend("reference"):
        best, _ = Chain(lengths).viterbi(theta)
    torch.testing.assert_close(score, best, rtol=1e-6, atol=1e-4)


pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.parametrize("batch", [2, 12])
@pytest.mark.parametrize("scale", [1.0, 30.0, 100.0, 1e3, 1e4])
@pytest.mark.parametrize("per_position", [False, True])
def test_scores_up_to_ten_thousand(batch, scale, per_position):
    edges = torch.empty(batch if per_position else 1, 19 if per_position else 1, 6, 6)
    theta = Parts(
        torch.empty(batch, 20, 6).uniform_(-scale, scale),
        edges.uniform_(-scale, scale),
    )
    check(theta, torch.randint(1, 21, (batch,)))


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("gap", [50.0, 95.0, 200.0, 900.0, 9000.0])
def test_the_future_overrules_the_past(batch, gap):
    """A label that looked hopeless by `gap` nats turns out to be the only one left."""
    nodes = torch.zeros(batch, 8, 3)
    nodes[:, :4, 0] = gap / 4  # labels 1 and 2 fall behind by `gap`
    edges = torch.full((3, 3), -torch.inf).fill_diagonal_(0.0)  # and nobody can change sides
    nodes[:, 7, 0] = -2 * gap
    nodes[:, 5, 2] = 1.0
    theta = Parts(nodes, edges)
    check(theta, torch.full((batch,), 8))
    torch.testing.assert_close(
        Chain(torch.full((batch,), 8)).marginals(theta).nodes[0, 0],
        torch.softmax(torch.tensor([-gap, 0.0, 1.0]), 0),
        atol=1e-4,
        rtol=0,
    )


@pytest.mark.parametrize("batch", [2, 9])
@pytest.mark.parametrize("offset", [14.0, -30.0, -70.0])
@pytest.mark.parametrize("gap", [40.0, 60.0, 90.0, 150.0])
def test_scores_that_are_exponentiated_as_they_are(batch, offset, gap):
    """Moderate maxima, wide spreads: what underflows early must not be missing later."""
    nodes = offset + torch.randn(batch, 12, 4)
    nodes[:, :6, 1:] -= gap / 6
    nodes[:, 6:, 0] -= gap / 3
    edges = torch.full((4, 4), -torch.inf).fill_diagonal_(14.0)
    check(Parts(nodes, edges), torch.full((batch,), 12))


@pytest.mark.parametrize("batch", [1, 9])
def test_the_first_position_underflows(batch):
    check(
        Parts(torch.tensor([[[-95.0, -96.0]]]).expand(batch, 1, 2), torch.zeros(2, 2)),
        torch.ones(batch).long(),
    )
    nodes = torch.tensor([[[-80.0, -110.0], [-60.0, 0.0]]]).expand(batch, 2, 2)
    edges = torch.full((2, 2), -torch.inf).fill_diagonal_(0.0)
    check(Parts(nodes, edges), torch.full((batch,), 2))
    longer = torch.nn.functional.pad(nodes, (0, 0, 0, 3))
    check(Parts(longer, edges), torch.randint(1, 6, (batch,)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_tiny_norms(dtype):
    nodes = torch.tensor([[500.0, -50, 1000], [500, -100, -100], [-100, -1, -1000]], dtype=dtype)
    first = torch.tensor([[-1, 1, -1000], [-0.4, 1, -100], [-500, -45, -50]], dtype=dtype)
    second = torch.tensor([[1.0, 1, -1000], [1000, -100, 500], [-50, -50, -100]], dtype=dtype)
    theta = Parts(nodes.expand(8, 3, 3), torch.stack([first, second])[None])
    check(theta, torch.full((8,), 3))


@pytest.mark.parametrize("batch", [1, 9])
def test_a_path_that_loses_two_scores_to_underflow(batch):
    """The best path needs a node and an edge that both underflow in double precision."""
    nodes = torch.tensor(
        [
            [-29.8, 30.5, -59.7, 100.9],
            [16.1, -torch.inf, 1000.4, -59.5],
            [100.5, -999.3, 1.3, -109.2],
            [-0.9, 30.8, 1.0, 1.9],
            [-999.5, 1.7, 500.7, 1.9],
        ]
    )
    edges = torch.tensor(
        [
            [1000.7, -109.3, 14.8, 1.9],
            [1.6, -0.5, -109.3, -499.1],
            [-29.9, 0.7, 500.4, -0.1],
            [-torch.inf, -94.6, 1.7, 0.9],
        ]
    )
    check(Parts(nodes.expand(batch, 5, 4), edges), torch.full((batch,), 5))


@pytest.mark.parametrize("batch", [3, 9])
@pytest.mark.parametrize("seed", range(40))
def test_wild_mixtures(batch, seed):
    """Scores from tiny to huge side by side."""
    random = torch.Generator().manual_seed(seed)
    values = torch.tensor([-1000.0, -500, -110, -95, -60, -30, -1, 0, 1, 14, 30, 100, 500])

    def draw(*shape):
        return values[torch.randint(0, len(values), shape, generator=random)] + torch.rand(
            *shape, generator=random
        )

    rows, positions = (batch, 4) if seed % 2 else (1, 1)
    lengths = torch.randint(1, 6, (batch,), generator=random)
    check(Parts(draw(batch, 5, 3), draw(rows, positions, 3, 3)), lengths)


@pytest.mark.parametrize("batch", [1, 10])
def test_masks_of_minus_ten_thousand(batch):
    """Flair's way of forbidding: large finite penalties in the table."""
    edges = torch.randn(5, 5)
    edges[0, :] = -10_000.0
    edges[:, 4] = -10_000.0
    check(Parts(torch.randn(batch, 30, 5), edges), torch.randint(1, 31, (batch,)))


@pytest.mark.parametrize("length", [1_000, 4_000])
def test_long_chains(length):
    check(Parts(torch.randn(2, length, 5), torch.randn(5, 5)), torch.tensor([length, length // 2]))


def test_long_chains_with_large_scores():
    nodes = torch.empty(1, 4_000, 4).uniform_(-1e4, 1e4)
    check(Parts(nodes, torch.empty(4, 4).uniform_(-1e4, 1e4)), torch.tensor([4_000]))


def test_roundings_of_a_shared_table_do_not_add_up():
    """Two labels that never mix: their odds are the ratio of two table entries to the power of 1,000."""
    edges = torch.tensor([[1.2345678, -torch.inf], [-torch.inf, 1.2345]])
    check(Parts(torch.zeros(8, 1_000, 2), edges), torch.full((8,), 1_000))


@pytest.mark.parametrize("batch", [1, 8])
def test_all_but_one_path_forbidden(batch):
    length, labels = 50, 4
    path = torch.randint(0, labels, (batch, length))
    nodes = torch.full((batch, length, labels), -torch.inf)
    nodes.scatter_(2, path[..., None], torch.randn(batch, length, 1) * 1e3)
    theta, chain = Parts(nodes, torch.randn(labels, labels)), Chain(torch.full((batch,), length))
    log_z, marginals = chain.sums(theta)
    torch.testing.assert_close(log_z, chain.score(theta, path), rtol=1e-6, atol=1e-3)
    torch.testing.assert_close(marginals.nodes, torch.nn.functional.one_hot(path, labels).float())
    assert (chain.argmax(theta) == path).all()
    assert chain.distribution_entropy(theta).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    nodes, edges = torch.randn(9, 12, 4).to(dtype), torch.randn(4, 4).to(dtype)
    lengths = torch.randint(1, 13, (9,))
    marginals = Chain(lengths).marginals(Parts(nodes, edges))
    expected = Chain(lengths).marginals(Parts(nodes.float(), edges.float()))
    assert marginals.nodes.dtype == torch.float32
    torch.testing.assert_close(marginals.nodes, expected.nodes)


def test_entropy_of_a_confident_chain_does_not_cancel():
    nodes = torch.zeros(1, 200, 3)
    nodes[..., 0] = 9.0
    entropy = Chain(torch.tensor([200])).distribution_entropy(Parts(nodes, torch.zeros(3, 3)))
    p = torch.softmax(nodes[0, 0].double(), 0)
    assert entropy.item() == pytest.approx(200 * float(-(p * p.log()).sum()), rel=1e-6)


def test_marginals_sum_to_one():
    marginals = Chain(torch.full((16,), 400)).marginals(Parts(5 * torch.randn(16, 400, 9), torch.randn(9, 9)))
    np.testing.assert_allclose(marginals.nodes.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(marginals.edges.sum((1, 2, 3)), 399.0, rtol=1e-5)
