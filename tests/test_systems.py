"""The five systems: what each becomes when a part of it says nothing."""

import pytest
import torch
from gspen_ner.scorers.pair_tables import PairTables
from torch import nn

from gspen_ner import Chain, GSPENHead, Parts, RegionMLP, Simplex
from gspen_ner.systems import GraphSystem, UnarySystem
from gspen_ner.terms import NLStruct
from recipes.ocr.letter_net import LetterNet
from recipes.studies.feature_net import FeatureNet, PairNet

NODES, LABELS = 4, 3


def over_chain(batch):
    return Chain(torch.full((batch,), NODES))


def over_nodes(batch):
    return Simplex(torch.ones(batch, NODES, dtype=torch.bool))


@pytest.fixture
def pairs():
    tables = PairTables(NODES - 1, LABELS)
    nn.init.normal_(tables.tables, generator=torch.Generator().manual_seed(3))
    return tables


@pytest.fixture
def scores():
    return torch.randn(6, NODES, LABELS, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def labels():
    return torch.randint(0, LABELS, (6, NODES), generator=torch.Generator().manual_seed(5))


def test_unary_learns_by_cross_entropy(labels):
    images = torch.randint(0, 256, (6, NODES, 28, 28), dtype=torch.uint8)
    unary = UnarySystem(LetterNet(LABELS, hidden=8, dropout=0.0))
    expected = -unary.scores(images).log_softmax(-1).gather(-1, labels[..., None]).mean()
    torch.testing.assert_close(unary(images, labels).loss, expected)
    assert (unary.predict(images) == unary.scores(images).argmax(-1)).all()


def test_struct_without_tables_is_unary(scores):
    assert (GraphSystem(over_chain, PairTables(NODES - 1, LABELS)).predict(scores) == scores.argmax(-1)).all()


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_gspen_with_a_new_term_is_struct(pairs, scores, labels, temperature):
    struct = GraphSystem(over_chain, pairs, temperature=temperature)
    head = GSPENHead(
        RegionMLP(LABELS, NODES, NODES - 1), temperature=temperature, max_steps=200, tolerance=1e-3
    )
    gspen = GraphSystem(over_chain, pairs, head)
    assert (gspen.predict(scores) == struct.predict(scores)).all()
    close = 1e-5 if temperature else 0.02  # without entropy, mirror descent only nears the best labelling
    torch.testing.assert_close(gspen(scores, labels).loss, struct(scores, labels).loss, atol=close, rtol=0)


def test_gspen_without_tables_is_spen(scores, labels):
    term = RegionMLP(LABELS, NODES)
    nn.init.normal_(term.mlp.output.weight, generator=torch.Generator().manual_seed(6))
    spen = GraphSystem(over_nodes, head=GSPENHead(term))
    gspen = GraphSystem(over_chain, PairTables(NODES - 1, LABELS), GSPENHead(term))
    torch.testing.assert_close(spen(scores, labels).loss, gspen(scores, labels).loss, atol=1e-5, rtol=1e-5)
    assert (spen.predict(scores) == gspen.predict(scores)).all()


@pytest.mark.parametrize(
    "term", [RegionMLP(LABELS, NODES, NODES - 1, hidden=5), NLStruct(LABELS, NODES, NODES - 1)]
)
def test_a_term_learns_over_frozen_tables(pairs, scores, labels, term):
    for weight in pairs.parameters():
        weight.requires_grad_(False)
    system = GraphSystem(over_chain, pairs, GSPENHead(term))
    learned = [weight for weight in system.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(learned, 0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = system(scores, labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    "net",
    [
        FeatureNet(num_features=200, num_nodes=5, input_dropout=0.0, hidden_dropout=0.0, flips=0.5),
        PairNet(num_features=200, num_edges=5, hidden=8, flips=0.5),
        PairNet(num_features=200, num_edges=5, hidden=8, input_dropout=0.5),
    ],
)
def test_features_are_flipped_and_dropped_in_training_only(net):
    if isinstance(net, PairNet):
        assert not net(torch.ones(4, 200)).any()
        nn.init.normal_(net.tables.weight)
    features = torch.randint(2, (4, 200), dtype=torch.uint8)
    assert not torch.equal(net.train()(features), net(features))
    assert torch.equal(net.eval()(features), net(features))


def test_no_is_worth_nothing():
    scores = FeatureNet(num_features=20, num_nodes=5)(torch.ones(4, 20))
    assert (scores[..., 0] == 0).all()
    assert (scores[..., 1] != 0).all()


def test_parts_that_learn_nothing_have_no_dropout(labels):
    scorer = nn.Sequential(nn.Dropout(0.5), nn.Linear(7, NODES * LABELS), nn.Unflatten(1, (NODES, LABELS)))
    system = GraphSystem(over_chain, PairNet(7, NODES - 1, LABELS, hidden=4), scorer=scorer).train()
    inputs = torch.randn(6, 7)
    assert system(inputs, labels).loss != system(inputs, labels).loss
    scorer.requires_grad_(False)
    system.train()
    assert system.pairs.training
    assert system(inputs, labels).loss == system(inputs, labels).loss
    system.draws = True
    system.train()
    assert system(inputs, labels).loss != system(inputs, labels).loss
    system.eval()
    assert system(inputs, labels).loss == system(inputs, labels).loss


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_marginals_are_those_of_the_temperature(scores, pairs, temperature):
    system = GraphSystem(over_chain, pairs, temperature=temperature)
    found = system.marginals(scores)
    expected = over_chain(6).marginals(system.potentials(scores) * (1 / temperature)).nodes
    torch.testing.assert_close(found, expected)
    unary = UnarySystem(nn.Identity()).marginals(scores)
    torch.testing.assert_close(unary, over_nodes(6).marginals(Parts(scores)).nodes)
