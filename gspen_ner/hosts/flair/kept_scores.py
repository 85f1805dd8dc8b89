"""Scores of sentences by a base model that does not change any more: each sentence is scored once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from flair.data import Sentence
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gspen_ner.hosts.flair.chain_view import FlairScores


class KeptScores:
    """The scores asked for so far. Sentences can be neither copied nor pickled: a copy of this is empty."""

    def __init__(self) -> None:
        self._emissions: dict[int, tuple[Sentence, Tensor]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_emissions": {}}

    def clear(self) -> None:
        """Forget them all."""
        self._emissions.clear()

    @torch.no_grad()
    def of(
        self, sentences: list[Sentence], score: Callable[[list[Sentence]], FlairScores]
    ) -> tuple[Float[Tensor, "B T K"], Int[Tensor, " B"]]:
        """Emissions and lengths of sentences.

        Args:
            sentences: longest first, as Flair wants them.
            score: what a tagger's forward returns; asked only for sentences that were not scored before.
        """
        missing = [sentence for sentence in sentences if not self._has(sentence)]
        if missing:
            emissions, lengths, _ = score(missing)
            for sentence, row, length in zip(missing, emissions, lengths, strict=True):
                self._emissions[id(sentence)] = sentence, row[: int(length)].clone()
        rows = [self._emissions[id(sentence)][1] for sentence in sentences]
        return pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def _has(self, sentence: Sentence) -> bool:
        return id(sentence) in self._emissions and self._emissions[id(sentence)][0] is sentence
