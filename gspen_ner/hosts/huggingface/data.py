"""Sentences as a `datasets.Dataset`, and its rows as tensors.

Columns: tokens, tags (gold, BIO), labels (the same as numbers), document, mentions; and, after
`with_potentials`, nodes and edges as flat floats, which read ten times faster than nested ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor

from gspen_ner.hosts.huggingface.bio_view import BioView
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.pieces import IGNORED
from gspen_ner.hosts.huggingface.readers import Reader
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.terms import RELATIONS, mention_numbers


def as_dataset(sentences: Sequence[TaggedSentence], bio: BioView | None = None) -> datasets.Dataset:
    """Sentences as a dataset; with `model.bio`, also gold labels as the numbers that a model learns from.

    Example:
        >>> dataset = as_dataset([TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0)])
        >>> dataset[0]["tokens"], dataset[0]["document"]
        (['Ann', 'left'], 0)
    """
    mentions = mention_numbers([s.tokens for s in sentences], [s.document for s in sentences])
    columns: dict[str, list[Any]] = {
        "tokens": [list(sentence.tokens) for sentence in sentences],
        "tags": [list(sentence.tags) for sentence in sentences],
        "document": [sentence.document for sentence in sentences],
        "mentions": [_flat(numbers) for numbers in mentions],
    }
    strings, integers = datasets.List(datasets.Value("string")), datasets.List(datasets.Value("int32"))
    features = {"tokens": strings, "tags": strings, "document": datasets.Value("int64"), "mentions": integers}
    if bio is not None:
        numbers = {name: number for number, name in enumerate(bio.names)}
        columns["labels"] = [[numbers[tag] for tag in sentence.tags] for sentence in sentences]
        features["labels"] = integers
    return datasets.Dataset.from_dict(columns, datasets.Features(features))


def lengths_of(dataset: datasets.Dataset) -> list[int]:
    """The number of words of each row."""
    if "mentions" in dataset.column_names:
        return [len(row) // len(RELATIONS) for row in dataset.select_columns(["mentions"])[:]["mentions"]]
    return [len(row) for row in dataset.select_columns(["tokens"])[:]["tokens"]]


class Collator:
    """Makes a batch of tensors from rows of a dataset.

    Rows have `tokens` and, for training, gold labels as `labels` or `ner_tags`, numbered by the model's
    `config.id2label`; for a document term also `document`, equal for sentences of one document. Rows of
    `as_dataset` and `with_potentials` are such rows. Give Trainer `remove_unused_columns=False`.

    Args:
        reader: of the model; not used where rows bring their potentials along.
        num_labels: of the model's chain.

    Example:
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> rows = [{"tokens": ["Ann", "left"], "labels": [1, 0]}, {"tokens": ["Ann"], "labels": [1]}]
        >>> batch = Collator.of(model)(rows)
        >>> batch["lengths"], batch["labels"]
        (tensor([2, 1]), tensor([[   1,    0], [   1, -100]]))
    """

    def __init__(self, reader: Reader, num_labels: int) -> None:
        self.reader, self.num_labels = reader, num_labels

    @classmethod
    def of(cls, model: GSPENForTokenClassification) -> Collator:
        """The collator of a model."""
        if model.reader is None:
            raise ValueError(
                "the model has no reader (vocabulary or tokenizer): give it one, or use from_pretrained"
            )
        return cls(model.reader, len(model.labels.names))

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if not rows:
            raise ValueError("a batch needs at least one sentence")
        documents = [int(row.get("document", number)) for number, row in enumerate(rows)]
        if "mentions" in rows[0]:
            mentions = [row["mentions"] for row in rows]
        else:
            mentions = [_flat(row) for row in mention_numbers([row["tokens"] for row in rows], documents)]
        lengths = [len(row) // len(RELATIONS) for row in mentions]
        numbers = _padded(mentions, -1).unflatten(1, (-1, len(RELATIONS)))
        batch = {
            "lengths": torch.tensor(lengths),
            "documents": torch.tensor(documents),
            "mentions": _renumbered(numbers, torch.tensor(documents)),
        }
        gold = next((name for name in ("labels", "ner_tags") if name in rows[0]), None)
        if gold is not None:
            _check_lengths(lengths, [row[gold] for row in rows])
            batch["labels"] = _padded([row[gold] for row in rows], IGNORED)
        if "nodes" in rows[0]:
            return batch | self._scores(rows)
        return batch | self.reader.inputs([row["tokens"] for row in rows])

    def _scores(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        labels = self.num_labels
        scores = {"nodes": _padded([row["nodes"] for row in rows], 0.0).unflatten(1, (-1, labels))}
        if "edges" in rows[0]:
            edges = _padded([row["edges"] for row in rows], 0.0)
            scores["edges"] = edges.reshape(len(rows), edges.shape[1] // labels**2, labels, labels)
        return scores


def _check_lengths(lengths: Sequence[int], labels: Sequence[Sequence[int]]) -> None:
    for row, (length, numbers) in enumerate(zip(lengths, labels, strict=True)):
        if length != len(numbers):
            raise ValueError(f"row {row} of the batch: {length} tokens but {len(numbers)} labels")


def _flat(numbers: Sequence[tuple[int, ...]]) -> list[int]:
    """Numbers of a sentence, token by token, as a dataset keeps them."""
    return [number for token in numbers for number in token]


def _renumbered(mentions: Tensor, documents: Tensor) -> Tensor:
    """Small numbers that are equal where document and mention are; -1 stays."""
    document = documents.unique(return_inverse=True)[1][:, None, None]
    keys = torch.where(mentions < 0, -1, document * (mentions.max() + 1) + mentions)
    return keys.unique(return_inverse=True)[1] - int((keys < 0).any())


def _padded(rows: Sequence[Sequence[float]], value: float) -> Tensor:
    """Rows of one length, whole numbers or floats as the padding value is."""
    result = np.full((len(rows), max(map(len, rows))), value, np.int64 if type(value) is int else np.float32)
    for place, row in zip(result, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(result)
