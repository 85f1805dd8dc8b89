"""A trained model in use: sentences in, entities with exact probabilities out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import datasets
from tqdm.auto import tqdm

from gspen_ner.decode import label_lists
from gspen_ner.hosts.huggingface.batches import in_order
from gspen_ner.hosts.huggingface.data import Collator, as_dataset, lengths_of
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, Inferred, load_model
from gspen_ner.hosts.huggingface.processes import placed
from gspen_ner.hosts.loading import find_model
from gspen_ner.labels import Labels, Span
from gspen_ner.tasks.ner_files import TaggedSentence
from gspen_ner.tasks.predictions import Prediction, predictions_of

BATCH_SIZE = 64


class Tagger:
    """A model and all that is needed to use it; a `SentenceTagger`.

    Args:
        model: a trained model with its reader.
    """

    def __init__(self, model: GSPENForTokenClassification) -> None:
        self.model = model.eval()
        self.labels: Labels = model.labels
        self.system: str = model.config.system

    @classmethod
    def load(cls, path: str | Path) -> Tagger:
        """Read a model's folder, or that of a run, whose best model is taken."""
        return cls(placed(load_model(find_model(path))))

    def tag(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        k_best: int = 0,
    ) -> list[Prediction]:
        """Entities of sentences; see `SentenceTagger`."""
        documents = range(len(sentences)) if documents is None else documents
        unknown = [
            TaggedSentence(tuple(tokens), ("O",) * len(tokens), int(document))
            for tokens, document in zip(sentences, documents, strict=True)
        ]
        return self.predict(as_dataset(unknown), k_best)

    def predict(self, dataset: datasets.Dataset, k_best: int = 0) -> list[Prediction]:
        """Entities of the rows of a dataset, which has `tokens` and perhaps `document`; see `Collator`.

        A progress bar appears if it takes long and someone is watching.
        """
        tokens = dataset[:]["tokens"]
        found = [Prediction(tuple(row), [], [], []) for row in tokens]
        for rows, (base, theta, chain, _) in self._inferred(dataset):
            some = predictions_of([tokens[row] for row in rows], base, theta, chain, self.labels, k_best)
            for row, prediction in zip(rows, some, strict=True):
                found[row] = prediction
        return found

    def spans(self, dataset: datasets.Dataset) -> list[list[Span]]:
        """Entities without probabilities: much faster."""
        found: list[list[Span]] = [[] for _ in range(len(dataset))]
        for rows, inferred in self._inferred(dataset):
            labels = label_lists(inferred.chain.argmax(inferred.theta))
            for row, numbers in zip(rows, labels, strict=True):
                found[row] = self.labels.spans_of_indices(numbers)
        return found

    def _inferred(self, dataset: datasets.Dataset) -> Iterator[tuple[list[int], Inferred]]:
        """Inference batch by batch, whole documents together if the term needs them."""
        collate = Collator.of(self.model)
        place = self.model.device
        lengths = lengths_of(dataset)
        coupled = self.model.couples_documents and "document" in dataset.column_names
        batches = in_order(dataset[:]["document"] if coupled else None, lengths, BATCH_SIZE)
        for batch in tqdm(batches, "tagging", delay=2, leave=False, disable=None):
            rows = [row for row in batch if lengths[row]]
            if rows:
                inputs = collate(dataset.__getitems__(rows))
                yield rows, self.model.infer({name: value.to(place) for name, value in inputs.items()})
