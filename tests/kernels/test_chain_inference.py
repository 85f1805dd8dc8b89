"""Every kind of chain inference against enumeration, on every layout and both backends."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gspen_ner import Chain, Parts
from tests.oracle import enumerate_row
from tests.strategies import chain_batches

# One fixture value serves all examples of a test on purpose: it only names the backend.
pytestmark = pytest.mark.usefixtures("backend")
on_each_backend = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(batch):
    for row in range(len(batch.lengths)):
        yield row, int(batch.lengths[row]), enumerate_row(batch.theta, batch.lengths, row)


@given(chain_batches())
@on_each_backend
def test_log_partition_and_marginals(batch):
    log_z, marginals = batch.chain.sums(batch.theta)
    for row, length, truth in rows(batch):
        assert log_z[row] == pytest.approx(truth.log_partition, abs=1e-9)
        np.testing.assert_allclose(marginals.nodes[row, :length], truth.node_marginals(), atol=1e-9)
        assert (marginals.nodes[row, length:] == 0).all()
        edges = truth.edge_marginals()
        if batch.theta.edges.shape[1] == 1:
            np.testing.assert_allclose(marginals.edges[row, 0], edges.sum(0), atol=1e-9)
        else:
            np.testing.assert_allclose(marginals.edges[row, : length - 1], edges, atol=1e-9)
            assert (marginals.edges[row, length - 1 :] == 0).all()


@given(chain_batches(dtype=torch.float32))
@on_each_backend
def test_single_precision(batch):
    log_z, marginals = batch.chain.sums(batch.theta)
    assert marginals.nodes.dtype == marginals.edges.dtype == torch.float32
    for row, length, truth in rows(batch):
        assert log_z[row] == pytest.approx(truth.log_partition, rel=1e-5, abs=1e-5)
        np.testing.assert_allclose(marginals.nodes[row, :length], truth.node_marginals(), atol=1e-5)


@given(chain_batches())
@on_each_backend
def test_asking_for_less_gives_the_same(batch):
    log_z, marginals = batch.chain.sums(batch.theta)
    only_z, nodes = batch.chain.sums(batch.theta, with_edges=False)
    assert nodes.edges is None
    torch.testing.assert_close(only_z, log_z)
    torch.testing.assert_close(nodes.nodes, marginals.nodes)
    torch.testing.assert_close(batch.chain.log_partition(batch.theta), log_z)


@given(chain_batches())
@on_each_backend
def test_viterbi(batch):
    scores, tags = batch.chain.viterbi(batch.theta)
    for row, length, truth in rows(batch):
        assert scores[row] == pytest.approx(truth.scores.max(), abs=1e-9)
        best = truth.scores[(truth.paths == tags[row, :length].numpy()).all(1)]
        assert best == pytest.approx(truth.scores.max(), abs=1e-9)
        assert (tags[row, length:] == -1).all()


@given(chain_batches())
@on_each_backend
def test_k_best(batch):
    k = 6
    scores, tags = batch.chain.k_best(batch.theta, k)
    for row, length, truth in rows(batch):
        legal = np.sort(truth.scores[np.isfinite(truth.scores)])[::-1][:k]
        np.testing.assert_allclose(scores[row, : len(legal)], legal, atol=1e-9)
        assert torch.isneginf(scores[row, len(legal) :]).all()
        assert (tags[row, len(legal) :] == -1).all()
        actual = tags[row, : len(legal), :length].numpy()
        assert len(np.unique(actual, axis=0)) == len(legal), "the same labelling twice"
        for path, score in zip(actual, legal, strict=True):
            assert truth.scores[(truth.paths == path).all(1)] == pytest.approx(score, abs=1e-9)


@given(chain_batches())
@on_each_backend
def test_score_and_likelihood_of_given_labels(batch):
    labels = batch.chain.sample(batch.theta, 1, torch.Generator().manual_seed(1))[0]
    scores = batch.chain.score(batch.theta, labels)
    likelihood = batch.chain.log_likelihood(batch.theta, labels)
    for row, length, truth in rows(batch):
        at = (truth.paths == labels[row, :length].numpy()).all(1)
        assert scores[row] == pytest.approx(truth.scores[at].item(), abs=1e-9)
        assert likelihood[row] == pytest.approx(np.log(truth.probabilities[at].item()), abs=1e-9)


@given(chain_batches())
@on_each_backend
def test_entropy(batch):
    by_scores = batch.chain.distribution_entropy(batch.theta)
    by_marginals = batch.chain.entropy(batch.chain.marginals(batch.theta.per_position()))
    for row, _, truth in rows(batch):
        assert by_scores[row] == pytest.approx(truth.entropy, abs=1e-8)
        assert by_marginals[row] == pytest.approx(truth.entropy, abs=1e-8)


def test_sampling_frequencies():
    chain, count = Chain(torch.tensor([3, 2])), 40_000
    theta = chain.potentials(torch.randn(2, 3, 3), torch.randn(3, 3), torch.randn(3), torch.randn(3))
    draws = chain.sample(theta, count, torch.Generator().manual_seed(0))
    assert (draws[:, 1, 2] == -1).all()
    for row, length in enumerate((3, 2)):
        truth = enumerate_row(theta, chain.lengths, row)
        paths, counts = np.unique(draws[:, row, :length].numpy(), axis=0, return_counts=True)
        frequency = dict(zip(map(tuple, paths.tolist()), counts / count, strict=True))
        seen = [frequency.get(tuple(path), 0.0) for path in truth.paths.tolist()]
        np.testing.assert_allclose(seen, truth.probabilities, atol=0.012)


@given(chain_batches())
@on_each_backend
def test_samples_are_legal(batch):
    draws = batch.chain.sample(batch.theta, 8, torch.Generator().manual_seed(3))
    for labels in draws:
        assert torch.isfinite(batch.chain.score(batch.theta, labels)).all()


@given(chain_batches(masks=False))
@on_each_backend
def test_start_and_end_scores(batch):
    labels = batch.theta.nodes.shape[2]
    start, end = torch.randn(2, labels, dtype=torch.float64)
    folded = batch.chain.potentials(batch.theta.nodes, batch.theta.edges, start, end)
    log_z, tags = batch.chain.log_partition(folded), batch.chain.argmax(folded)
    for row, length, truth in rows(batch):
        scores = truth.scores + start.numpy()[truth.paths[:, 0]] + end.numpy()[truth.paths[:, -1]]
        assert log_z[row] == pytest.approx(np.logaddexp.reduce(scores), abs=1e-9)
        assert scores[(truth.paths == tags[row, :length].numpy()).all(1)] == pytest.approx(scores.max())


def test_a_plain_table_is_shared_by_all_edges():
    chain, nodes, table = Chain(torch.tensor([4, 3])), torch.randn(2, 4, 3), torch.randn(3, 3)
    shared, spelt_out = Parts(nodes, table), Parts(nodes, table.expand(2, 3, 3, 3))
    torch.testing.assert_close(chain.log_partition(shared), chain.log_partition(spelt_out))
    counts = chain.marginals(spelt_out).edges.sum(1, keepdim=True)
    torch.testing.assert_close(chain.marginals(shared).edges, counts)


def test_rows_do_not_depend_on_their_batch_mates():
    lengths = torch.randint(1, 31, (40,))
    theta = Parts(torch.randn(40, 30, 5), torch.randn(5, 5))
    log_z, marginals = Chain(lengths).sums(theta)
    for row in (0, 17, 39):
        alone = Parts(theta.nodes[row : row + 1, : lengths[row]], theta.edges)
        own_z, own = Chain(lengths[row : row + 1]).sums(alone)
        torch.testing.assert_close(own_z, log_z[row : row + 1])
        torch.testing.assert_close(own.nodes[0], marginals.nodes[row, : lengths[row]], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(own.edges[0], marginals.edges[row], atol=1e-5, rtol=1e-5)
