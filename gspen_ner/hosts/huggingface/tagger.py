"""A trained model in use: sentences in, entities with exact probabilities out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import datasets
from tqdm.auto import tqdm

from gspen_ner.decode import ScoredSpan, label_lists, span_probabilities
from gspen_ner.hosts.huggingface.batches import in_order
from gspen_ner.hosts.huggingface.data import Collator, as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, Inferred, load_model
from gspen_ner.labels import Labels, Span, spans_of_tags
from gspen_ner.parts import Parts
from gspen_ner.tasks.ner_files import TaggedSentence
from gspen_ner.tasks.ner_metrics import Evaluation, assess, compare_errors
from gspen_ner.tasks.predictions import Labelling, Prediction

BATCH_SIZE = 64


class Tagger:
    """A model and all that is needed to use it.

    Args:
        model: a trained model with its vocabulary.
    """

    def __init__(self, model: GSPENForTokenClassification) -> None:
        self.model = model.eval()
        self.labels: Labels = model.labels

    @classmethod
    def load(cls, path: str | Path) -> Tagger:
        """Read a model's folder, or that of a run, whose best model is taken."""
        return cls(load_model(model_folder(path)))

    def tag(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        k_best: int = 0,
    ) -> list[Prediction]:
        """Entities of sentences.

        Args:
            sentences: tokens of each.
            documents: equal numbers for sentences of one document; None if each stands alone.
            k_best: how many labellings to give besides.
        """
        documents = range(len(sentences)) if documents is None else documents
        unknown = [
            TaggedSentence(tuple(tokens), ("O",) * len(tokens), int(document))
            for tokens, document in zip(sentences, documents, strict=True)
        ]
        return self.predict(as_dataset(unknown), k_best)

    def predict(self, dataset: datasets.Dataset, k_best: int = 0) -> list[Prediction]:
        """Entities of the rows of a dataset; sentences without tokens have none.

        A progress bar appears if it takes long and someone is watching.
        """
        tokens = dataset[:]["tokens"]
        found = [Prediction(tuple(row), [], [], []) for row in tokens]
        for rows, inferred in self._inferred(dataset):
            full = _entities(inferred.theta, inferred, self.labels)
            same = inferred.theta is inferred.base
            base = full if same else _entities(inferred.base, inferred, self.labels)
            best = _labellings(inferred, self.labels, k_best) if k_best else [[] for _ in rows]
            for row, entities, base_entities, labellings in zip(rows, full, base, best, strict=True):
                found[row] = Prediction(tuple(tokens[row]), entities, base_entities, labellings)
        return found

    def evaluate(self, dataset: datasets.Dataset) -> Evaluation:
        """Score the model, and its base model, against the dataset's gold tags."""
        gold = [spans_of_tags(tags, "BIO") for tags in dataset[:]["tags"]]
        predictions = self.predict(dataset)
        lengths = [len(prediction.tokens) for prediction in predictions]
        base = [prediction.base_entities for prediction in predictions]
        assessed = assess(gold, base, lengths)
        if self.model.head is None:
            return Evaluation(len(gold), assessed)
        full = [prediction.entities for prediction in predictions]
        changes = compare_errors(gold, _spans(base), _spans(full))
        return Evaluation(len(gold), assessed, assess(gold, full, lengths), changes)

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
        device = self.model.device
        lengths = [len(row) for row in dataset[:]["mentions"]]
        coupled = self.model.couples_documents
        batches = in_order(dataset[:]["document"] if coupled else None, lengths, BATCH_SIZE)
        for batch in tqdm(batches, "tagging", delay=2, leave=False, disable=None):
            rows = [row for row in batch if lengths[row]]
            if rows:
                inputs = collate(dataset.__getitems__(rows))
                yield rows, self.model.infer({name: value.to(device) for name, value in inputs.items()})


def model_folder(path: str | Path) -> Path:
    """The folder that holds a model: the one given, or `model` in that of a run."""
    folder = Path(path)
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            return candidate
    raise ValueError(f"{folder}: no model here (neither config.json nor model/config.json)")


def _entities(theta: Parts, inferred: Inferred, labels: Labels) -> list[list[ScoredSpan]]:
    paths = label_lists(inferred.chain.argmax(theta))
    spans = [labels.spans_of_indices(path) for path in paths]
    probabilities = span_probabilities(theta, inferred.chain, labels, spans)
    return [
        [ScoredSpan(span, probability) for span, probability in zip(*row, strict=True)]
        for row in zip(spans, probabilities, strict=True)
    ]


def _labellings(inferred: Inferred, labels: Labels, k: int) -> list[list[Labelling]]:
    scores, paths = inferred.chain.k_best(inferred.theta, k)
    log_z = inferred.chain.log_partition(inferred.theta)
    probabilities = (scores - log_z[:, None]).exp()
    return [
        [
            Labelling(labels.spans_of_indices(path), probability)
            for path, probability in zip(label_lists(row), chances, strict=True)
            if path
        ]
        for row, chances in zip(paths, probabilities.tolist(), strict=True)
    ]


def _spans(rows: Sequence[Sequence[ScoredSpan]]) -> list[list[Span]]:
    return [[entity.span for entity in row] for row in rows]
