"""A linear-chain CRF layer: emissions in, likelihood, labels and exact marginals out.

    p(y | x) ~ exp( start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t, y_{t+1}] + end[y_T] )

It can replace pytorch-crf's `CRF`: it has the same arguments, parameter names and results. Masks may have
gaps ([CLS], sub-tokens); the chain then consists of the unmasked positions.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gspen_ner import kernels
from gspen_ner.decode import label_lists
from gspen_ner.labels import Labels
from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain

Emissions = Float[Tensor, "B T L"]
Reduction = Literal["none", "sum", "mean", "token_mean"]


class ScoredLabels(NamedTuple):
    """A labelling and its score."""

    labels: list[int]
    score: float


class LinearChainCRF(nn.Module):
    """A conditional random field over label sequences.

    Args:
        num_labels: number of labels.
        batch_first: whether tensors are `[batch, length, ...]`; by default `[length, batch, ...]`, as in
            pytorch-crf.
        constraints: labels whose scheme (BIO, BIOES) forbids transitions, in training and decoding; None
            (default) allows all.

    Example:
        >>> crf = LinearChainCRF(3, batch_first=True)
        >>> emissions = torch.randn(2, 4, 3)
        >>> mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
        >>> loss = -crf(emissions, torch.zeros(2, 4, dtype=torch.long), mask, reduction="mean")
        >>> [len(labels) for labels in crf.decode(emissions, mask)]
        [4, 2]
        >>> crf.marginals(emissions, mask).sum(-1)[1].round().tolist()  # zero where masked
        [1.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, num_labels: int, batch_first: bool = False, constraints: Labels | None = None) -> None:
        super().__init__()
        if num_labels < 1:
            raise ValueError(f"num_labels must be at least 1, got {num_labels}")
        if constraints is not None and len(constraints.names) != num_labels:
            raise ValueError(f"constraints must be for {num_labels} labels, got {len(constraints.names)}")
        self.num_labels, self.batch_first = num_labels, batch_first
        self.start_transitions = nn.Parameter(torch.empty(num_labels))
        self.end_transitions = nn.Parameter(torch.empty(num_labels))
        self.transitions = nn.Parameter(torch.empty(num_labels, num_labels))
        self.constraints = constraints
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all transition scores uniformly from [-0.1, 0.1]."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        scheme = None if self.constraints is None else self.constraints.scheme
        return f"num_labels={self.num_labels}, batch_first={self.batch_first}, constraints={scheme}"

    def forward(
        self,
        emissions: Emissions,
        tags: Int[Tensor, "B T"] | Bool[Tensor, "B T L"],
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
    ) -> Float[Tensor, ...]:
        """Return the log likelihood of the labels (larger is better).

        Args:
            emissions: scores of every label at every position.
            tags: gold labels, or a boolean `[B, T, L]` of the labels that are allowed at each position
                (partial annotation: the likelihood of all labellings with allowed labels).
            mask: False at positions to leave out; None (default) leaves out none.
            reduction: `"none"` for a value per row, or their sum (default), mean, or mean over tokens.
        """
        partial = tags.dim() == 3
        expected = tuple(emissions.shape) if partial else tuple(emissions.shape[:2])
        if tuple(tags.shape) != expected or (partial and tags.dtype != torch.bool):
            raise ValueError(
                f"tags must be integers {list(emissions.shape[:2])} or booleans {list(emissions.shape)}, "
                f"got {tags.dtype} {list(tags.shape)}"
            )
        rows = self._rows(emissions, mask)
        gold = rows.pack(tags if self.batch_first else tags.transpose(0, 1))
        if partial:
            theta, chain = self._chain(rows)
            allowed = Parts(theta.nodes.masked_fill(~gold, -torch.inf), theta.edges)
            likelihood = chain.log_partition(allowed) - chain.log_partition(theta)
        else:
            start, table, end = self.transition_scores()
            edges = table.view(1, 1, *table.shape)
            likelihood = kernels.log_likelihood(rows.values, edges, rows.lengths, gold, start, end)
        dtype = torch.promote_types(emissions.dtype, self.transitions.dtype)
        return _reduce(likelihood, rows.lengths, reduction).to(dtype)

    @torch.no_grad()
    def decode(self, emissions: Emissions, mask: Tensor | None = None) -> list[list[int]]:
        """Return the most likely labels of each row, without masked positions."""
        theta, chain = self.potentials(emissions, mask)
        return label_lists(chain.argmax(theta))

    @torch.no_grad()
    def k_best(self, emissions: Emissions, k: int, mask: Tensor | None = None) -> list[list[ScoredLabels]]:
        """Return the k most likely labellings of each row, best first; fewer if there are not as many."""
        theta, chain = self.potentials(emissions, mask)
        scores, labels = chain.k_best(theta, k)
        return [
            [ScoredLabels(row, score) for row, score in zip(label_lists(paths), values, strict=True) if row]
            for paths, values in zip(labels, scores.tolist(), strict=True)
        ]

    @torch.no_grad()
    def sample(
        self,
        emissions: Emissions,
        count: int = 1,
        mask: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> list[list[list[int]]]:
        """Return `count` labellings of each row, drawn from the model."""
        theta, chain = self.potentials(emissions, mask)
        draws = chain.sample(theta, count, generator)
        return [label_lists(draws[:, row]) for row in range(len(theta.nodes))]

    def marginals(self, emissions: Emissions, mask: Tensor | None = None) -> Float[Tensor, "B T L"]:
        """Return the probability of every label at every position; zero where masked."""
        rows = self._rows(emissions, mask)
        theta, chain = self._chain(rows)
        probabilities = rows.unpack(chain.sums(theta, with_edges=False)[1].nodes)
        return probabilities if self.batch_first else probabilities.transpose(0, 1)

    def entropy(self, emissions: Emissions, mask: Tensor | None = None) -> Float[Tensor, " rows"]:
        """Return the entropy of each row's distribution over labellings, in nats."""
        theta, chain = self.potentials(emissions, mask)
        return chain.distribution_entropy(theta).to(theta.nodes.dtype)

    def potentials(self, emissions: Emissions, mask: Tensor | None = None) -> tuple[Parts, Chain]:
        """Return scores and chains for `GSPENHead`, batch first and without gaps.

        Labels and mentions of the same positions must be converted to this layout by `pack`.
        """
        return self._chain(self._rows(emissions, mask))

    def pack(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return values per position (labels, mentions) in the layout of `potentials`.

        Example:
            >>> crf = LinearChainCRF(3, batch_first=True)
            >>> crf.pack(torch.tensor([[9, 1, 9, 2]]), torch.tensor([[False, True, False, True]]))
            tensor([[1, 2, 9, 9]])
        """
        return self._batch_first(values, mask).values

    def _rows(self, emissions: Tensor, mask: Tensor | None) -> _Rows:
        if emissions.dim() != 3 or emissions.shape[2] != self.num_labels:
            raise ValueError(
                f"emissions must be 3-dimensional with {self.num_labels} labels last, "
                f"got {list(emissions.shape)}"
            )
        return self._batch_first(emissions, mask)

    def _batch_first(self, values: Tensor, mask: Tensor | None) -> _Rows:
        if mask is not None and mask.shape != values.shape[:2]:
            raise ValueError(f"mask must be {list(values.shape[:2])}, got {list(mask.shape)}")
        if not self.batch_first:
            values = values.transpose(0, 1)
            mask = None if mask is None else mask.transpose(0, 1)
        return _Rows(values, mask)

    def transition_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return start, transition and end scores, -inf where the label scheme forbids the transition."""
        scores = self.start_transitions, self.transitions, self.end_transitions
        if self.constraints is None:
            return scores
        start, table, end = (
            score.masked_fill(~allowed.to(score.device), -torch.inf)
            for score, allowed in zip(scores, self.constraints.legal, strict=True)
        )
        return start, table, end

    def _chain(self, rows: _Rows) -> tuple[Parts, Chain]:
        start, table, end = self.transition_scores()
        chain = Chain(rows.lengths)
        return chain.potentials(rows.values, table, start, end), chain


class _Rows:
    """Values per position (emissions, labels) without masked positions, and the way back."""

    def __init__(self, values: Tensor, mask: Tensor | None) -> None:
        batch, length = values.shape[:2]
        self.order: Tensor | None = None
        if mask is None:
            self.lengths = torch.full((batch,), length, device=values.device)
        else:
            mask = mask.bool()
            self.lengths = mask.sum(1)
            if not self.lengths.all():
                row = int((self.lengths == 0).nonzero()[0])
                raise ValueError(f"row {row}: the mask must keep at least one position, got none")
            if not (mask[:, 1:] <= mask[:, :-1]).all():  # gaps, or padding on the left
                self.order = (~mask).to(torch.int8).argsort(dim=1, stable=True)
        self.values = self.pack(values)

    def pack(self, values: Tensor) -> Tensor:
        """Return values with the unmasked positions of each row moved to the front."""
        return values if self.order is None else values.gather(1, self._index(values))

    def unpack(self, values: Tensor) -> Tensor:
        """Return packed values at their original positions, zero elsewhere."""
        if self.order is None:
            return values
        return torch.zeros_like(values).scatter(1, self._index(values), values)

    def _index(self, values: Tensor) -> Tensor:
        assert self.order is not None
        return self.order if values.dim() == 2 else self.order[..., None].expand(values.shape)


def _reduce(values: Tensor, lengths: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean":
        return values.mean()
    if reduction == "token_mean":
        return values.sum() / lengths.sum()
    raise ValueError(f"reduction must be none, sum, mean or token_mean, got {reduction!r}")
