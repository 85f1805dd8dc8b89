"""A Flair tagger in use as any tagger of this package."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import torch
from flair.data import Sentence
from flair.models import SequenceTagger
from flair.training_utils import store_embeddings

from gspen_ner.hosts.flair.chain_view import ChainView
from gspen_ner.hosts.flair.documents import whole_documents
from gspen_ner.hosts.flair.sentences import as_flair
from gspen_ner.hosts.flair.tagger import MOST_SENTENCES, GSPENTagger
from gspen_ner.labels import Labels, Scheme
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.predictions import Scored, SentenceTagger
from gspen_ner.polytopes import Chain


class FlairTagger(SentenceTagger):
    """A Flair tagger in use.

    Args:
        tagger: a plain tagger with a CRF, or one with a global term.
    """

    def __init__(self, tagger: SequenceTagger) -> None:
        self.tagger = tagger.eval()
        if isinstance(tagger, GSPENTagger):
            self.view, self.system = tagger.view, "gspen"
        else:
            self.view = ChainView(tagger.label_dictionary, cast(Scheme, tagger.tag_format))
            self.system = "struct"
        if self.view.labels is None:
            raise ValueError(f"the tagger's tags are no spans: {', '.join(self.view.names[:8])}, ...")
        self.labels: Labels = self.view.labels

    @classmethod
    def load(cls, file: Path) -> FlairTagger:
        """Read a file that Flair's `save` wrote. It is a pickle: read only files that you trust."""
        try:
            state = torch.load(file, map_location="cpu", weights_only=False)
            kind = GSPENTagger if "gspen" in state else SequenceTagger
            return cls(kind.load(state))
        except (OSError, RuntimeError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{file}: not a Flair tagger that can be read: {error}") from None

    @property
    def couples_documents(self) -> bool:
        """Whether the sentences of a document are inferred together."""
        return isinstance(self.tagger, GSPENTagger) and self.tagger.couples_documents

    def scores(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        record_trace: bool = False,
    ) -> Iterator[Scored]:
        """Scores of sentences; see `SentenceTagger`."""
        documents = range(len(sentences)) if documents is None else documents
        given = as_flair(
            [
                TaggedSentence(tuple(tokens), ("O",) * len(tokens), int(document))
                for tokens, document in zip(sentences, documents, strict=True)
            ]
        )
        places = {id(sentence): place for place, sentence in enumerate(given)}
        for batch in self._batches(given):
            batch.sort(key=len, reverse=True)
            rows = [places[id(sentence)] for sentence in batch]
            yield self._scored(rows, batch, record_trace)
            store_embeddings(batch, "none")

    def _batches(self, sentences: list[Sentence]) -> list[list[Sentence]]:
        """Whole documents if the term needs them, else sentences of similar length."""
        filled = [sentence for sentence in sentences if len(sentence)]
        if self.couples_documents:
            return whole_documents(filled, MOST_SENTENCES)
        filled.sort(key=len)
        return [filled[at : at + MOST_SENTENCES] for at in range(0, len(filled), MOST_SENTENCES)]

    @torch.no_grad()
    def _scored(self, rows: list[int], batch: list[Sentence], record_trace: bool) -> Scored:
        """Return scores of sentences, longest first, without and with the global term."""
        tagger = self.tagger
        if isinstance(tagger, GSPENTagger):
            inference = tagger.infer(batch, record_trace)
            chain = cast(Chain, inference.polytope)
            return Scored(rows, inference.potentials, inference.theta, chain, inference.solution)
        base, chain = self.view.potentials(tagger.forward(*tagger._prepare_tensors(batch)))
        return Scored(rows, base, base, chain)
