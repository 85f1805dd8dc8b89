"""System: its losses and predictions against enumeration, what it becomes without a part, freezing."""

import itertools
import logging

import pytest
import torch
from torch import nn

from gspen_ner import Chain, DocumentConsistency, GSPENHead, Parts, RegionMLP, Simplex, System
from gspen_ner.scorers.graph import GraphScorer, PairTables
from gspen_ner.terms import NLStruct
from gspen_ner.terms.mentions import RELATIONS
from gspen_ner.training import Scored

NODES, LABELS = 4, 3
ALL = torch.tensor(list(itertools.product(range(LABELS), repeat=NODES)))


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


def struct_of(pairs, **options):
    return System(GraphScorer(over_chain, pairs=pairs), GSPENHead(**options))


def score_of_all(scores, pairs):
    """Return the score of each of the 81 labellings of each example, by sums."""
    nodes = scores.double()[:, torch.arange(NODES), ALL].sum(-1)
    edges = pairs.tables.double()[torch.arange(NODES - 1), ALL[:, :-1], ALL[:, 1:]].sum(-1)
    return nodes + edges


class TestStruct:
    """Systems without a term, against enumeration."""

    @pytest.mark.parametrize(("temperature", "cost"), [(1.0, 0.0), (1.0, 1.0), (0.5, 2.0), (0.0, 1.0)])
    def test_loss(self, pairs, scores, labels, temperature, cost):
        every = score_of_all(scores, pairs)
        gold = every[(labels[:, None] == ALL).all(-1)]
        costly = every + cost * (labels[:, None] != ALL).sum(-1)
        best = costly.amax(1) if temperature == 0 else temperature * (costly / temperature).logsumexp(1)
        result = struct_of(pairs, temperature=temperature, cost=cost)(scores, labels)
        torch.testing.assert_close(result.loss, (best - gold).mean())
        assert result.steps is result.negative is None

    def test_argmax(self, pairs, scores):
        assert torch.equal(struct_of(pairs).argmax(scores), ALL[score_of_all(scores, pairs).argmax(1)])

    @pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
    def test_marginals_are_those_of_the_temperature(self, pairs, scores, temperature):
        weights = (score_of_all(scores, pairs) / (temperature or 1.0)).softmax(1)
        expected = torch.einsum("ba,anl->bnl", weights, nn.functional.one_hot(ALL, LABELS).double())
        marginals = struct_of(pairs, temperature=temperature).marginals(scores)
        torch.testing.assert_close(marginals, expected.float())

    def test_inference_leaves_the_scores_and_takes_no_steps(self, pairs, scores):
        inference = struct_of(pairs).infer(scores)
        assert inference.theta is inference.potentials
        assert inference.solution is None
        assert struct_of(pairs).steps(scores).tolist() == [0] * 6

    def test_without_tables_it_is_unary(self, scores):
        system = struct_of(PairTables(NODES - 1, LABELS))
        assert torch.equal(system.argmax(scores), scores.argmax(-1))
        torch.testing.assert_close(system.marginals(scores), scores.softmax(-1))


class TestTerm:
    """Systems with a term, against systems that they become without a part."""

    @pytest.mark.parametrize("temperature", [1.0, 0.0])
    def test_a_new_term_leaves_struct_as_it_is(self, pairs, scores, labels, temperature):
        struct = struct_of(pairs, temperature=temperature)
        options = {"temperature": temperature, "max_steps": 200, "tolerance": 1e-3}
        gspen = System(struct.scorer, GSPENHead(RegionMLP(LABELS, NODES, NODES - 1), **options))
        assert torch.equal(gspen.argmax(scores), struct.argmax(scores))
        close = 1e-5 if temperature else 0.02  # without entropy, mirror descent only nears the best labelling
        torch.testing.assert_close(
            gspen(scores, labels).loss, struct(scores, labels).loss, atol=close, rtol=0
        )

    def test_gspen_without_tables_is_spen(self, scores, labels):
        term = RegionMLP(LABELS, NODES)
        nn.init.normal_(term.mlp.output.weight, generator=torch.Generator().manual_seed(6))
        spen = System(GraphScorer(over_nodes), GSPENHead(term))
        gspen = System(GraphScorer(over_chain, pairs=PairTables(NODES - 1, LABELS)), GSPENHead(term))
        results = spen(scores, labels), gspen(scores, labels)
        torch.testing.assert_close(results[0].loss, results[1].loss, atol=1e-5, rtol=1e-5)
        assert results[0].steps > 0
        assert torch.equal(spen.argmax(scores), gspen.argmax(scores))
        assert torch.equal(spen.steps(scores), spen.infer(scores).solution.steps)
        torch.testing.assert_close(spen.marginals(scores), spen.infer(scores).solution.marginals.nodes)

    @pytest.mark.parametrize("with_edges", [NLStruct, RegionMLP])
    def test_it_learns_over_frozen_tables(self, pairs, scores, labels, with_edges):
        head = GSPENHead(with_edges(LABELS, NODES, NODES - 1, hidden=5))
        system = System(GraphScorer(over_chain, pairs=pairs), head).freeze()
        before = pairs.tables.clone()
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
        assert torch.equal(pairs.tables, before)

    def test_the_trace_is_recorded_if_wanted(self, scores):
        spen = System(GraphScorer(over_nodes), GSPENHead(RegionMLP(LABELS, NODES)))
        assert spen.infer(scores).solution.trace is None
        assert spen.infer(scores, record_trace=True).solution.trace.value.shape[1] == 6

    def test_single_sentences_of_documents_are_warned_of_once(self, scores, labels, caplog):
        def scorer(inputs):
            return Parts(inputs["scores"]), over_nodes(6)

        system = System(scorer, GSPENHead(DocumentConsistency(LABELS)))
        assert system.couples_documents
        inputs = {"scores": scores, "mentions": torch.zeros(6, NODES, len(RELATIONS), dtype=torch.long)}
        with caplog.at_level(logging.WARNING):
            system({**inputs, "documents": torch.zeros(6, dtype=torch.long)}, labels)
            assert not caplog.records
            for _ in range(2):
                system({**inputs, "documents": torch.arange(6)}, labels)
        (record,) = caplog.records
        assert "give each document's sentences the same number" in record.getMessage()


class TestScored:
    """Scores that were computed before."""

    def test_they_are_taken_as_they_are(self, pairs, scores, labels):
        system = struct_of(pairs)
        scored = system.score(scores)
        assert system.score(scored) is scored
        assert system(scored, labels).loss == system(scores, labels).loss
        assert torch.equal(system.argmax(scored), system.argmax(scores))

    def test_some_examples_and_several_batches(self, scores):
        system = System(GraphScorer(over_nodes))
        parts = [system.score(scores[:2]), system.score(scores[2:])]
        joined = Scored.join(parts)
        assert torch.equal(joined.potentials.nodes, scores)
        assert joined.polytope.present.shape == joined.context.mask.shape == (6, NODES)
        rows = torch.tensor([5, 0])
        assert torch.equal(joined.select(rows).potentials.nodes, scores[rows])

    def test_documents_and_mentions_of_a_mapping_are_context(self, scores):
        system = System(lambda inputs: (Parts(inputs["x"]), over_nodes(6)))
        documents, mentions = torch.arange(6), torch.ones(6, NODES, 1, dtype=torch.long)
        context = system.score({"x": scores, "documents": documents, "mentions": mentions}).context
        assert context.documents is documents
        assert context.mentions is mentions
        assert system.score({"x": scores}).context.documents is None


class TestFreezing:
    """What training leaves as it is."""

    @pytest.fixture
    def system(self):
        layers = nn.Linear(7, NODES * LABELS), nn.Unflatten(1, (NODES, LABELS)), nn.Dropout(0.5)
        pairs = PairTables(NODES - 1, LABELS)
        return System(
            GraphScorer(over_chain, nn.Sequential(*layers), pairs), GSPENHead(RegionMLP(LABELS, NODES))
        )

    def learned(self, system):
        return {name.rsplit(".", 1)[0] for name, weight in system.named_parameters() if weight.requires_grad}

    def test_all_but_the_head_by_default(self, system):
        assert not system.base_frozen
        assert system.freeze().base_frozen
        assert self.learned(system) == {"head.term.mlp.input", "head.term.mlp.output"}

    def test_parts_by_name(self, system):
        system.freeze("scorer.nodes", "head")
        assert not system.base_frozen
        assert self.learned(system) == {"scorer.pairs"}

    @pytest.mark.parametrize("dropout", [False, True])
    def test_their_dropout_is_on_in_training_only_if_wanted(self, system, labels, dropout):
        inputs = torch.randn(6, 7)
        system.freeze("scorer.nodes", dropout=dropout).train()
        first, second = (system(inputs, labels).loss.item() for _ in range(2))
        assert (first != second) == dropout
        assert system.scorer.pairs.training
        assert system.head.training
        system.eval()
        assert system(inputs, labels).loss == system(inputs, labels).loss

    def test_unfreezing_leaves_what_was_fixed_before(self, system):
        system.scorer.pairs.tables.requires_grad_(False)
        system.freeze().unfreeze().train()
        assert self.learned(system) == {"scorer.nodes.0", "head.term.mlp.input", "head.term.mlp.output"}
        assert system.scorer.nodes.training

    def test_an_unknown_part_is_an_error(self, system):
        with pytest.raises(ValueError, match=r"expected names of submodules, got 'scorer\.edges'"):
            system.freeze("scorer.edges")
