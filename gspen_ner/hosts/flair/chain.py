"""Flair's CRF as a chain of this package: its potentials, its loss, and tags with confidences.

Flair keeps START and STOP as tags like any other, forbids them by scores of -10,000, and indexes transitions
[to, from]. Here they become start and end scores, which is what they mean; no other tag changes.

`ChainDecoder` gives a token its marginal as confidence, and a span its exact probability or, calibrated, the
confidence that comes of it. Flair takes the mean score of its tokens as the score of a span, so all tokens of
a span have the span's score.
`PrefixDecoder` gives the confidences that Flair's own decoder gives.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, cast

import numpy as np
import torch
from flair.data import Label, Sentence, get_spans_from_bio
from flair.models import SequenceTagger
from flair.models.sequence_tagger_utils.crf import CRF, START_TAG, STOP_TAG
from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.decode import label_lists, path_probability, wide_marginals
from gspen_ner.labels import Labels, Scheme
from gspen_ner.losses import negative_log_likelihood
from gspen_ner.ner.confidence import Confidences
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain

FlairScores = tuple[Tensor, Tensor, Tensor]  # features, lengths, transitions: what a tagger's forward returns
Decoded = tuple[list[list[tuple[str, float]]], list[list[list[Label]]]]
Infer = Callable[[Parts, Chain, list[Sentence]], Parts]
Tables = tuple[np.ndarray, np.ndarray]  # marginals of the tokens of a sentence, and of neighbouring tokens


class EmissionScores(nn.Module):
    """Replaces Flair's CRF module, and shares its transitions: returns emissions, not [B, T, K, K] sums."""

    def __init__(self, crf: CRF) -> None:
        super().__init__()
        self.tagset_size, self.transitions = crf.tagset_size, crf.transitions

    def forward(self, features: Tensor) -> Tensor:
        """Return the features unchanged."""
        return features


class ChainView:
    """The tags of a Flair tagger that can be predicted: all but START and STOP.

    Args:
        tagger: the tagger.
        constraints: whether to forbid what its tag format forbids, default False; Flair itself does not.
    """

    def __init__(self, tagger: SequenceTagger, constraints: bool = False) -> None:
        items = tagger.label_dictionary.get_items()
        self.start, self.stop = items.index(START_TAG), items.index(STOP_TAG)
        self.live = [number for number, item in enumerate(items) if item not in (START_TAG, STOP_TAG)]
        self.names = [items[number] for number in self.live]
        self.number_of = {flair_number: number for number, flair_number in enumerate(self.live)}
        self.labels: Labels | None = None
        with suppress(ValueError):  # tags that are no spans (part of speech, <unk>)
            self.labels = Labels(tuple(self.names), cast(Scheme, tagger.tag_format))
        self.has_spans = any(name.startswith(("B-", "S-", "I-")) for name in self.names)  # as Flair has it
        if constraints and self.labels is None:
            tags = ", ".join(self.names[:6])
            raise ValueError(f"constraints need tags in {tagger.tag_format}, got {tags}, ...")
        self.legal = self.labels.legal if constraints and self.labels is not None else None

    def score(self, tagger: SequenceTagger, sentences: list[Sentence]) -> tuple[Parts, Chain]:
        """Return a tagger's scores of sentences, longest first, as potentials of chains."""
        return self.potentials(tagger.forward(*tagger._prepare_tensors(sentences)))

    def potentials(self, scores: FlairScores) -> tuple[Parts, Chain]:
        """Return Flair's scores as potentials of chains."""
        emissions, lengths, transitions = scores
        if emissions.dim() == 4:  # a plain Flair CRF: emissions + transitions, for every pair
            emissions = emissions[..., self.start] - transitions[:, self.start]
        among = transitions[self.live]
        start, table, end = among[:, self.start], among[:, self.live].mT, transitions[self.stop, self.live]
        if self.legal is not None:
            start, table, end = (
                part.masked_fill(~allowed.to(part.device), -torch.inf)
                for part, allowed in zip((start, table, end), self.legal, strict=True)
            )
        chain = Chain(torch.as_tensor(lengths, device=emissions.device))
        return chain.potentials(emissions[..., self.live], table, start, end), chain

    def numbers(self, prefixes: str, type_: str) -> list[int]:
        """Return the tags of an entity type with one of these prefixes."""
        return [n for n, name in enumerate(self.names) if name[:1] in prefixes and name[1:] == f"-{type_}"]

    def gold(self, labels: Int[Tensor, " tokens"], lengths: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
        """Return gold tags by sentence in the numbering of this view, from Flair's tags of all tokens."""
        ours = torch.tensor([self.number_of[number] for number in labels.tolist()], device=labels.device)
        rows = torch.zeros(len(lengths), int(max(lengths)), dtype=torch.long, device=labels.device)
        rows[Chain(torch.as_tensor(lengths, device=labels.device)).mask(rows.shape[1])] = ours
        return rows


class ChainLoss(nn.Module):
    """Replaces `ViterbiLoss`: the same sum of negative log likelihoods, by the fast kernels."""

    def __init__(self, view: ChainView) -> None:
        super().__init__()
        self.view = view

    def forward(self, scores: FlairScores, targets: Int[Tensor, " tokens"]) -> Float[Tensor, ""]:
        """Return the loss of a batch."""
        potentials, chain = self.view.potentials(scores)
        gold = self.view.gold(targets, scores[1])
        return negative_log_likelihood(potentials, chain, gold).sum().to(potentials.nodes.dtype)


class ChainDecoder:
    """Replaces `ViterbiDecoder`: best tags, with marginals as confidences of tokens, and those of spans.

    Args:
        view: tags of the tagger.
        infer: returns the scores to decode from the scores of the base model; by default these themselves.
    """

    def __init__(self, view: ChainView, infer: Infer | None = None) -> None:
        self.view, self.infer = view, infer
        self.scores_of: Literal["spans", "tokens"] = "spans"
        self.confidences: Confidences | None = None

    @torch.no_grad()
    def decode(self, scores: FlairScores, all_classes: bool, sentences: list[Sentence]) -> Decoded:
        """Return tags and confidences of a batch and, if `all_classes`, the marginals of all tags."""
        base, chain = self.view.potentials(scores)
        theta = base if self.infer is None else self.infer(base, chain, sentences)
        paths = label_lists(chain.argmax(theta))
        spans = self.view.has_spans and self.scores_of == "spans"
        if spans:
            tokens, pairs = wide_marginals(theta, chain)
            calibrated = self.confidences is not None and theta is not base
            before = wide_marginals(base, chain) if calibrated else (tokens, pairs)
        else:
            tokens = chain.marginals(theta).nodes.cpu().numpy()
        tags = []
        for row, path in enumerate(paths):
            names = [self.view.names[number] for number in path]
            confidences = [float(tokens[row, position, number]) for position, number in enumerate(path)]
            if spans:
                tables = ((tokens[row], pairs[row]), (before[0][row], before[1][row]))
                self._score_spans(names, confidences, path, *tables)
            tags.append(list(zip(names, confidences, strict=True)))
        return tags, self._all_tags(tokens, sentences) if all_classes else []

    def _score_spans(
        self, names: list[str], confidences: list[float], path: list[int], tables: Tables, base: Tables
    ) -> None:
        """Give the tokens of every span the confidence of the span."""
        for positions, _, _ in get_spans_from_bio(list(names), list(confidences)):  # it appends
            first, last = positions[0], positions[-1]
            confidence = self._probability(path, first, last, tables)
            if self.confidences is not None:
                before = self._probability(path, first, last, base)
                confidence = float(self.confidences.full(confidence, before))
            confidences[first : last + 1] = [confidence] * (last + 1 - first)

    def _probability(self, path: list[int], first: int, last: int, tables: Tables) -> float:
        """Return the exact probability of a span of the best tags."""
        begin, end = self.view.names[path[first]], self.view.names[path[last]]
        before = self.view.numbers("BI", begin[2:]) if begin[0] in "IE" else []
        after = self.view.numbers("IE", end[2:]) if end[0] in "BI" else []
        return path_probability(*tables, first, path[first : last + 1], before, after)

    def _all_tags(self, tokens: np.ndarray, sentences: list[Sentence]) -> list[list[list[Label]]]:
        return [
            [
                [Label(token, name, float(p)) for name, p in zip(self.view.names, row, strict=True)]
                for token, row in zip(sentence, rows, strict=False)
            ]
            for sentence, rows in zip(sentences, tokens, strict=True)
        ]


class PrefixDecoder:
    """Best tags by the compiled kernel, with the confidences that Flair gives.

    Args:
        view: tags of the tagger.
        original: Flair's decoder, which formats the scores of all classes.
    """

    def __init__(self, view: ChainView, original: ViterbiDecoder) -> None:
        self.view, self.original = view, original

    def decode(self, scores: FlairScores, all_classes: bool, sentences: list[Sentence]) -> Decoded:
        """Return tags and confidences as Flair's decoder does."""
        theta, chain = self.view.potentials(scores)
        paths = label_lists(chain.argmax(theta))
        prefixes = torch.softmax(self._prefix_scores(*scores), 2)
        confidences = prefixes.max(2).values.tolist()
        tags = [
            [(self.view.names[number], score) for number, score in zip(path, row, strict=False)]
            for path, row in zip(paths, confidences, strict=True)
        ]
        if not all_classes:
            return tags, []
        padded = torch.zeros(prefixes.shape[:2], dtype=torch.long)
        for row, path in enumerate(paths):
            padded[row, : len(path)] = torch.tensor([self.view.live[number] for number in path])
        return tags, self.original._all_scores_for_token(
            prefixes.cpu(), padded, cast(Any, scores[1]), sentences
        )

    def _prefix_scores(self, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
        """Return the best score of a path that ends in a tag at a position, START and STOP included."""
        best = emissions[:, 0] + transitions[:, self.view.start]
        steps = [best]
        for position in range(1, emissions.shape[1]):
            best = (best[:, None] + transitions).amax(2) + emissions[:, position]
            steps.append(best)
        return torch.stack(steps, 1)
