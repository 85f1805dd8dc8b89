"""A Flair tagger with the interface of this package's taggers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import torch
from flair.data import Sentence
from flair.models import SequenceTagger
from flair.training_utils import store_embeddings

from gspen_ner.hosts.flair.chain import ChainView
from gspen_ner.hosts.flair.sentences import as_flair, batches_of
from gspen_ner.hosts.flair.tagger import MOST_SENTENCES, GSPENTagger
from gspen_ner.hosts.loading import FLAIR_FILE
from gspen_ner.labels import Labels
from gspen_ner.ner.confidence import Confidences
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.predictions import ChainScores, SentenceTagger
from gspen_ner.polytopes import Chain


class FlairTagger(SentenceTagger):
    """Tags sentences with a Flair tagger.

    Args:
        tagger: a plain tagger with a CRF, or one with a global term.
    """

    def __init__(self, tagger: SequenceTagger) -> None:
        self.tagger = tagger.eval()
        self.system = "gspen" if isinstance(tagger, GSPENTagger) else "struct"
        self.view = ChainView(tagger)
        if self.view.labels is None:
            raise ValueError(f"the tagger's tags are no spans: {', '.join(self.view.names[:8])}, ...")
        self.labels: Labels = self.view.labels

    @classmethod
    def load(cls, file: Path) -> FlairTagger:
        """Return the tagger of a file by Flair's `save`; see `load_flair`."""
        return cls(load_flair(file))

    @property
    def couples_documents(self) -> bool:
        """Whether the sentences of a document are inferred together."""
        return isinstance(self.tagger, GSPENTagger) and self.tagger.couples_documents

    @property
    def confidences(self) -> Confidences | None:
        """How sure it is of its entities: what the tagger with its term keeps."""
        return self.tagger.confidences if isinstance(self.tagger, GSPENTagger) else None

    @confidences.setter
    def confidences(self, confidences: Confidences | None) -> None:
        if not isinstance(self.tagger, GSPENTagger):
            raise ValueError(
                "expected a GSPENTagger, got a plain SequenceTagger, whose file has no room for confidences: "
                "see GSPENTagger.from_sequence_tagger"
            )
        self.tagger.confidences = confidences

    def save(self, folder: str | Path) -> None:
        """Write the tagger with its confidences, by Flair's `save`."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.tagger.save(Path(folder, FLAIR_FILE))

    def scores(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        record_trace: bool = False,
    ) -> Iterator[ChainScores]:
        """Return scores of sentences; see `SentenceTagger`."""
        documents = range(len(sentences)) if documents is None else documents
        untagged = [
            TaggedSentence(tuple(tokens), ("O",) * len(tokens), int(document))
            for tokens, document in zip(sentences, documents, strict=True)
        ]
        converted = as_flair(untagged)
        row_of = {id(sentence): row for row, sentence in enumerate(converted)}
        with_tokens = [sentence for sentence in converted if len(sentence)]
        for batch in batches_of(with_tokens, MOST_SENTENCES, self.couples_documents):
            batch.sort(key=len, reverse=True)
            rows = [row_of[id(sentence)] for sentence in batch]
            yield self._scored(rows, batch, record_trace)
            store_embeddings(batch, "none")

    @torch.no_grad()
    def _scored(self, rows: list[int], batch: list[Sentence], record_trace: bool) -> ChainScores:
        """Return scores of sentences, longest first, without and with the global term."""
        tagger = self.tagger
        if isinstance(tagger, GSPENTagger):
            inference = tagger.infer(batch, record_trace)
            chain = cast(Chain, inference.polytope)
            scores = (inference.potentials, inference.theta, chain, inference.solution)
            return ChainScores(rows, *scores, confidences=self.confidences)
        base, chain = self.view.score(tagger, batch)
        return ChainScores(rows, base, base, chain)


def load_flair(file: Path) -> SequenceTagger:
    """Return what Flair's `save` wrote: a pickle, so read only files that you trust."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=False)
        tagger_class = GSPENTagger if "gspen" in state else SequenceTagger
        return tagger_class.load(state)
    except (OSError, RuntimeError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{file}: not a Flair tagger that can be read: {error}") from None
