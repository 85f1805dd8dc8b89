"""Terms over all regions of a graph: the paper's perceptron, and NLStruct's."""

import pytest
import torch

from gspen_ner import Chain, Context, GlobalTerm, Objective, Parts, RegionMLP
from gspen_ner.terms import TERMS, NLStruct

CONTEXT = Context(torch.ones(4, 3, dtype=torch.bool))


def parts(seed: int) -> Parts:
    random = torch.Generator().manual_seed(seed)
    nodes, edges = (
        torch.randn(*shape, generator=random, dtype=torch.float64) for shape in ((4, 3, 2), (4, 2, 2, 2))
    )
    return Parts(nodes, edges)


def marginals(seed: int) -> Parts:
    return Chain(torch.full((4,), 3)).marginals(parts(seed))


def randomise(term: GlobalTerm) -> GlobalTerm:
    for weight in term.parameters():
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(1))
    return term.double()


@pytest.mark.parametrize(
    ("name", "options"),
    [("region_mlp", {}), ("region_mlp", {"last_label_only": True}), ("nlstruct", {})],
    ids=["all", "last", "nlstruct"],
)
@pytest.mark.parametrize("num_edges", [0, 2])
def test_closed_form_gradients_are_those_of_autograd(name, options, num_edges):
    term = randomise(
        TERMS.make({"name": name, "hidden": 5, **options}, num_labels=2, num_nodes=3, num_edges=num_edges)
    )
    f, p = parts(2), marginals(3)
    if not num_edges:
        f, p = Parts(f.nodes), Parts(p.nodes)
    value, grad = term.value_and_grad(f, p, CONTEXT)
    expected_value, expected = GlobalTerm.value_and_grad(term, f, p, CONTEXT)
    torch.testing.assert_close(value, expected_value)
    assert (grad.edges is None) == (expected.edges is None) == (not num_edges)
    for mine, its in zip(grad.tensors(), expected.tensors(), strict=True):
        torch.testing.assert_close(mine, its)


def test_a_new_region_mlp_is_zero_and_reads_what_it_is_told():
    f, p = parts(2), marginals(3)
    assert (RegionMLP(2, 3, 2).double()(f, p, CONTEXT) == 0).all()
    both = randomise(RegionMLP(2, 3, 2))
    blind = randomise(RegionMLP(2, 3, 2, read_potentials=False))
    assert not torch.equal(both(f, p, CONTEXT), both(parts(9), p, CONTEXT))
    assert torch.equal(blind(f, p, CONTEXT), blind(parts(9), p, CONTEXT))


def test_a_region_mlp_of_another_size_says_so():
    with pytest.raises(ValueError, match="needs 24 inputs, got 20: nodes"):
        RegionMLP(2, 5, 1).double()(parts(2), marginals(3), CONTEXT)
    with pytest.raises(ValueError, match="needs edge marginals"):
        RegionMLP(2, 3, 2).double()(parts(2), Parts(marginals(3).nodes), CONTEXT)


def test_with_nlstruct_the_objective_is_the_transformed_score_alone():
    term = randomise(NLStruct(2, 3, 2))
    f, p = parts(2), marginals(3)
    objective = Objective(f, Chain(torch.full((4,), 3)), term, CONTEXT, temperature=0.0)
    whole = objective.linear.dot(p) + objective.term_value(p)
    collected = torch.cat([(f.nodes * p.nodes).flatten(1), (f.edges * p.edges).flatten(1)], 1)
    torch.testing.assert_close(whole, term.mlp(collected))


def test_nlstruct_starts_as_a_sum():
    f, p = parts(2), marginals(3)
    collected = torch.cat([(f.nodes * p.nodes).flatten(1), (f.edges * p.edges).flatten(1)], 1)
    expected = torch.nn.functional.softplus(collected).sum(1)
    term = NLStruct(2, 3, 2).double()
    torch.testing.assert_close(term.mlp(collected), expected)


def test_forbidden_entries_collect_nothing():
    term = randomise(NLStruct(2, 3, 2))
    f, p = parts(2), marginals(3)
    forbidden = Parts(f.nodes.clone(), f.edges.clone())
    forbidden.nodes[:, 0, 0] = -torch.inf
    value, grad = term.value_and_grad(forbidden, p, CONTEXT)
    assert torch.isfinite(value).all()
    assert all(torch.isfinite(part).all() for part in grad.tensors())
    assert (grad.nodes[:, 0, 0] == 0).all()


def test_a_region_mlp_may_read_the_last_label_alone():
    f, p = parts(2), marginals(3)
    term = randomise(RegionMLP(2, 3, read_potentials=False, last_label_only=True))
    other = Parts(torch.stack([p.nodes[..., 0] + 1, p.nodes[..., 1]], -1))
    assert torch.equal(term(f, Parts(p.nodes), CONTEXT), term(f, other, CONTEXT))
    other = Parts(torch.stack([p.nodes[..., 0], p.nodes[..., 1] + 1], -1))
    assert not torch.equal(term(f, Parts(p.nodes), CONTEXT), term(f, other, CONTEXT))
