"""FactorGraph: add variables and factors by name, then compile.

A factor is a table of scores over the labels of one variable (unary), two variables (an edge) or more. Its
table is given here if all examples share it, or later with the potentials of each batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch import Tensor

from gspen_ner.graphs.compiled import CompiledGraph, as_scores


class FactorGraph:
    """A graph under construction.

    Example:
        >>> graph = FactorGraph()
        >>> for tag in ("sky", "sea", "boat"):
        ...     graph.add_variable(tag, labels=2)
        >>> graph.add_factor(["sea", "boat"], [[0.0, -3.0], [0.0, 1.0]])  # boats are seldom without a sea
        >>> graph.add_factor(["sky", "sea", "boat"])  # each example has its own scores
        >>> compiled = graph.compile()
        >>> compiled.num_nodes, compiled.num_edges, compiled.is_forest
        (3, 1, False)
    """

    def __init__(self) -> None:
        self._labels: dict[Hashable, int] = {}
        self._tables: dict[tuple[Hashable, ...], Tensor | None] = {}
        self._covered: set[frozenset[Hashable]] = set()

    @classmethod
    def of_edges(cls, label_counts: Sequence[int], edges: Sequence[tuple[int, int]]) -> FactorGraph:
        """Return a graph of variables 0, 1, ... with pairwise factors.

        Args:
            label_counts: number of labels of each variable.
            edges: pairs of variables.

        Example:
            >>> FactorGraph.of_edges([26] * 5, [(0, 1), (1, 2), (2, 3), (3, 4)]).compile().is_forest
            True
        """
        graph = cls()
        for number, count in enumerate(label_counts):
            graph.add_variable(number, count)
        for edge in edges:
            graph.add_factor(edge)
        return graph

    def add_variable(self, name: Hashable, labels: int) -> None:
        """Add a variable with `labels` possible labels, at least two."""
        if name in self._labels:
            raise ValueError(f"there is a variable {name!r} already")
        if labels < 2:
            raise ValueError(f"variable {name!r} needs at least two labels, got {labels}")
        self._labels[name] = int(labels)

    def add_factor(self, variables: Sequence[Hashable], table: Tensor | Sequence | None = None) -> None:
        """Add a factor: scores of the joint labels of some variables.

        Args:
            variables: names of the variables, in the order of the table's axes.
            table: scores that all examples share; None (default) if each example has its own.
        """
        scope = tuple(variables)
        unknown = [name for name in scope if name not in self._labels]
        if unknown:
            known = ", ".join(repr(name) for name in list(self._labels)[:10]) or "none yet"
            raise ValueError(f"factor {scope!r} has the unknown variable {unknown[0]!r}; known: {known}")
        if not scope or len(set(scope)) < len(scope):
            raise ValueError(f"a factor needs one or more different variables, got {scope!r}")
        if frozenset(scope) in self._covered:
            raise ValueError(f"there is a factor over {scope!r} already; add this table to its table")
        scores = None if table is None else as_scores(table)
        expected = [self._labels[name] for name in scope]
        if scores is not None and list(scores.shape) != expected:
            raise ValueError(f"the table of factor {scope!r} must be {expected}, got {list(scores.shape)}")
        self._tables[scope] = scores
        self._covered.add(frozenset(scope))

    def compile(self) -> CompiledGraph:
        """Return the graph as immutable index arrays."""
        if not self._labels:
            raise ValueError("the graph is empty; add variables before compiling it")
        numbers = {name: number for number, name in enumerate(self._labels)}
        scopes = sorted((scope for scope in self._tables if len(scope) > 1), key=lambda scope: len(scope) > 2)
        return CompiledGraph(
            names=tuple(self._labels),
            label_counts=tuple(self._labels.values()),
            scopes=tuple(tuple(numbers[name] for name in scope) for scope in scopes),
            tables={scope: table for scope, table in self._tables.items() if table is not None},
        )
