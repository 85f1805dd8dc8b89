"""What every polytope must fulfil. A new one supplies a case and inherits the tests.

A case is a polytope, scores for it, and, for each example, the matrix of its vertices: one row a
labelling, one column an entry of (nodes, edges, factors), all flattened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import logsumexp

from gspen_ner import Parts, Polytope


@dataclass(frozen=True)
class PolytopeCase:
    polytope: Polytope
    theta: Parts
    labellings: list[list[list[int]]]
    """All labellings of each example."""

    def pad(self, row: int, labelling: list[int]) -> torch.Tensor:
        labels = torch.full(self.theta.nodes.shape[:2], 0)
        labels[row, : len(labelling)] = torch.tensor(labelling)
        return labels

    def vertices(self, row: int) -> np.ndarray:
        """[labellings, entries] of one example."""
        actual = []
        for labelling in self.labellings[row]:
            vertex = self.polytope.vertex(self.pad(row, labelling), self.theta)
            actual.append(flat(vertex, row))
        return np.array(actual)


def flat(parts: Parts, row: int) -> np.ndarray:
    """Nodes, edges and factors of one example in one vector."""
    pieces = [tensor[row if len(tensor) > 1 else 0].flatten() for tensor in parts.tensors()]
    return torch.cat(pieces).detach().numpy()


class PolytopeSuite:
    """Inherit and define a fixture `case`."""

    def test_log_partition_and_marginals(self, case: PolytopeCase):
        log_z, marginals = case.polytope.sums(case.theta)
        torch.testing.assert_close(case.polytope.log_partition(case.theta), log_z)
        for row in range(len(case.labellings)):
            vertices = case.vertices(row)
            scores = vertices @ flat(case.theta, row)
            np.testing.assert_allclose(log_z[row], logsumexp(scores), atol=1e-9)
            expected = np.exp(scores - logsumexp(scores)) @ vertices
            np.testing.assert_allclose(flat(marginals, row), expected, atol=1e-9)
            np.testing.assert_allclose(flat(case.polytope.marginals(case.theta), row), expected, atol=1e-9)

    def test_argmax_is_a_best_vertex(self, case: PolytopeCase):
        labels = case.polytope.argmax(case.theta)
        scores = case.polytope.score(case.theta, labels)
        for row in range(len(case.labellings)):
            assert labels[row][labels[row] >= 0].tolist() in case.labellings[row]
            np.testing.assert_allclose(
                scores[row], (case.vertices(row) @ flat(case.theta, row)).max(), atol=1e-9
            )

    def test_score_is_the_inner_product_with_the_vertex(self, case: PolytopeCase):
        labels = case.polytope.argmax(case.theta)
        vertex = case.polytope.vertex(labels, case.theta)
        torch.testing.assert_close(case.polytope.score(case.theta, labels), case.theta.dot(vertex))

    def test_likelihood(self, case: PolytopeCase):
        labels = case.polytope.argmax(case.theta)
        expected = case.polytope.score(case.theta, labels) - case.polytope.log_partition(case.theta)
        torch.testing.assert_close(case.polytope.log_likelihood(case.theta, labels), expected)

    def test_gradient_of_log_partition_is_the_marginals(self, case: PolytopeCase):
        nodes = case.theta.nodes.clone().requires_grad_()
        case.polytope.log_partition(replace(case.theta, nodes=nodes)).sum().backward()
        torch.testing.assert_close(nodes.grad, case.polytope.marginals(case.theta).nodes)

    def test_entropy_closes_the_gap_between_score_and_log_partition(self, case: PolytopeCase):
        theta = case.polytope.expand(case.theta)
        log_z, marginals = case.polytope.sums(theta)
        torch.testing.assert_close(theta.dot(marginals) + case.polytope.entropy(marginals), log_z)

    def test_entropy_of_a_vertex_is_zero(self, case: PolytopeCase):
        theta = case.polytope.expand(case.theta)
        vertex = case.polytope.vertex(case.polytope.argmax(theta), theta)
        torch.testing.assert_close(case.polytope.entropy(vertex), torch.zeros(len(theta.nodes)).double())

    def test_select_and_mask(self, case: PolytopeCase):
        rows = torch.tensor([len(case.labellings) - 1, 0])
        log_z, marginals = case.polytope.sums(case.theta)
        some_z, some = case.polytope.select(rows).sums(case.theta.select(rows))
        torch.testing.assert_close(some_z, log_z[rows])
        torch.testing.assert_close(some.nodes, marginals.nodes[rows])
        mask = case.polytope.mask(case.theta.nodes.shape[1]).double()
        torch.testing.assert_close(marginals.nodes.sum(-1), mask.expand(len(marginals.nodes), -1))
