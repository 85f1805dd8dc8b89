"""The head: it collapses to its base model, trains, and decodes."""

import pytest
import torch

from gspen_ner import (
    Chain,
    Context,
    Convolution,
    DocumentConsistency,
    FrankWolfe,
    GSPENHead,
    LinearChainCRF,
    PaddedMLP,
    Simplex,
    match_mentions,
)
from gspen_ner.head import make_head

LABELS = 4


def base(batch=6, length=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, length + 1, (batch,), generator=random)
    emissions = 2 * torch.randn(batch, length, LABELS, generator=random)
    crf = LinearChainCRF(LABELS, batch_first=True)
    torch.nn.init.normal_(crf.transitions)
    mask = torch.arange(length) < lengths[:, None]
    tags = torch.randint(0, LABELS, (batch, length), generator=random)
    return crf, emissions, mask, tags


@pytest.mark.parametrize("loss", ["hinge", "fixed_point"])
def test_a_new_head_is_its_crf(loss):
    crf, emissions, mask, tags = base()
    head = GSPENHead(PaddedMLP(LABELS, 6), cost=0.0, loss=loss)
    potentials, chain = crf.potentials(emissions, mask)
    solution = head.infer(potentials, chain)
    torch.testing.assert_close(solution.marginals.nodes, crf.marginals(emissions, mask))
    assert head.decode(potentials, chain) == crf.decode(emissions, mask)
    likelihood = crf(emissions, tags, mask, reduction="none")
    actual = head.loss(potentials, chain, tags)
    torch.testing.assert_close(actual.loss.float(), -likelihood, atol=1e-4, rtol=1e-5)
    assert not actual.negative.any()


def test_on_the_simplex_it_is_a_spen_and_starts_as_the_unary_model():
    crf, emissions, mask, _ = base()
    potentials, _ = crf.potentials(emissions, mask)
    head = GSPENHead(PaddedMLP(LABELS, 8))
    labels = head.decode(potentials, Simplex(mask))
    best = potentials.nodes.argmax(-1)
    assert labels == [best[row, : mask[row].sum()].tolist() for row in range(len(mask))]


TERMS = {
    "padded mlp": lambda: PaddedMLP(LABELS, 8, hidden=32, dropout=0.3),
    "counts": lambda: PaddedMLP(LABELS, 8, hidden=32, edge_inputs="counts", read_potentials=True),
    "edges": lambda: PaddedMLP(LABELS, 8, hidden=16, edge_inputs="positions"),
    "convolution": lambda: Convolution(LABELS, hidden=16, width=3),
    "sum": lambda: PaddedMLP(LABELS, 8, hidden=16, dropout=0.2) + Convolution(LABELS, hidden=8, width=3),
}


@pytest.mark.parametrize("loss", ["hinge", "fixed_point"])
@pytest.mark.parametrize("name", TERMS)
def test_training_the_term_alone_lowers_the_loss(name, loss):
    crf, emissions, mask, _ = base(batch=24)
    tags = torch.zeros(mask.shape, dtype=torch.int64)
    tags[:, ::2] = 1  # a pattern that the random base model does not know
    head = GSPENHead(TERMS[name](), loss=loss, max_steps=6)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
    potentials, chain = crf.potentials(emissions, mask)
    potentials = potentials.detach()
    losses = []
    for _ in range(25):
        value = head.loss(potentials, chain, tags).loss.mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses[-1] < 0.8 * losses[0]


def test_training_everything_reaches_the_base_model():
    crf, emissions, mask, tags = base()
    emissions.requires_grad_()
    head = GSPENHead(PaddedMLP(LABELS, 8, hidden=8))
    torch.nn.init.normal_(head.term.output.weight)
    head.loss(*crf.potentials(emissions, mask), tags).loss.sum().backward()
    assert emissions.grad.abs().sum() > 0
    assert crf.transitions.grad.abs().sum() > 0
    assert crf.start_transitions.grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_dropout_is_on_in_training_and_the_same_in_inference_and_loss():
    crf, emissions, mask, tags = base()
    head = GSPENHead(PaddedMLP(LABELS, 8, hidden=8, dropout=0.5), tolerance=1e-7, max_steps=100)
    torch.nn.init.normal_(head.term.output.weight, std=0.3)
    potentials, chain = crf.potentials(emissions, mask)
    losses = torch.stack([head.loss(potentials, chain, tags).loss for _ in range(8)])
    assert losses.std(0).min() > 0
    # gold is feasible for the very function that was maximised, so converged losses are not negative
    assert (losses >= -1e-5).all()
    head.eval()
    again = [head.loss(potentials, chain, tags).loss for _ in range(2)]
    torch.testing.assert_close(again[0], again[1])


def test_a_document_mends_an_ambiguous_mention():
    sentences = [["Paris", "won"], ["Paris", "lost"], ["Paris", "slept"]]
    mentions = match_mentions(sentences, [0, 0, 1])
    lengths = torch.tensor([2, 2, 2])
    nodes = torch.zeros(3, 2, 2)
    nodes[0, 0] = torch.tensor([0.0, 4.0])  # clear
    nodes[1, 0] = torch.tensor([0.5, 0.0])  # leans the other way
    nodes[2, 0] = torch.tensor([0.5, 0.0])  # the same, but alone in its document
    chain = Chain(lengths)
    potentials = chain.potentials(nodes, torch.zeros(2, 2))
    context = Context(chain.mask(2), torch.tensor([0, 0, 1]), mentions)
    head = GSPENHead(DocumentConsistency(2))
    assert [labels[0] for labels in head.decode(potentials, chain, context)] == [1, 0, 0]
    with torch.no_grad():
        head.term.agreement.copy_(2.0 * torch.eye(2))
    assert [labels[0] for labels in head.decode(potentials, chain, context)] == [1, 1, 0]


def test_other_solvers_and_the_papers_settings():
    crf, emissions, mask, tags = base()
    potentials, chain = crf.potentials(emissions, mask)
    term = PaddedMLP(LABELS, 8, hidden=8)
    torch.nn.init.normal_(term.output.weight)
    frank_wolfe = GSPENHead(term, FrankWolfe("harmonic"), temperature=0.0, stop="change", tolerance=0.1)
    assert [len(labels) for labels in frank_wolfe.decode(potentials, chain)] == mask.sum(1).tolist()
    actual = frank_wolfe.loss(potentials, chain, tags)
    assert (actual.loss >= 0).all()
    assert torch.isfinite(actual.loss).all()


def test_negative_losses_are_reported_and_cut_off_on_demand():
    crf, emissions, mask, _ = base()
    potentials, chain = crf.potentials(emissions, mask)
    gold = chain.argmax(potentials)
    settings = {"temperature": 0.0, "cost": 0.0, "max_steps": 0}
    kept = GSPENHead(PaddedMLP(LABELS, 8), **settings, positive_part=False).loss(potentials, chain, gold)
    assert kept.negative.all()  # the start lies below the best labelling
    assert (kept.loss < 0).all()
    cut = GSPENHead(PaddedMLP(LABELS, 8), **settings).loss(potentials, chain, gold)
    assert cut.negative.all()
    assert (cut.loss == 0).all()


def test_masks_with_gaps():
    crf, emissions, _, tags = base(batch=2, length=5)
    mask = torch.tensor([[False, True, False, True, True], [True, True, True, False, True]])
    potentials, chain = crf.potentials(emissions, mask)
    head = GSPENHead(PaddedMLP(LABELS, 8), cost=0.0)
    loss = head.loss(potentials, chain, crf.pack(tags, mask)).loss
    torch.testing.assert_close(loss.float(), -crf(emissions, tags, mask, "none"), atol=1e-4, rtol=1e-5)
    sideways = LinearChainCRF(LABELS)
    sideways.load_state_dict(crf.state_dict())
    packed = sideways.pack(tags.mT, mask.mT)
    torch.testing.assert_close(packed, crf.pack(tags, mask))


def test_gaps_on_the_simplex():
    mask = torch.tensor([[False, True, False, True]])
    potentials = LinearChainCRF(LABELS, batch_first=True).potentials(torch.randn(1, 4, LABELS))[0]
    head = GSPENHead(PaddedMLP(LABELS, 2, hidden=3))
    torch.nn.init.normal_(head.term.output.weight)
    best = potentials.nodes[0].argmax(-1)
    assert GSPENHead(PaddedMLP(LABELS, 2)).decode(potentials, Simplex(mask)) == [
        [best[1].item(), best[3].item()]
    ]
    marginals = Simplex(mask).marginals(potentials)
    assert head.term(potentials, marginals, Context(mask)).item() != 0


@pytest.mark.parametrize("loss", ["hinge", "fixed_point"])
def test_losses_under_inference_mode(loss):
    crf, emissions, mask, tags = base()
    head = GSPENHead(PaddedMLP(LABELS, 8, hidden=8), loss=loss).eval()
    torch.nn.init.normal_(head.term.output.weight)
    expected = head.loss(*crf.potentials(emissions, mask), tags).loss
    with torch.inference_mode():
        fresh = emissions.clone()
        torch.testing.assert_close(head.loss(*crf.potentials(fresh, mask), tags).loss, expected.detach())


def test_half_precision_potentials():
    crf, emissions, mask, tags = base()
    head = GSPENHead(PaddedMLP(LABELS, 8, hidden=8))
    torch.nn.init.normal_(head.term.output.weight)
    potentials, chain = crf.potentials(emissions.bfloat16(), mask)
    head.loss(potentials, chain, tags).loss.sum().backward()
    assert crf.transitions.grad.abs().sum() > 0


def test_unknown_loss():
    with pytest.raises(ValueError, match=r"cost must be at least 0, got -1\.0"):
        GSPENHead(PaddedMLP(3, 4), cost=-1.0)
    with pytest.raises(ValueError, match=r'loss must be "hinge", .*, got .log.'):
        GSPENHead(PaddedMLP(3, 4), loss="log")


@pytest.mark.parametrize("inference", [{"cost": 0.0}, {"solver": {"name": "frank_wolfe"}, "max_steps": 3}])
def test_a_head_without_a_term_is_made_from_its_configuration(inference):
    head = make_head([], inference)
    assert head.term is None
    configuration = head.configuration()
    assert configuration["terms"] == []
    assert make_head(**configuration).configuration() == configuration
