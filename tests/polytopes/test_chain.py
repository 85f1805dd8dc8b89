import itertools

import pytest
import torch

from gspen_ner import Chain, Parts, Simplex
from gspen_ner.kernels import use_backend
from tests.polytope_suite import PolytopeCase, PolytopeSuite

LENGTHS = torch.tensor([3, 1, 2])
EDGES = {"shared": (1, 1), "per position": (3, 2), "per row": (3, 1)}


class TestChain(PolytopeSuite):
    @pytest.fixture(params=itertools.product(EDGES, ["numba", "reference"]), ids=":".join)
    def case(self, request):
        layout, backend = request.param
        edges = torch.randn(*EDGES[layout], 3, 3, dtype=torch.float64)
        theta = Parts(torch.randn(3, 3, 3, dtype=torch.float64), edges)
        labellings = [[list(y) for y in itertools.product(range(3), repeat=n)] for n in LENGTHS.tolist()]
        with use_backend(backend):
            yield PolytopeCase(Chain(LENGTHS), theta, labellings)


def test_without_edges_a_chain_is_a_product_of_simplices():
    theta = Parts(torch.randn(3, 3, 4))
    chain, simplex = Chain(LENGTHS), Simplex(Chain(LENGTHS).mask(3))
    torch.testing.assert_close(chain.log_partition(theta), simplex.log_partition(theta))
    torch.testing.assert_close(chain.marginals(theta).nodes, simplex.marginals(theta).nodes)
    assert (chain.argmax(theta) == simplex.argmax(theta)).all()
