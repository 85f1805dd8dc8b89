"""Sentences as a `datasets.Dataset`, and its rows as tensors.

Columns: tokens, tags (gold, BIO), labels (gold, numbers), document, mentions; and, after
`with_potentials`, nodes and edges as flat floats, which read ten times faster than nested ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor

from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.labels import Labels, spans_of_tags, tags_of_spans
from gspen_ner.scorers import Vocabulary, spell_out
from gspen_ner.tasks.ner_files import TaggedSentence
from gspen_ner.terms import mention_numbers


def as_dataset(sentences: Sequence[TaggedSentence], labels: Labels | None = None) -> datasets.Dataset:
    """Sentences as a dataset; with `labels`, gold labels as numbers, which training needs."""
    columns: dict[str, list[Any]] = {
        "tokens": [list(sentence.tokens) for sentence in sentences],
        "tags": [list(sentence.tags) for sentence in sentences],
        "document": [sentence.document for sentence in sentences],
        "mentions": mention_numbers([s.tokens for s in sentences], [s.document for s in sentences]),
    }
    if labels is not None:
        numbers = {name: number for number, name in enumerate(labels.names)}
        columns["labels"] = [[numbers[tag] for tag in _in_scheme(sentence, labels)] for sentence in sentences]
    strings, integers = datasets.List(datasets.Value("string")), datasets.List(datasets.Value("int32"))
    features = {"tokens": strings, "tags": strings, "document": datasets.Value("int64"), "mentions": integers}
    if labels is not None:
        features["labels"] = integers
    return datasets.Dataset.from_dict(columns, datasets.Features(features))


def _in_scheme(sentence: TaggedSentence, labels: Labels) -> list[str]:
    return tags_of_spans(spans_of_tags(sentence.tags, "BIO"), len(sentence.tokens), labels.scheme)


class Collator:
    """Makes a batch of tensors from rows of a dataset.

    Args:
        vocabulary: of the model; not used where rows bring their potentials along.
        num_labels: of the model.
    """

    def __init__(self, vocabulary: Vocabulary, num_labels: int) -> None:
        self.vocabulary, self.num_labels = vocabulary, num_labels

    @classmethod
    def of(cls, model: GSPENForTokenClassification) -> Collator:
        """The collator of a model."""
        if model.vocabulary is None:
            raise ValueError("the model has no vocabulary: give it one, or load it with from_pretrained")
        return cls(model.vocabulary, model.config.num_labels)

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if not rows:
            raise ValueError("a batch needs at least one sentence")
        mentions = _padded([row["mentions"] for row in rows], -1)
        lengths = [len(row["mentions"]) for row in rows]
        batch = {
            "lengths": torch.tensor(lengths),
            "documents": torch.tensor([int(row["document"]) for row in rows]),
            "mentions": _renumbered(mentions, torch.tensor([int(row["document"]) for row in rows])),
        }
        if "labels" in rows[0]:
            batch["labels"] = _padded([row["labels"] for row in rows], 0)
        return batch | (self._scores(rows) if "nodes" in rows[0] else self._inputs(rows))

    def _inputs(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        tokens = [row["tokens"] for row in rows]
        spellings, spelling_at = spell_out(tokens, self.vocabulary)
        words = _padded([self.vocabulary.word_numbers(row) for row in tokens], 0)
        return {"words": words, "spellings": spellings, "spelling_at": spelling_at}

    def _scores(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        labels = self.num_labels
        scores = {"nodes": _padded([row["nodes"] for row in rows], 0.0).unflatten(1, (-1, labels))}
        if "edges" in rows[0]:
            edges = _padded([row["edges"] for row in rows], 0.0)
            scores["edges"] = edges.reshape(len(rows), edges.shape[1] // labels**2, labels, labels)
        return scores


def _renumbered(mentions: Tensor, documents: Tensor) -> Tensor:
    """Small numbers that are equal where document and mention are; -1 stays."""
    document = documents.unique(return_inverse=True)[1][:, None]
    keys = torch.where(mentions < 0, -1, document * (mentions.max() + 1) + mentions)
    return keys.unique(return_inverse=True)[1] - int((keys < 0).any())


def _padded(rows: Sequence[Sequence[float]], value: float) -> Tensor:
    """Rows of one length, whole numbers or floats as the padding value is."""
    result = np.full((len(rows), max(map(len, rows))), value, np.int64 if type(value) is int else np.float32)
    for place, row in zip(result, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(result)
