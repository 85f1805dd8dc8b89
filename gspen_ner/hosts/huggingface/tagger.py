"""A trained model in use: sentences in, entities with confidences out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from gspen_ner.decode import label_lists
from gspen_ner.hosts.huggingface.context import add_context, neighbours
from gspen_ner.hosts.huggingface.data import Collator, lengths_of, tagged_sentences
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.pieces import CONTEXT_COLUMNS
from gspen_ner.hosts.huggingface.processes import to_device
from gspen_ner.hosts.loading import find_model
from gspen_ner.labels import Labels, Span
from gspen_ner.ner.calibration import CalibrationErrors, calibrate
from gspen_ner.ner.confidence import Confidences
from gspen_ner.ner.predictions import ChainScores, Prediction, SentenceTagger, predict_all, watched
from gspen_ner.training.documents import prediction_batches

BATCH_SIZE = 64


class Tagger(SentenceTagger):
    """Tags sentences with a trained model.

    Args:
        model: a trained model with its reader.

    Example:
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> prediction = Tagger(model).tag([["Ann", "left"]], k_best=5)[0]
        >>> round(sum(labelling.probability for labelling in prediction.k_best), 4)  # of all there are
        1.0
    """

    def __init__(self, model: GSPENForTokenClassification) -> None:
        self.model = model.eval()
        self.labels: Labels = model.labels
        self.system: str = model.config.system

    @classmethod
    def load(cls, path: str | Path) -> Tagger:
        """Return the tagger of a model's folder, or of the best model of a run's folder."""
        return cls(to_device(load_model(find_model(path))))

    @property
    def couples_documents(self) -> bool:
        """Whether the sentences of a document are inferred together."""
        return self.model.couples_documents

    @property
    def uses_documents(self) -> bool:
        """Whether the other sentences of its document matter to a sentence: by the term, or as context."""
        return self.couples_documents or self.model.context_tokens > 0

    @property
    def confidences(self) -> Confidences | None:
        """How sure it is of its entities: what the model's configuration holds."""
        entry = self.model.config.confidences
        return None if entry is None else Confidences.read(entry)

    @confidences.setter
    def confidences(self, confidences: Confidences | None) -> None:
        self.model.config.set_confidences(confidences)

    def save(self, folder: str | Path) -> None:
        """Write the model with its confidences, by `save_pretrained`."""
        self.model.save_pretrained(folder)

    def scores(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        record_trace: bool = False,
    ) -> Iterator[ChainScores]:
        """Return scores of sentences; see `SentenceTagger`."""
        documents = range(len(sentences)) if documents is None else documents
        entries: list[dict[str, Any]] = [
            {"tokens": list(tokens), "document": int(document)}
            for tokens, document in zip(sentences, documents, strict=True)
        ]
        if self.model.context_tokens:
            for entry, words in zip(entries, neighbours(self.model, sentences, documents), strict=True):
                entry |= zip(CONTEXT_COLUMNS, words, strict=True)
        lengths = [len(tokens) for tokens in sentences]
        return self._scores(lengths, documents, lambda rows: [entries[row] for row in rows], record_trace)

    def predict(self, dataset: datasets.Dataset, k_best: int = 0, workings: bool = False) -> list[Prediction]:
        """Return predictions for the rows of a dataset with `tokens` and, for documents, `document`.

        On a terminal, a progress bar appears if it takes long.

        Args:
            dataset: rows; see `Collator`.
            k_best: number of labellings of each sentence, with their probabilities; default 0.
            workings: whether to return label probabilities and convergence too; default False.
        """
        scored = self._scores_of(dataset, workings)
        return predict_all(dataset[:]["tokens"], scored, self.labels, k_best, workings)

    def calibrate(self, dataset: datasets.Dataset) -> list[CalibrationErrors]:
        """Fit confidences on rows with gold labels that it was not trained on; see `calibrate`."""
        return calibrate(self, tagged_sentences(dataset, self.model.bio))

    def spans(self, dataset: datasets.Dataset) -> list[list[Span]]:
        """Return the entities of the likeliest labellings, without probabilities: much faster than `predict`.

        The model's `decoder` is not used.
        """
        spans: list[list[Span]] = [[] for _ in range(len(dataset))]
        for batch in self._scores_of(dataset):
            labels = label_lists(batch.chain.argmax(batch.theta))
            for row, numbers in zip(batch.rows, labels, strict=True):
                spans[row] = self.labels.spans_of_indices(numbers)
        return spans

    def _scores_of(self, dataset: datasets.Dataset, record_trace: bool = False) -> Iterator[ChainScores]:
        dataset = add_context(dataset, self.model)
        documents = dataset[:]["document"] if "document" in dataset.column_names else None
        scored = self._scores(lengths_of(dataset), documents, dataset.__getitems__, record_trace)
        return watched(scored, len(dataset))

    def _scores(
        self,
        lengths: Sequence[int],
        documents: Sequence[int] | None,
        entries: Callable[[list[int]], list[dict[str, Any]]],
        record_trace: bool,
    ) -> Iterator[ChainScores]:
        """Infer batch by batch, whole documents together if the term needs them."""
        collate, device = Collator.of(self.model), self.model.device
        for batch in prediction_batches(documents if self.couples_documents else None, lengths, BATCH_SIZE):
            rows = [row for row in batch if lengths[row]]
            if rows:
                inputs = {name: value.to(device) for name, value in collate(entries(rows)).items()}
                base, theta, chain, solution = self.model.infer_chains(inputs, record_trace)
                decoder = self.model.config.decoder
                yield ChainScores(rows, base, theta, chain, solution, decoder, self.confidences)
