"""Impossible input is refused with an error that names the row and the cause."""

import pytest
import torch

from gspen_ner import Chain, Parts

pytestmark = pytest.mark.usefixtures("backend")


def operations(theta, lengths):
    chain = Chain(lengths)
    tags = torch.zeros(theta.nodes.shape[:2], dtype=torch.int64)
    yield lambda: chain.log_partition(theta)
    yield lambda: chain.marginals(theta)
    yield lambda: chain.viterbi(theta)
    yield lambda: chain.k_best(theta, 2)
    yield lambda: chain.sample(theta, 2)
    yield lambda: chain.log_likelihood(theta, tags)
    yield lambda: chain.distribution_entropy(theta)


def all_raise(theta, lengths, match):
    for operation in operations(theta, lengths):
        with pytest.raises(ValueError, match=match):
            operation()


@pytest.mark.parametrize("batch", [3, 12])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_bad_node_scores(batch, bad):
    nodes = torch.zeros(batch, 4, 3)
    nodes[2, 1, 1] = bad
    name = "NaN" if bad != bad else r"\+inf"
    all_raise(Parts(nodes, torch.zeros(3, 3)), torch.full((batch,), 4), rf"row 2: {name} among the node")


@pytest.mark.parametrize("batch", [3, 12])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("per_position", [False, True])
def test_bad_edge_scores(batch, bad, per_position):
    edges = torch.zeros(batch if per_position else 1, 3 if per_position else 1, 3, 3)
    edges[-1, -1, 0, 2] = bad
    row = batch - 1 if per_position else 0
    name = "NaN" if bad != bad else r"\+inf"
    all_raise(
        Parts(torch.zeros(batch, 4, 3), edges), torch.full((batch,), 4), rf"row {row}: {name} among the edge"
    )


@pytest.mark.parametrize("batch", [2, 12])
def test_a_position_without_labels(batch):
    nodes = torch.zeros(batch, 4, 3)
    nodes[1, 2] = -torch.inf
    all_raise(Parts(nodes, torch.zeros(3, 3)), torch.full((batch,), 4), "row 1: no legal path.* position 2")


@pytest.mark.parametrize("batch", [2, 12])
def test_transitions_that_lead_nowhere(batch):
    edges = torch.full((2, 2), -torch.inf)
    edges[0, 1] = 0.0  # from the second label nothing goes on
    lengths = torch.full((batch,), 2)
    lengths[1] = 3
    all_raise(Parts(torch.zeros(batch, 3, 2), edges), lengths, "row 1: no legal path: every labelling")


def test_what_lies_in_the_padding_is_no_error():
    nodes = torch.zeros(2, 4, 3)
    nodes[1, 2:] = torch.nan
    for operation in operations(Parts(nodes, torch.zeros(3, 3)), torch.tensor([4, 2])):
        operation()


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([4, 0], "row 1: length must be in 1..4, got 0 .*empty"),
        ([5, 4], "row 0: length must be in 1..4, got 5 .*longer"),
        ([4, -1], "row 1: length must be in 1..4, got -1"),
    ],
)
def test_lengths_outside_the_tensor(lengths, message):
    all_raise(Parts(torch.zeros(2, 4, 3), torch.zeros(3, 3)), torch.tensor(lengths), message)


def test_shapes():
    chain = Chain(torch.tensor([4, 4]))
    with pytest.raises(ValueError, match=r"edges must be \[2 or 1, 3 or 1, 3, 3\]"):
        chain.log_partition(Parts(torch.zeros(2, 4, 3), torch.zeros(2, 2, 3, 3)))
    with pytest.raises(ValueError, match="edges must be"):
        Parts(torch.zeros(2, 4, 3), torch.zeros(4, 4))
    with pytest.raises(ValueError, match="lengths must be 3 integers"):
        chain.log_partition(Parts(torch.zeros(3, 4, 3), torch.zeros(3, 3)))
    with pytest.raises(ValueError, match="k must be at least 1"):
        chain.k_best(Parts(torch.zeros(2, 4, 3), torch.zeros(3, 3)), 0)


def test_labels_out_of_range():
    chain, theta = Chain(torch.tensor([3, 2])), Parts(torch.zeros(2, 3, 4), torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"row 1: a tag is outside 0\.\.3"):
        chain.score(theta, torch.tensor([[0, 1, 2], [0, 4, 0]]))
    with pytest.raises(ValueError, match=r"row 0: a tag is outside 0\.\.3"):
        chain.log_likelihood(theta, torch.tensor([[0, -1, 2], [0, 0, 0]]))
    with pytest.raises(ValueError, match=r"tags must be integers of shape \[2, 3\]"):
        chain.score(theta, torch.zeros(2, 2, dtype=torch.int64))
    chain.score(theta, torch.tensor([[0, 1, 2], [0, 3, -100]]))  # padding may hold anything


def test_entropy_needs_edges_per_position():
    chain, theta = Chain(torch.tensor([4])), Parts(torch.zeros(1, 4, 3), torch.zeros(3, 3))
    with pytest.raises(ValueError, match="per position"):
        chain.entropy(chain.marginals(theta))
