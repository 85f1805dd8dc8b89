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


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"nodes must be \[batch, nodes, labels\], got \[3, 4\]"):
        Parts(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"edges must be \[4, 4\] or"):
        Parts(torch.zeros(2, 3, 4), torch.zeros(3, 2, 4, 4))
