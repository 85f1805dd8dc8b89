"""Losses: the envelope gradient, the collapse to a CRF, documents, and what is refused."""

import pytest
import torch

from gspen_ner import (
    Chain,
    Context,
    DocumentConsistency,
    MirrorDescent,
    Objective,
    PaddedMLP,
    Parts,
    Simplex,
    solve,
)
from gspen_ner.losses import (
    fixed_point_f1,
    fixed_point_likelihood,
    linear_hinge,
    negative_log_likelihood,
    positive_part,
    structured_hinge,
)
from gspen_ner.objective import hamming_cost
from tests.solvers.problems import LABELS, LENGTHS, Concave, random_mlp

GOLD = torch.tensor([[0, 1, 2, -1], [2, 2, -1, -1], [1, 0, 0, 2], [0, -1, -1, -1]])
CHAIN = Chain(LENGTHS)


def potentials(dtype=torch.float64, requires_grad=True):
    random = torch.Generator().manual_seed(8)
    nodes = torch.randn(4, 4, LABELS, generator=random, dtype=torch.float64).to(dtype)
    edges = torch.randn(LABELS, LABELS, generator=random, dtype=torch.float64).to(dtype)
    return Parts(nodes.requires_grad_(requires_grad), edges.requires_grad_(requires_grad))


def problem(term, f, temperature=1.0, cost=0.0):
    added = hamming_cost(CHAIN.vertex(GOLD, f), cost) if cost else None
    return Objective(f, CHAIN, term, Context.of_lengths(LENGTHS, 4), temperature, added)


def solved(objective):
    return solve(objective, MirrorDescent(), max_steps=400, tolerance=1e-11)


@pytest.mark.parametrize("loss", [structured_hinge, fixed_point_likelihood])
@pytest.mark.parametrize("term", [None, PaddedMLP(LABELS, 4).double()], ids=["no term", "zero term"])
def test_without_term_and_cost_it_is_the_crf_likelihood(loss, term):
    f = potentials()
    objective = problem(term, f)
    value = loss(objective, solved(objective), GOLD)
    expected = negative_log_likelihood(f, CHAIN, GOLD)
    torch.testing.assert_close(value, expected)
    grads = torch.autograd.grad(value.sum(), (f.nodes, f.edges))
    for actual, true in zip(grads, torch.autograd.grad(expected.sum(), (f.nodes, f.edges)), strict=True):
        torch.testing.assert_close(actual, true, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("cost", [0.0, 1.5])
def test_the_hinge_gradient_is_that_of_the_maximum(temperature, cost):
    """Finite differences of the whole loss, inference included, agree with the envelope's gradient."""
    term = Concave(0.7)
    f = potentials()

    def loss(nodes, edges):
        objective = problem(term, Parts(nodes, edges), temperature, cost)
        return structured_hinge(objective, solved(objective), GOLD)

    assert torch.autograd.gradcheck(loss, (f.nodes, f.edges[0, 0]), eps=1e-5, atol=1e-4, fast_mode=True)


def test_the_hinge_gradient_in_the_terms_parameters():
    term, f = random_mlp(0.4), potentials(requires_grad=False)

    def value():
        objective = problem(term, f, cost=1.0)
        return structured_hinge(objective, solved(objective), GOLD).sum()

    value().backward()
    weight = term.output.weight
    for index in (0, 5):
        with torch.no_grad():
            weight[0, index] += 1e-5
            above = value()
            weight[0, index] -= 2e-5
            below = value()
            weight[0, index] += 1e-5
        assert weight.grad[0, index].item() == pytest.approx(((above - below) / 2e-5).item(), abs=1e-4)


def test_hamming_cost_counts_wrong_labels():
    f = potentials()
    cost = hamming_cost(CHAIN.vertex(GOLD, f), 2.0)
    assert cost.dot(CHAIN.vertex(GOLD, f)).tolist() == [0.0] * 4
    wrong = torch.where(GOLD >= 0, (GOLD + 1) % LABELS, GOLD)
    assert cost.dot(CHAIN.vertex(wrong, f)).tolist() == (2.0 * LENGTHS).tolist()


def test_loss_augmented_inference_wants_a_margin():
    f = potentials()
    plain, augmented = (problem(Concave(0.5), f, cost=cost) for cost in (0.0, 1.0))
    loss = structured_hinge(plain, solved(plain), GOLD)
    with_margin = structured_hinge(augmented, solved(augmented), GOLD)
    assert (with_margin > loss).all()


def test_positive_part_drops_negative_examples():
    f = potentials()
    objective = problem(None, f)
    loss = torch.tensor([1.0, -2.0, 0.5, -0.1], requires_grad=True)
    clipped = positive_part(objective, loss)
    assert clipped.tolist() == [1.0, 0.0, 0.5, 0.0]
    clipped.sum().backward()
    assert loss.grad.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_positive_part_of_a_document_is_that_of_its_sum():
    context = Context(CHAIN.mask(4), torch.tensor([0, 0, 1, 1]), torch.full((4, 4, 1), -1))
    objective = Objective(potentials(), CHAIN, DocumentConsistency(LABELS, ["word"]), context)
    loss = torch.tensor([3.0, -2.0, 1.0, -4.0])
    assert positive_part(objective, loss).tolist() == [3.0, -2.0, 0.0, 0.0]


def test_fixed_point_likelihood_is_convex_in_the_document_terms_matrices():
    """At fixed marginals the loss along any line through parameter space is convex."""
    context = Context(CHAIN.mask(4), torch.tensor([0, 0, 0, 0]), torch.tensor([[[0], [1], [0], [1]]] * 4))
    term = DocumentConsistency(LABELS, ["word"]).double()
    f = potentials(requires_grad=False)
    objective = Objective(f, CHAIN, term, context)
    solution = solve(objective, MirrorDescent(), max_steps=3)
    direction = torch.randn(2, LABELS, LABELS, dtype=torch.float64)
    values = []
    for step in torch.linspace(-2, 2, 9):
        with torch.no_grad():
            term.agreement.copy_(step * direction[0])
            term.support.copy_(step * direction[1])
        values.append(fixed_point_likelihood(objective, solution, GOLD).sum().item())
    assert (torch.tensor(values).diff().diff() >= -1e-9).all()
    fixed_point_likelihood(objective, solution, GOLD).sum().backward()
    assert term.agreement.grad.abs().sum() > 0


def test_forbidden_gold_labels_are_named():
    f = potentials(requires_grad=False)
    edges = f.edges.clone()
    edges[..., 2, 2] = -torch.inf
    f = Parts(f.nodes, edges)
    objective = problem(None, f)
    for loss in (
        lambda: negative_log_likelihood(f, CHAIN, GOLD),
        lambda: structured_hinge(objective, solved(objective), GOLD),
        lambda: fixed_point_likelihood(objective, solved(objective), GOLD),
    ):
        with pytest.raises(ValueError, match="row 1: the gold labels contain a forbidden label"):
            loss()


def test_fixed_point_likelihood_needs_entropy():
    objective = problem(None, potentials(), temperature=0.0)
    with pytest.raises(ValueError, match="positive temperature"):
        fixed_point_likelihood(objective, solve(objective, MirrorDescent(), max_steps=1), GOLD)


def test_the_linear_hinge_without_cost_is_the_likelihood():
    f, same = potentials(), potentials()
    losses = linear_hinge(f, CHAIN, GOLD, temperature=1.0, cost=0.0)
    expected = negative_log_likelihood(same, CHAIN, GOLD)
    torch.testing.assert_close(losses, expected)
    losses.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(f.nodes.grad, same.nodes.grad)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_linear_hinge_is_the_structured_one_without_a_term(temperature):
    f = potentials()
    objective = problem(None, f, temperature, cost=2.0)
    expected = structured_hinge(objective, solved(objective), GOLD)
    torch.testing.assert_close(linear_hinge(f, CHAIN, GOLD, temperature, 2.0), expected)


def test_without_temperature_the_linear_hinge_is_the_svm_s():
    f = potentials()
    theta = f + hamming_cost(CHAIN.vertex(GOLD, f))
    best = CHAIN.argmax(theta)
    losses = linear_hinge(f, CHAIN, GOLD, temperature=0.0)
    torch.testing.assert_close(losses, CHAIN.score(theta, best) - CHAIN.score(f, GOLD))
    assert (losses >= 0).all()
    losses.sum().backward()
    expected = CHAIN.vertex(best, f) - CHAIN.vertex(GOLD, f)
    torch.testing.assert_close(f.nodes.grad, expected.nodes)


def test_the_f1_at_the_fixed_point_and_its_gradient_are_those_of_the_marginals():
    torch.manual_seed(2)
    mask, gold = torch.ones(3, 4, dtype=torch.bool), torch.randint(0, 3, (3, 4))
    nodes = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    objective = Objective(Parts(nodes), Simplex(mask), None, Context(mask), temperature=0.5)
    loss = fixed_point_f1(objective, solve(objective.detach(), MirrorDescent()), gold)
    actual, right = (nodes / 0.5).softmax(-1)[..., 1:], torch.nn.functional.one_hot(gold, 3)[..., 1:]
    expected = 1 - 2 * (actual * right).sum((1, 2)) / (actual.sum((1, 2)) + right.sum((1, 2)))
    torch.testing.assert_close(loss, expected)
    (mine,), (exact,) = (torch.autograd.grad(value.sum(), nodes) for value in (loss, expected))
    torch.testing.assert_close(mine, exact, atol=2e-3, rtol=0)  # a difference, not a limit
    assert exact.abs().max() > 0.1


def test_the_f1_at_the_fixed_point_needs_entropy():
    mask = torch.ones(1, 2, dtype=torch.bool)
    objective = Objective(Parts(torch.zeros(1, 2, 2)), Simplex(mask), None, Context(mask), temperature=0.0)
    with pytest.raises(ValueError, match="positive temperature"):
        fixed_point_f1(objective, solve(objective, MirrorDescent(), max_steps=1), torch.tensor([[0, 1]]))
