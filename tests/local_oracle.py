"""The local polytope by itself: constraints built factor by factor, and a Newton method in their null space.

max <theta, b> + tau (sum_r c_r H(b_r) + sum_p c_p H(b_p)) - strength / 2 |M b - t|^2
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import null_space, qr
from scipy.optimize import linprog, minimize

from gspen_ner import Parts
from gspen_ner.graphs import CompiledGraph
from tests.graph_strategies import tables_of


@dataclass(frozen=True)
class Quadratic:
    """- strength / 2 |matrix b - target|^2 of the flat b."""

    matrix: np.ndarray
    target: np.ndarray
    strength: float = 1.0

    def value(self, b: np.ndarray) -> float:
        return -0.5 * self.strength * float(((self.matrix @ b - self.target) ** 2).sum())

    def gradient(self, b: np.ndarray) -> np.ndarray:
        return -self.strength * self.matrix.T @ (self.matrix @ b - self.target)

    @property
    def hessian(self) -> np.ndarray:
        return -self.strength * self.matrix.T @ self.matrix


class LocalOracle:
    """Points are flat vectors: the labels of all nodes, then the entries of all tables; no padding."""

    def __init__(self, graph: CompiledGraph) -> None:
        self.graph = graph
        self.counts = graph.label_counts
        self.shapes = [[self.counts[node] for node in scope] for scope in graph.scopes]
        sizes = [*self.counts, *(int(np.prod(shape)) for shape in self.shapes)]
        self.starts = np.cumsum([0, *sizes])

    def flat(self, parts: Parts, row: int) -> np.ndarray:
        nodes, tables = tables_of(self.graph, parts, row)
        return np.concatenate([piece.ravel() for piece in (*nodes, *tables)])

    @cached_property
    def equations(self) -> tuple[np.ndarray, np.ndarray]:
        """All of them, also those that follow from others."""
        rows, right = [], []
        for node in range(len(self.counts)):
            row = np.zeros(self.starts[-1])
            row[self.starts[node] : self.starts[node + 1]] = 1
            rows.append(row)
            right.append(1.0)
        for factor, (scope, shape) in enumerate(zip(self.graph.scopes, self.shapes, strict=True)):
            start, stop = self.starts[len(self.counts) + factor :][:2]
            for axis, node in enumerate(scope):
                for label in range(shape[axis]):
                    row = np.zeros(self.starts[-1])
                    row[start:stop] = (np.indices(shape)[axis] == label).ravel()
                    row[self.starts[node] + label] = -1
                    rows.append(row)
                    right.append(0.0)
        return np.array(rows), np.array(right)

    @cached_property
    def independent(self) -> tuple[np.ndarray, np.ndarray]:
        matrix, right = self.equations
        _, triangle, order = qr(matrix.T, pivoting=True, mode="economic")
        rank = int((np.abs(np.diag(triangle)) > 1e-9).sum())
        return matrix[order[:rank]], right[order[:rank]]

    @cached_property
    def uniform(self) -> np.ndarray:
        sizes = np.diff(self.starts)
        return np.repeat(1 / sizes, sizes)

    def inside(self, legal: np.ndarray) -> np.ndarray:
        """A point that is positive wherever any point without forbidden entries is."""
        if legal.all():
            return self.uniform
        matrix, right = self.equations
        bounds = [(0, float(may)) for may in legal]
        actual = [
            linprog(-row, A_eq=matrix, b_eq=right, bounds=bounds).x for row in np.eye(len(legal))[legal]
        ]
        return np.mean(actual, 0)

    def weights(self, nodes, factors) -> np.ndarray:
        """The counting number of each entry."""
        return np.repeat(np.concatenate([nodes, factors]), np.diff(self.starts))

    def maximise(
        self, theta: np.ndarray, weights: np.ndarray, quadratic: Quadratic | None = None
    ) -> tuple[float, np.ndarray]:
        """With entropy (weights positive on tables, not negative on nodes): damped Newton from the inside."""
        inside = self.inside(np.isfinite(theta))
        support = inside > 1e-9
        b, matrix, right = inside[support], self.equations[0][:, support], self.equations[1]
        directions = null_space(matrix)
        theta, weights = theta[support], weights[support]
        if quadratic is not None:
            quadratic = replace(quadratic, matrix=quadratic.matrix[:, support])
        curvature = 0.0 if quadratic is None else quadratic.hessian

        def value(b):
            return theta @ b - weights @ (b * np.log(b)) + (quadratic.value(b) if quadratic else 0.0)

        for _ in range(200):
            slope = theta - weights * (np.log(b) + 1) + (quadratic.gradient(b) if quadratic else 0.0)
            hessian = directions.T @ (np.diag(-weights / b) + curvature) @ directions
            step = -directions @ np.linalg.solve(hessian, directions.T @ slope)
            rise = float(slope @ step)
            if rise < 1e-20:
                break
            shrinking = step < 0
            size = min(1.0, 0.99 * float((-b[shrinking] / step[shrinking]).min(initial=np.inf)))
            while value(b + size * step) < value(b) + 0.1 * size * rise and size * rise > 1e-14:
                size /= 2
            b = b + size * step
        else:
            raise AssertionError("Newton's method has not converged")
        assert np.abs(matrix @ b - right).max() < 1e-9
        whole = np.zeros(len(support))
        whole[support] = b
        return float(value(b)), whole

    def maximise_linear(self, theta: np.ndarray) -> float:
        legal = np.isfinite(theta)
        matrix, right = self.equations
        actual = linprog(-theta[legal], A_eq=matrix[:, legal], b_eq=right, bounds=(0, 1), method="highs-ipm")
        assert actual.success, actual.message
        return -actual.fun

    def maximise_quadratic(self, theta: np.ndarray, quadratic: Quadratic) -> float:
        """Without entropy."""
        matrix, right = self.independent
        actual = minimize(
            lambda b: -(theta @ b) - quadratic.value(b),
            self.uniform,
            jac=lambda b: -theta - quadratic.gradient(b),
            method="SLSQP",
            bounds=[(0, 1)] * len(theta),
            constraints={"type": "eq", "fun": lambda b: matrix @ b - right, "jac": lambda b: matrix},
            options={"maxiter": 1000, "ftol": 1e-12},
        )
        assert actual.success, actual.message
        return -actual.fun
