import pytest
import torch

from gspen_ner import Parts


def random_parts(edges=(2, 3, 4, 4)):
    return Parts(torch.randn(2, 4, 4), None if edges is None else torch.randn(*edges))


def test_sums_and_multiples():
    a, b = random_parts(), random_parts((1, 1, 4, 4))
    combined = a * 2.0 + b - a
    torch.testing.assert_close(combined.nodes, a.nodes + b.nodes)
    torch.testing.assert_close(combined.edges, a.edges + b.edges)
    each = a * torch.tensor([1.0, 3.0])
    torch.testing.assert_close(each.nodes[1], 3 * a.nodes[1])
    torch.testing.assert_close(each.edges[1], 3 * a.edges[1])


def test_missing_edges_are_zeros():
    a, none = random_parts(), random_parts(None)
    torch.testing.assert_close((a + none).edges, a.edges)
    torch.testing.assert_close((none - a).edges, -a.edges)
    assert (none + none).edges is None


def test_inner_product_of_a_shared_table_and_counts():
    table = Parts(torch.randn(2, 4, 3), torch.randn(3, 3))
    labels = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 0]])
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    counts = Parts.one_hot(labels, mask, 3)
    spelt_out = Parts.one_hot(labels, mask, 3, per_position=True)
    torch.testing.assert_close(counts.edges, spelt_out.edges.sum(1, keepdim=True))
    by_hand = sum(table.nodes[0, t, y] for t, y in enumerate([0, 1, 2, 0]))
    by_hand = by_hand + table.edges[0, 0, 0, 1] + table.edges[0, 0, 1, 2] + table.edges[0, 0, 2, 0]
    assert table.dot(counts)[0] == pytest.approx(by_hand.item(), abs=1e-5)
    torch.testing.assert_close(table.dot(counts), table.dot(spelt_out))


def test_forbidden_things_that_do_not_happen_cost_nothing():
    scores = Parts(torch.tensor([[[1.0, -torch.inf]]], requires_grad=True))
    value = scores.dot(Parts(torch.tensor([[[1.0, 0.0]]])))
    assert value.item() == 1.0
    value.sum().backward()
    assert scores.nodes.grad.tolist() == [[[1.0, 0.0]]]
    assert scores.dot(Parts(torch.tensor([[[0.5, 0.5]]]))).item() == -torch.inf


def test_rows_can_be_taken_out_mixed_and_put_back():
    a, b = random_parts(), random_parts()
    rows = torch.tensor([1])
    torch.testing.assert_close(a.select(rows).nodes, a.nodes[1:])
    assert random_parts((1, 1, 4, 4)).select(rows).edges.shape == (1, 1, 4, 4)
    merged = a.merge(rows, b.select(rows))
    torch.testing.assert_close(merged.edges, torch.stack([a.edges[0], b.edges[1]]))
    mixed = a.where(torch.tensor([True, False]), b)
    torch.testing.assert_close(mixed.nodes, merged.nodes)


def with_factors(rows=2):
    return Parts(torch.randn(2, 4, 3), torch.randn(2, 5, 3, 3), torch.randn(rows, 27))


def test_factors_add_and_scale_like_the_rest():
    a, shared, none = with_factors(), with_factors(rows=1), Parts(torch.randn(2, 4, 3))
    torch.testing.assert_close((a * 2.0 + shared - a).factors, a.factors + shared.factors)
    each = a * torch.tensor([1.0, 3.0])
    torch.testing.assert_close(each.factors, torch.stack([a.factors[0], 3 * a.factors[1]]))
    torch.testing.assert_close((a + none).factors, a.factors)
    torch.testing.assert_close((none - a).factors, -a.factors)
    assert (none + none).factors is None


def test_factors_count_in_inner_products():
    a, b, shared = with_factors(), with_factors(), with_factors(rows=1)
    nodes_and_edges = Parts(a.nodes, a.edges).dot(Parts(b.nodes, b.edges))
    expected = nodes_and_edges + (a.factors * b.factors).sum(1).double()
    torch.testing.assert_close(a.dot(b), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(a.inner(b), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(a.dot(Parts(b.nodes, b.edges)), nodes_and_edges)
    torch.testing.assert_close(a.inner(Parts(b.nodes, b.edges)), nodes_and_edges, atol=1e-4, rtol=0)
    spelt_out = Parts(shared.nodes, shared.edges, shared.factors.expand(2, -1))
    torch.testing.assert_close(shared.dot(b), spelt_out.dot(b))
    torch.testing.assert_close(shared.inner(b), spelt_out.inner(b))


def test_forbidden_entries_of_factors_that_do_not_happen_cost_nothing():
    zeros, scores = torch.zeros(1, 1, 2), torch.tensor([[1.0, -torch.inf]])
    assert Parts(zeros, factors=scores).dot(Parts(zeros, factors=torch.tensor([[1.0, 0.0]]))).item() == 1.0
    mixed = Parts(zeros, factors=torch.tensor([[0.5, 0.5]]))
    assert Parts(zeros, factors=scores).dot(mixed).item() == -torch.inf


def test_factors_of_some_rows():
    a, b = with_factors(), with_factors()
    rows = torch.tensor([1])
    torch.testing.assert_close(a.select(rows).factors, a.factors[1:])
    assert with_factors(rows=1).select(torch.tensor([1, 0, 1])).factors.shape == (1, 27)
    expected = torch.stack([a.factors[0], b.factors[1]])
    torch.testing.assert_close(a.merge(rows, b.select(rows)).factors, expected)
    torch.testing.assert_close(a.where(torch.tensor([True, False]), b).factors, expected)
    assert a.where(torch.tensor([True, False]), Parts(b.nodes)).factors is None


def test_all_parts_in_order():
    a = with_factors()
    assert [tensor.dim() for tensor in a.tensors()] == [3, 4, 2]
    assert [tensor.dim() for tensor in Parts(a.nodes, factors=a.factors).tensors()] == [3, 2]
    for before, after in zip(a.tensors(), a.map(torch.exp).tensors(), strict=True):
        torch.testing.assert_close(after, before.exp())
    tracked = a.map(lambda tensor: tensor.requires_grad_())
    assert not any(tensor.requires_grad for tensor in tracked.detach().tensors())


@pytest.mark.parametrize("shape", [(3, 5), (5,), (2, 5, 1), (0, 5)], ids=str)
def test_factors_of_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"factors must be \[2 or 1, entries\], got"):
        Parts(torch.zeros(2, 3, 4), factors=torch.zeros(shape))


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"nodes must be \[batch, nodes, labels\], got \[3, 4\]"):
        Parts(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"edges must be \[4, 4\] or"):
        Parts(torch.zeros(2, 3, 4), torch.zeros(3, 2, 4, 4))
