"""Decoding: labels and spans from marginals and scores.

    P(span) = p_i(B) prod_t p_{t,t+1}(., .) / p_t(.)   and, in BIO, the next tag does not continue it

These are exact probabilities of whole spans under the chain, not products of token probabilities. Choosing
the non-overlapping spans that maximise sum (P(span) - lambda) with lambda = F / 2 maximises the expected F1,
with the approximation F = 2 E[correct] / (predicted + E[gold]), which is accurate for many sentences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.labels import Labels, Span
from gspen_ner.parts import Parts, wide_dtype
from gspen_ner.polytopes.chain import Chain

Decoder = Literal["viterbi", "spans"]
"""The method by which entities are predicted; see `scored_entities`."""
DECODER: Decoder = "viterbi"
"""The default method."""

THRESHOLD = 0.5
"""Default probability above which the decoder `spans` predicts an entity."""

# Lowest threshold in the search for the best one; spans with a lower probability are ignored.
_LOWEST_THRESHOLD = 0.05


class ScoredSpan(NamedTuple):
    """A span and its exact probability or, of a calibrated tagger, the confidence in it.

    Example:
        >>> ScoredSpan(Span(0, 2, "PER"), 0.93).probability
        0.93
    """

    span: Span
    probability: float


@runtime_checkable
class _Scored(Protocol):
    @property
    def span(self) -> Span: ...

    @property
    def probability(self) -> float: ...


Scored = TypeVar("Scored", bound=_Scored)


def label_lists(labels: Int[Tensor, "B N"]) -> list[list[int]]:
    """Return rows of labels without their padding (-1)."""
    return [[label for label in row if label >= 0] for row in labels.tolist()]


def span_probabilities(
    theta: Parts, chain: Chain, labels: Labels, spans: Sequence[Sequence[Span]]
) -> list[list[float]]:
    """Return the exact probability of each given span of each sentence.

    Example:
        >>> labels = Labels(("O", "B-PER", "I-PER"), "BIO")
        >>> chain = Chain(torch.tensor([2]))
        >>> theta = chain.potentials(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> round(span_probabilities(theta, chain, labels, [[Span(0, 1, "PER")]])[0][0], 3)
        0.222
    """
    if len(spans) != len(theta.nodes):
        raise ValueError(f"spans must be given for {len(theta.nodes)} sentences, got {len(spans)}")
    for row, (row_spans, length) in enumerate(zip(spans, chain.lengths.tolist(), strict=True)):
        for span in row_spans:
            if not 0 <= span.start < span.end <= length:
                raise ValueError(f"row {row}: {span} does not fit into {length} tokens")
    if not any(spans):
        return [[] for _ in spans]
    marginals = wide_marginals(theta, chain)
    return [
        [_span_probability(nodes, edges, labels, span) for span in row_spans]
        for nodes, edges, row_spans in zip(*marginals, spans, strict=True)
    ]


def wide_marginals(theta: Parts, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """Return the marginals of tokens and of neighbouring tokens in the widest float, for `path_probability`.

    Example:
        >>> chain = Chain(torch.tensor([2]))
        >>> nodes, edges = wide_marginals(chain.potentials(torch.zeros(1, 2, 3), torch.zeros(3, 3)), chain)
        >>> nodes.shape, edges.shape
        ((1, 2, 3), (1, 1, 3, 3))
    """
    marginals = chain.marginals(theta.per_position())
    assert marginals.edges is not None
    wide = wide_dtype(marginals.nodes.device)
    return marginals.nodes.to(wide).cpu().numpy(), marginals.edges.to(wide).cpu().numpy()


def path_probability(
    nodes: np.ndarray,
    edges: np.ndarray,
    start: int,
    path: Sequence[int],
    not_before: Sequence[int] = (),
    not_after: Sequence[int] = (),
) -> float:
    """Return the probability that tokens have these labels, and the tokens around them no excluded ones.

    Args:
        nodes: marginals of the tokens of a sentence, `[T, L]`.
        edges: marginals of its neighbouring tokens, `[T - 1, L, L]`.
        start: position of the first of the tokens.
        path: label of each of the tokens.
        not_before: labels that the token before them, if there is one, must not have.
        not_after: labels that the token after them, if there is one, must not have.

    Example:
        >>> chain = Chain(torch.tensor([2]))
        >>> theta = chain.potentials(torch.zeros(1, 2, 3), torch.zeros(3, 3))
        >>> nodes, edges = wide_marginals(theta, chain)
        >>> round(path_probability(nodes[0], edges[0], start=0, path=[1], not_after=[2]), 3)
        0.222
    """
    last = start + len(path) - 1
    probability = nodes[start, path[0]]
    if start and not_before:
        probability -= probability * _share(edges[start - 1, not_before, path[0]].sum(), probability)
    for at, (label, following) in enumerate(pairwise(path), start):
        probability *= _share(edges[at, label, following], nodes[at, label])
    if last + 1 < len(nodes) and not_after:
        probability -= probability * _share(edges[last, path[-1], not_after].sum(), nodes[last, path[-1]])
    return max(0.0, float(probability))


def _share(joint: float, mass: float) -> float:
    """Return a conditional probability; 0 for an impossible condition."""
    return joint / mass if mass > 0 else 0.0


def _span_probability(nodes: np.ndarray, edges: np.ndarray, labels: Labels, span: Span) -> float:
    width, inside = span.end - span.start, labels.index("I", span.type)
    if labels.scheme == "BIO":
        prefixes, not_after = "B" + "I" * (width - 1), [] if inside is None else [inside]
    else:
        prefixes, not_after = "S" if width == 1 else "B" + "I" * (width - 2) + "E", []
    path = [number for prefix in prefixes if (number := labels.index(prefix, span.type)) is not None]
    if len(path) < width:  # there is no such label
        return 0.0
    return path_probability(nodes, edges, span.start, path, not_after=not_after)


def likely_spans(theta: Parts, chain: Chain, labels: Labels, minimum: float = 0.5) -> list[list[ScoredSpan]]:
    """Return all spans with a probability of at least `minimum`; they may overlap.

    Example:
        >>> labels = Labels(("O", "B-PER", "I-PER"), "BIO")
        >>> chain = Chain(torch.tensor([2]))
        >>> theta = chain.potentials(torch.tensor([[[0.0, 5.0, 0.0], [5.0, 0.0, 0.0]]]), torch.zeros(3, 3))
        >>> [scored.span for scored in likely_spans(theta, chain, labels)[0]]
        [Span(start=0, end=1, type='PER')]
    """
    spans: list[list[ScoredSpan]] = [[] for _ in theta.nodes]
    for width, table, open_mass in _by_width(theta, chain, labels):
        fits = (torch.arange(table.shape[1]) + width <= chain.lengths[:, None].cpu())[..., None]
        for row, start, type_index in ((table.cpu() >= minimum) & fits).nonzero().tolist():
            span = Span(start, start + width, labels.types[type_index])
            spans[row].append(ScoredSpan(span, float(table[row, start, type_index])))
        if not (open_mass >= minimum).any():  # a longer span is at most as probable as its beginning
            break
    return spans


def decode_spans(
    theta: Parts, chain: Chain, labels: Labels, threshold: float | None = None
) -> list[list[ScoredSpan]]:
    """Return non-overlapping spans that maximise `sum (P - threshold)`, or the expected F1.

    Args:
        theta: scores of the chains, such as a solution's theta.
        chain: the chains.
        labels: the labels.
        threshold: lambda, tuned on held-out data. By default, the threshold that maximises the expected F1 of
            the whole batch (if this F1 is at least 0.1); a batch of many sentences gives a better estimate.

    Example:
        >>> labels = Labels(("O", "B-PER", "I-PER"), "BIO")
        >>> chain = Chain(torch.tensor([2]))
        >>> theta = chain.potentials(torch.tensor([[[0.0, 5.0, 0.0], [5.0, 0.0, 0.0]]]), torch.zeros(3, 3))
        >>> span, probability = decode_spans(theta, chain, labels)[0][0]
        >>> span, round(probability, 2)
        (Span(start=0, end=1, type='PER'), 0.98)
    """
    if threshold is not None:
        candidates = likely_spans(theta, chain, labels, threshold)
        return [best_non_overlapping(row, threshold) for row in candidates]
    candidates = likely_spans(theta, chain, labels, _LOWEST_THRESHOLD)
    opens = [index for index, name in enumerate(labels.names) if name[0] in "BS"]
    # the expected number of labels that open a span; in a legal chain, the number of spans
    expected_gold = float(chain.sums(theta, with_edges=False)[1].nodes[..., opens].sum())
    threshold = THRESHOLD
    for _ in range(100):  # Dinkelbach's iteration; it converges in a few rounds
        chosen = [best_non_overlapping(row, threshold) for row in candidates]
        predicted = [span for row in chosen for span in row]
        correct = sum(span.probability for span in predicted)
        better = max(correct / max(len(predicted) + expected_gold, 1e-12), _LOWEST_THRESHOLD)
        if abs(better - threshold) < 1e-9:
            break
        threshold = better
    return chosen


def best_non_overlapping(candidates: Sequence[Scored], threshold: float) -> list[Scored]:
    """Return the subset without overlaps that maximises sum (probability - threshold)."""
    ordered = sorted((c for c in candidates if c.probability > threshold), key=lambda c: c.span.end)
    ends = [candidate.span.end for candidate in ordered]
    gains, takes = [0.0], []
    for rank, candidate in enumerate(ordered):
        before = bisect_right(ends, candidate.span.start, 0, rank)
        gain = gains[before] + candidate.probability - threshold
        takes.append((gain > gains[-1], before))
        gains.append(max(gain, gains[-1]))
    chosen, rank = [], len(ordered)
    while rank:
        take, before = takes[rank - 1]
        if take:
            chosen.append(ordered[rank - 1])
        rank = before if take else rank - 1
    return chosen[::-1]


def scored_entities(
    theta: Parts,
    chain: Chain,
    labels: Labels,
    decoder: Decoder = DECODER,
    threshold: float = THRESHOLD,
) -> list[list[ScoredSpan]]:
    """Return the entities of each sentence with their exact probabilities.

    Args:
        theta: scores of the chains, such as a solution's theta.
        chain: the chains.
        labels: the labels.
        decoder: `"viterbi"` (default): the entities of the most likely labelling. `"spans"`: all entities
            with a probability above the threshold, without overlaps; this approximates the entities with
            the largest expected F1.
        threshold: threshold of the decoder `"spans"`; above 0.5, none can overlap anyway.

    Example:
        >>> labels = Labels(("O", "B-PER", "I-PER"), "BIO")
        >>> chain = Chain(torch.tensor([2]))
        >>> theta = chain.potentials(torch.tensor([[[0.0, 1.0, 0.0], [0.4, 0.0, 0.5]]]), torch.zeros(3, 3))
        >>> span, probability = scored_entities(theta, chain, labels)[0][0]
        >>> span, round(probability, 2)  # it is in the most likely labelling, but its end is uncertain
        (Span(start=0, end=2, type='PER'), 0.23)
        >>> scored_entities(theta, chain, labels, "spans")
        [[]]
    """
    if decoder == "spans":
        return decode_spans(theta, chain, labels, threshold)
    spans = [labels.spans_of_indices(path) for path in label_lists(chain.argmax(theta))]
    probabilities = span_probabilities(theta, chain, labels, spans)
    return [list(map(ScoredSpan, *row)) for row in zip(spans, probabilities, strict=True)]


def _by_width(
    theta: Parts, chain: Chain, labels: Labels
) -> Iterator[tuple[int, Float[Tensor, "B N types"], Float[Tensor, "B N types"]]]:
    """Yield for each width: width, P(span of type x starts at i), P(it starts at i and is longer)."""
    marginals = chain.marginals(theta.per_position())
    assert marginals.edges is not None
    wide = wide_dtype(marginals.nodes.device)
    nodes = torch.nn.functional.pad(marginals.nodes.to(wide), (0, 1))  # with a last label that never occurs
    edges = torch.nn.functional.pad(marginals.edges.to(wide), (0, 1, 0, 1, 0, 1))
    absent = len(labels.names)
    begin, inside, end, single = (
        [absent if (index := labels.index(prefix, type_)) is None else index for type_ in labels.types]
        for prefix in "BIES"
    )

    def step(before: list[int], after: list[int], shift: int) -> Tensor:
        """Return P(label `after` at i + shift + 1 | label `before` at i + shift) for each i."""
        joint, single_mass = edges[:, shift:, before, after], nodes[:, shift:, before]
        ratio = torch.where(single_mass > 0, joint / single_mass, 0.0)
        return torch.nn.functional.pad(ratio, (0, 0, 0, shift))

    open_spans, last = nodes[:, :, begin], begin  # P(a span starts at i and has at least this width)
    ended = nodes[:, :, single]  # BIOES: P(a span starts at i and has exactly this width)
    for width in range(1, theta.nodes.shape[1] + 1):
        continued = open_spans * step(last, inside, width - 1)
        if labels.scheme == "BIO":
            yield width, (open_spans - continued).clamp_min(0.0), continued
        else:
            end_next = open_spans * step(last, end, width - 1)
            yield width, ended, end_next + continued
            ended = end_next
        open_spans, last = continued, inside
