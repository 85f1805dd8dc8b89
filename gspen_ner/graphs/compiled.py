"""The result of compiling a factor graph: its index arrays, and the conversion between `Parts` and flat rows.

In `Parts`, the nodes of a batch are `[B, N, L]`, where L is the largest number of labels; entries for labels
that a variable does not have are ignored in the input and zero in the output. Edges, the factors over two
variables, are `[B, E, L, L]` with the same padding. The tables of larger factors are concatenated in
`[B, X]`. Inference works on flat rows without padding: `cells` (the labels of all nodes) and `entries` (the
entries of all tables).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.graphs.index import GraphIndex
from gspen_ner.parts import Parts

Cells = Float[Tensor, "B cells"]
Entries = Float[Tensor, "B entries"]


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """An immutable factor graph; `FactorGraph.compile` returns it.

    Args:
        names: names of the variables.
        label_counts: number of labels of each variable.
        scopes: variables of each factor over two or more variables; factors over two come first.
        tables: scores that all examples share, by the names of a factor's variables.

    Example:
        >>> from gspen_ner import FactorGraph
        >>> graph = FactorGraph.of_edges([2, 3, 2], [(0, 1), (1, 2)]).compile()
        >>> graph.num_nodes, graph.num_edges, graph.max_labels, graph.is_forest
        (3, 2, 3, True)
    """

    names: tuple[Hashable, ...]
    label_counts: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: Mapping[tuple[Hashable, ...], Tensor] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def max_labels(self) -> int:
        """The largest number of labels of a variable."""
        return max(self.label_counts)

    @cached_property
    def num_edges(self) -> int:
        """The number of factors over two variables."""
        return sum(len(scope) == 2 for scope in self.scopes)

    @cached_property
    def index(self) -> GraphIndex:
        """The index arrays for inference."""
        return GraphIndex.of(self.label_counts, self.scopes)

    @property
    def is_forest(self) -> bool:
        """Whether the graph has no loop, so that `Tree` is exact on it."""
        return self.index.depths is not None

    def potentials(
        self, scores: Mapping[Hashable | tuple[Hashable, ...], Tensor] | None = None, batch: int | None = None
    ) -> Parts:
        """Return the scores of a batch as `Parts`: the given scores plus the tables of the graph.

        Args:
            scores: scores by variable, or by the variables of a factor in its order: `[B, labels, ...]`, or
                `[labels, ...]` for scores that all examples share. Missing scores are zero.
            batch: number of examples B; by default the B of the scores, or 1 if no scores have it.

        Example:
            >>> from gspen_ner.graphs import FactorGraph
            >>> graph = FactorGraph.of_edges([2, 3], [(0, 1)]).compile()
            >>> graph.potentials({0: torch.zeros(4, 2), (0, 1): torch.zeros(2, 3)}).edges.shape
            torch.Size([4, 1, 3, 3])
        """
        given = {self._scope(key): as_scores(value) for key, value in (scores or {}).items()}
        sizes = {len(value) for scope, value in given.items() if value.dim() == len(scope) + 1}
        sizes |= set() if batch is None else {batch}
        if len(sizes) > 1:
            raise ValueError(f"scores must be of one batch, got batches of different sizes: {sorted(sizes)}")
        rows = sizes.pop() if sizes else 1
        like = next((value for values in (given, self.tables) for value in values.values()), torch.zeros(()))
        cells = like.new_zeros(rows, self.index.num_cells)
        entries = like.new_zeros(rows, self.index.num_entries)
        for scope, value in (*given.items(), *self.tables.items()):
            shape, start = self._find(scope)
            if list(value.shape) not in (shape, [rows, *shape]):
                raise ValueError(
                    f"scores of {scope!r} must be {shape} or [batch, {', '.join(map(str, shape))}], "
                    f"got {list(value.shape)}"
                )
            flat, size = cells if len(scope) == 1 else entries, int(np.prod(shape))
            flat[:, start : start + size] += value.to(like).reshape(-1, size)
        return self.unflatten(cells, entries)

    def flatten(self, scores: Parts) -> tuple[Cells, Entries]:
        """Return the scores of a batch in flat rows, without padding."""
        self._check_shapes(scores)
        batch, index, labels = len(scores.nodes), self.index, self.max_labels
        cells = scores.nodes.reshape(batch, -1)
        cells = cells if self.is_uniform else cells[:, index.node_cells]
        small = index.num_entries - index.num_large
        if scores.edges is None:
            entries = cells.new_zeros(batch, small)
        else:
            entries = scores.edges.expand(batch, self.num_edges, labels, labels).reshape(batch, -1)
            entries = entries if self.is_uniform else entries[:, index.edge_cells]
        if not index.num_large:
            return cells, entries
        factors = cells.new_zeros(1, index.num_large) if scores.factors is None else scores.factors
        return cells, torch.cat([entries, factors.expand(batch, -1)], 1)

    def unflatten(self, cells: Cells, entries: Entries | None) -> Parts:
        """Return flat rows as `Parts`; zero for labels that a variable does not have."""
        batch, index, labels = len(cells), self.index, self.max_labels
        nodes = self._pad(cells, index.node_cells, self.num_nodes * labels)
        nodes = nodes.view(batch, self.num_nodes, labels)
        if entries is None:
            return Parts(nodes)
        edges = factors = None
        small = index.num_entries - index.num_large
        if self.num_edges:
            flat = self._pad(entries[:, :small], index.edge_cells, self.num_edges * labels**2)
            edges = flat.reshape(batch, self.num_edges, labels, labels)
        if index.num_large:
            factors = entries[:, small:]
        return Parts(nodes, edges, factors)

    def entries_of(self, labels: Int[Tensor, "B N"]) -> Int[Tensor, "B F"]:
        """Return the entry of each factor that a labelling uses, as an index into flat rows."""
        index = self.index
        strides = torch.tensor(index.slot_strides, device=labels.device)
        nodes = torch.tensor(index.slot_nodes, device=labels.device)
        factors = torch.tensor(index.slot_factors, device=labels.device)
        start = torch.tensor(index.entry_starts[:-1], device=labels.device)
        return start.expand(len(labels), -1).index_add(1, factors, labels[:, nodes] * strides)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all variables have the same number of labels, so that there is no padding."""
        return len(set(self.label_counts)) == 1

    def _check_shapes(self, scores: Parts) -> None:
        if not len(scores.nodes):
            raise ValueError("a batch must have at least one example, got an empty batch")
        if scores.nodes.shape[1:] != (self.num_nodes, self.max_labels):
            raise ValueError(
                f"this graph has {self.num_nodes} nodes of at most {self.max_labels} labels, "
                f"got node scores {list(scores.nodes.shape)}"
            )
        if scores.edges is not None and scores.edges.shape[1] not in (1, self.num_edges):
            raise ValueError(f"this graph has {self.num_edges} edges, got scores of {scores.edges.shape[1]}")
        if scores.factors is not None and scores.factors.shape[1] != self.index.num_large:
            raise ValueError(
                f"this graph has {self.index.num_large} entries in factors over three or more variables, "
                f"got scores of {scores.factors.shape[1]}"
            )

    def _pad(self, flat: Tensor, indices: np.ndarray, size: int) -> Tensor:
        """Return flat rows with zeros inserted, so that they have `size` columns."""
        if self.is_uniform:
            return flat
        return flat.new_zeros(len(flat), size).index_copy(1, torch.tensor(indices, device=flat.device), flat)

    def _scope(self, key: Hashable | tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Return the variables of a key: a variable's name, which may be a tuple, or a tuple of names."""
        return key if isinstance(key, tuple) and key not in self._numbers else (key,)

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _factors(self) -> dict[tuple[int, ...], int]:
        return {scope: factor for factor, scope in enumerate(self.scopes)}

    def _find(self, scope: tuple[Hashable, ...]) -> tuple[list[int], int]:
        """Return the shape of a factor's table, and the column of flat rows at which it starts."""
        numbers = tuple(self._numbers.get(name, -1) for name in scope)
        if -1 in numbers or (len(scope) > 1 and numbers not in self._factors):
            permuted = [other for other in self.scopes if sorted(other) == sorted(numbers)]
            hint = f", only over {tuple(self.names[n] for n in permuted[0])!r}" if permuted else ""
            raise ValueError(f"this graph has no factor over {scope!r}{hint}")
        shape = [self.label_counts[number] for number in numbers]
        if len(numbers) == 1:
            return shape, int(self.index.cell_starts[numbers[0]])
        return shape, int(self.index.entry_starts[self._factors[numbers]])


def as_scores(values: Tensor | Sequence) -> Tensor:
    """Return numbers as a floating-point tensor; integers get torch's default dtype."""
    tensor = torch.as_tensor(values)
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())
