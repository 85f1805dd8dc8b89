"""Our sentences as Flair's, with their documents, and a Flair tagger in use as any of ours."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.models import SequenceTagger
from flair.training_utils import store_embeddings
from tqdm.auto import tqdm

from gspen_ner.hosts.flair.chain_view import ChainView
from gspen_ner.hosts.flair.documents import whole_documents
from gspen_ner.hosts.flair.tagger import MOST_SENTENCES, GSPENTagger
from gspen_ner.labels import Labels, Scheme, spans_of_tags
from gspen_ner.tasks.ner_files import DOCUMENT_MARK, TaggedSentence
from gspen_ner.tasks.predictions import Prediction, predictions_of

TAG_TYPE = "ner"


def as_flair(sentences: Sequence[TaggedSentence]) -> list[Sentence]:
    """Flair sentences with gold spans, each linked to the one before it in its document."""
    last: dict[int, Sentence] = {}
    found = []
    for sentence in sentences:
        made = Sentence(list(sentence.tokens))
        for start, end, kind in spans_of_tags(sentence.tags, "BIO"):
            made[start:end].add_label(TAG_TYPE, kind)
        before = last.get(sentence.document)
        if before is None:
            before = Sentence([DOCUMENT_MARK])
            before.is_document_boundary = True
        made._previous_sentence, made._has_context = before, True
        before._next_sentence = made
        last[sentence.document] = made
        found.append(made)
    return found


def as_corpus(
    train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], test: Sequence[TaggedSentence] | None
) -> Corpus:
    """A corpus for Flair's trainer."""
    train_data, dev_data = (FlairDatapointDataset(as_flair(split)) for split in (train, dev))
    test_data = None if test is None else FlairDatapointDataset(as_flair(test))
    return Corpus(train=train_data, dev=dev_data, test=test_data, sample_missing_splits=False)


class FlairTagger:
    """A Flair tagger in use as a `SentenceTagger`.

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

    @torch.no_grad()
    def tag(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int] | None = None, k_best: int = 0
    ) -> list[Prediction]:
        """Entities of sentences; see `SentenceTagger`."""
        documents = range(len(sentences)) if documents is None else documents
        given = as_flair(
            [
                TaggedSentence(tuple(tokens), ("O",) * len(tokens), int(document))
                for tokens, document in zip(sentences, documents, strict=True)
            ]
        )
        places = {id(sentence): place for place, sentence in enumerate(given)}
        found = [Prediction(tuple(tokens), [], [], []) for tokens in sentences]
        for batch in tqdm(self._batches(given), "tagging", delay=2, leave=False, disable=None):
            batch.sort(key=len, reverse=True)
            for sentence, prediction in zip(batch, self._predict(batch, k_best), strict=True):
                found[places[id(sentence)]] = prediction
            store_embeddings(batch, "none")
        return found

    def _batches(self, sentences: list[Sentence]) -> list[list[Sentence]]:
        """Whole documents if the term needs them, else sentences of similar length."""
        filled = [sentence for sentence in sentences if len(sentence)]
        if isinstance(self.tagger, GSPENTagger) and self.tagger.couples_documents:
            return whole_documents(filled, MOST_SENTENCES)
        filled.sort(key=len)
        return [filled[at : at + MOST_SENTENCES] for at in range(0, len(filled), MOST_SENTENCES)]

    def _predict(self, batch: list[Sentence], k_best: int) -> list[Prediction]:
        """Predictions of sentences, longest first."""
        tagger = self.tagger
        base, chain = self.view.potentials(tagger.forward(*tagger._prepare_tensors(batch)))
        theta = tagger.infer(base, chain, batch) if isinstance(tagger, GSPENTagger) else base
        tokens = [[token.text for token in sentence] for sentence in batch]
        return predictions_of(tokens, base, theta, chain, self.labels, k_best)
