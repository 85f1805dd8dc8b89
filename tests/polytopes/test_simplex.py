import itertools

import pytest
import torch

from gspen_ner import Parts, Simplex
from tests.polytope_suite import PolytopeCase, PolytopeSuite


class TestSimplex(PolytopeSuite):
    @pytest.fixture
    def case(self):
        mask = torch.tensor([[True, True, True], [True, False, False]])
        theta = Parts(torch.randn(2, 3, 3, dtype=torch.float64))
        labellings = [[list(y) for y in itertools.product(range(3), repeat=n)] for n in (3, 1)]
        return PolytopeCase(Simplex(mask), theta, labellings)


def test_forbidden_labels():
    theta = Parts(torch.tensor([[[0.0, -torch.inf, 0.0], [1.0, 1.0, -torch.inf]]], requires_grad=True))
    simplex = Simplex(torch.ones(1, 2, dtype=torch.bool))
    torch.testing.assert_close(
        simplex.marginals(theta).nodes[0], torch.tensor([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    )
    simplex.log_partition(theta).sum().backward()
    assert torch.isfinite(theta.nodes.grad).all()


def test_a_node_without_labels_is_named():
    nodes = torch.zeros(2, 2, 3)
    nodes[1, 0] = -torch.inf
    with pytest.raises(ValueError, match="row 1: no legal path: every label is forbidden at position 0"):
        Simplex(torch.ones(2, 2, dtype=torch.bool)).marginals(Parts(nodes))
