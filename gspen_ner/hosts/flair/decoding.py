"""Flair's two hooks, replaced: the loss of a batch, and the tags of its sentences with their confidences.

`ChainDecoder` gives a token its marginal as confidence, and a span the exact probability of the span. Flair
takes the mean of its tokens' scores as that of a span, so all tokens of a span carry the span's.
`PrefixDecoder` gives the confidences that Flair's own decoder gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import torch
from flair.data import Label, Sentence, get_spans_from_bio
from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.decode import label_lists
from gspen_ner.hosts.flair.chain_view import ChainView, FlairScores
from gspen_ner.losses import negative_log_likelihood
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain

Decoded = tuple[list[list[tuple[str, float]]], list[list[list[Label]]]]
Infer = Callable[[Parts, Chain, list[Sentence]], Parts]


class ChainLoss(nn.Module):
    """In place of `ViterbiLoss`: the same sum of negative log likelihoods, by the fast kernels.

    Args:
        view: the tags.
    """

    def __init__(self, view: ChainView) -> None:
        super().__init__()
        self.view = view

    def forward(self, scores: FlairScores, targets: Int[Tensor, " tokens"]) -> Float[Tensor, ""]:
        """The loss of a batch."""
        potentials, chain = self.view.potentials(scores)
        gold = self.view.gold(targets, scores[1])
        return negative_log_likelihood(potentials, chain, gold).sum().to(potentials.nodes.dtype)


class ChainDecoder:
    """In place of `ViterbiDecoder`: best tags, with true marginals as confidences.

    Args:
        view: the tags.
        infer: makes the scores that are decoded out of the base model's; None decodes those.
    """

    def __init__(self, view: ChainView, infer: Infer | None = None) -> None:
        self.view, self.infer = view, infer
        self.scores_of: Literal["spans", "tokens"] = "spans"

    @torch.no_grad()
    def decode(self, scores: FlairScores, all_classes: bool, sentences: list[Sentence]) -> Decoded:
        """Tags and confidences of a batch and, if asked for, the marginals of all tags."""
        theta, chain = self.view.potentials(scores)
        if self.infer is not None:
            theta = self.infer(theta, chain, sentences)
        paths = label_lists(chain.argmax(theta))
        spans = self.view.has_spans and self.scores_of == "spans"
        marginals = chain.marginals(theta.per_position() if spans else theta)
        tokens = marginals.nodes.cpu().numpy()
        pairs = marginals.edges.cpu().numpy() if spans and marginals.edges is not None else None
        tags = []
        for row, path in enumerate(paths):
            names = [self.view.names[number] for number in path]
            confidences = [float(tokens[row, place, number]) for place, number in enumerate(path)]
            if pairs is not None:
                self._score_spans(names, confidences, path, tokens[row], pairs[row])
            tags.append(list(zip(names, confidences, strict=True)))
        return tags, self._all_tags(tokens, sentences) if all_classes else []

    def _score_spans(
        self,
        names: list[str],
        confidences: list[float],
        path: list[int],
        tokens: np.ndarray,
        pairs: np.ndarray,
    ) -> None:
        """Give the tokens of every span the probability of the span."""
        for places, _, _ in get_spans_from_bio(list(names), list(confidences)):  # it appends
            first, last = places[0], places[-1]
            probability = tokens[first, path[first]]
            if names[first][0] in "IE" and first:  # it must begin here, not go on
                before = self.view.numbers("BI", names[first][2:])
                probability *= max(0.0, 1 - pairs[first - 1, before, path[first]].sum() / probability)
            for place in range(first, last):
                probability *= pairs[place, path[place], path[place + 1]] / tokens[place, path[place]]
            if names[last][0] in "BI" and last + 1 < len(path):  # it must end here, not go on
                after = self.view.numbers("IE", names[last][2:])
                probability *= max(0.0, 1 - pairs[last, path[last], after].sum() / tokens[last, path[last]])
            confidences[first : last + 1] = [float(probability)] * (last + 1 - first)

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
        view: the tags.
        original: Flair's decoder, which lays out the scores of all classes.
    """

    def __init__(self, view: ChainView, original: ViterbiDecoder) -> None:
        self.view, self.original = view, original

    def decode(self, scores: FlairScores, all_classes: bool, sentences: list[Sentence]) -> Decoded:
        """As Flair's own."""
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
        """The best score of any path that ends in a tag at a position, START and STOP included."""
        best = emissions[:, 0] + transitions[:, self.view.start]
        steps = [best]
        for place in range(1, emissions.shape[1]):
            best = (best[:, None] + transitions).amax(2) + emissions[:, place]
            steps.append(best)
        return torch.stack(steps, 1)
