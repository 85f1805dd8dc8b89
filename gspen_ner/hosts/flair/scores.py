"""Scores of sentences by frozen base models: each sentence is scored once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from flair.data import Sentence
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain
from gspen_ner.training.stages import version_at


class SentenceScores(NamedTuple):
    """The scores of one sentence.

    Args:
        sentence: the sentence.
        nodes: scores of its tokens' labels; start and end scores are folded in.
        table: scores of neighbouring labels, which the sentences of a base model share.
    """

    sentence: Sentence
    nodes: Float[Tensor, "T L"]
    table: Float[Tensor, "L L"]


class KeptScores:
    """Scores of sentences, in one or more versions; successive calls rotate through the versions.

    Sentences can be neither copied nor pickled: a copy of this is empty.
    """

    def __init__(self) -> None:
        self._versions: dict[int, list[SentenceScores]] = {}
        self._uses: Counter[int] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        return vars(KeptScores())

    def add(self, scores: Iterable[SentenceScores]) -> None:
        """Keep a version of the scores of each of some sentences."""
        for scored in scores:
            self._versions.setdefault(id(scored.sentence), []).append(scored)

    def missing(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences without scores."""
        return [sentence for sentence in sentences if id(sentence) not in self._versions]

    def clear(self) -> None:
        """Forget all scores."""
        vars(self).update(self.__getstate__())

    def of(self, sentences: Sequence[Sentence]) -> tuple[Parts, Chain]:
        """Return the next version of the scores of each sentence as a batch."""
        versions = [self._versions[id(sentence)] for sentence in sentences]
        uses = [self._uses[id(sentence)] for sentence in sentences]
        rows = [own[version_at(use, len(own))] for own, use in zip(versions, uses, strict=True)]
        self._uses.update(id(sentence) for sentence in sentences)
        nodes = pad_sequence([row.nodes for row in rows], batch_first=True).split(1)
        scores = Parts.join([Parts(own, row.table) for own, row in zip(nodes, rows, strict=True)])
        lengths = torch.tensor([len(row.nodes) for row in rows], device=scores.nodes.device)
        return scores, Chain(lengths)


def split(sentences: Sequence[Sentence], potentials: Parts, chain: Chain) -> list[SentenceScores]:
    """Return the scores of each sentence of a batch."""
    assert potentials.edges is not None
    table = potentials.edges[0, 0]
    return [
        SentenceScores(sentence, nodes[:length].clone(), table)
        for sentence, nodes, length in zip(sentences, potentials.nodes, chain.lengths.tolist(), strict=True)
    ]
