"""Sentences as a `datasets.Dataset`, its rows as batches of tensors, and which rows make a batch.

Columns: tokens, tags (gold, BIO), labels (the same as numbers), document, mentions; and, after
`with_potentials`, nodes and edges as flat floats, which read ten times faster than nested ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from gspen_ner.hosts.huggingface.config import BioView
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.pieces import CONTEXT_COLUMNS, IGNORED, Neighbours, PieceReader, Reader
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.terms import RELATIONS, mention_numbers
from gspen_ner.training.documents import balanced_batches, rows_of_documents
from gspen_ner.training.stages import version_at


def as_dataset(sentences: Sequence[TaggedSentence], bio: BioView | None = None) -> datasets.Dataset:
    """Return sentences as a dataset.

    Args:
        sentences: sentences with gold tags.
        bio: `model.bio`, to add gold labels as the numbers that the model learns from; by default none.

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


def tagged_sentences(rows: datasets.Dataset, bio: BioView) -> list[TaggedSentence]:
    """Return the sentences of a dataset with `tokens`, `labels` or `ner_tags` and, if known, `document`.

    Args:
        rows: the dataset.
        bio: `model.bio`, by which gold labels are numbered.
    """
    gold = next((name for name in ("labels", "ner_tags") if name in rows.column_names), None)
    if gold is None or "tokens" not in rows.column_names:
        raise ValueError(f"expected rows with tokens and ner_tags (or labels), got {rows.column_names}")
    columns = rows[:]
    documents = columns.get("document", range(len(rows)))
    numbers: dict[Any, int] = {}
    return [
        TaggedSentence(
            tuple(tokens),
            tuple(bio.names[label] for label in labels),
            numbers.setdefault(document, len(numbers)),
        )
        for tokens, labels, document in zip(columns["tokens"], columns[gold], documents, strict=True)
    ]


def lengths_of(dataset: datasets.Dataset) -> list[int]:
    """Return the number of words of each row."""
    if "mentions" in dataset.column_names:
        return [len(row) // len(RELATIONS) for row in dataset.select_columns(["mentions"])[:]["mentions"]]
    return [len(row) for row in dataset.select_columns(["tokens"])[:]["tokens"]]


def check_has_documents(dataset: datasets.Dataset) -> None:
    """Refuse data for a term that scores documents if its rows do not say to which document they belong."""
    if "document" not in dataset.column_names:
        raise ValueError(
            "the model's term scores documents: the data needs a column document, equal for the sentences of "
            f"one, it has {dataset.column_names}"
        )


class Collator:
    """Makes a batch of tensors from rows of a dataset.

    Rows have `tokens` and, for training, gold labels as `labels` or `ner_tags`, numbered by the model's
    `config.id2label`; for a document term also `document`, equal for sentences of one document. Rows of
    `as_dataset` and `with_potentials` are such rows. For a model with `context_tokens`, rows of tokens need
    `add_context`. Give Trainer `remove_unused_columns=False`.

    Args:
        reader: reader of the model; not used for rows that bring their potentials along.
        num_labels: number of labels of the model's chain.
        reads_context: whether the model also reads the neighbouring sentences; default False.

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

    def __init__(self, reader: Reader, num_labels: int, reads_context: bool = False) -> None:
        self.reader, self.num_labels, self.reads_context = reader, num_labels, reads_context

    @classmethod
    def of(cls, model: GSPENForTokenClassification) -> Collator:
        """Return the collator of a model."""
        if model.reader is None:
            raise ValueError(
                "the model has no reader (vocabulary or tokenizer): give it one, or use from_pretrained"
            )
        return cls(model.reader, len(model.labels.names), model.context_tokens > 0)

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
            for row, length in enumerate(lengths):
                if len(rows[row][gold]) != length:
                    counts = f"{length} tokens but {len(rows[row][gold])} labels"
                    raise ValueError(f"row {row} of the batch: {counts}")
            batch["labels"] = _padded([row[gold] for row in rows], IGNORED)
        if "nodes" in rows[0]:
            return batch | self._scores(rows)
        sentences = [row["tokens"] for row in rows]
        if not self.reads_context:
            return batch | self.reader.inputs(sentences)
        if any(name not in rows[0] for name in CONTEXT_COLUMNS):
            raise ValueError(
                f"the model reads neighbouring sentences: expected the columns {', '.join(CONTEXT_COLUMNS)}, "
                f"got {sorted(rows[0])}; add them by add_context(dataset, model)"
            )
        assert isinstance(self.reader, PieceReader)
        context = [Neighbours(*(row[name] for name in CONTEXT_COLUMNS)) for row in rows]
        return batch | self.reader.inputs(sentences, context)

    def _scores(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        labels = self.num_labels
        scores = {"nodes": _padded([row["nodes"] for row in rows], 0.0).unflatten(1, (-1, labels))}
        if "edges" in rows[0]:
            edges = _padded([row["edges"] for row in rows], 0.0)
            scores["edges"] = edges.reshape(len(rows), edges.shape[1] // labels**2, labels, labels)
        return scores


def _flat(numbers: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the numbers of a sentence, token by token, as a dataset keeps them."""
    return [number for token in numbers for number in token]


def _renumbered(mentions: Tensor, documents: Tensor) -> Tensor:
    """Return small numbers that are equal where document and mention are; -1 stays."""
    document = documents.unique(return_inverse=True)[1][:, None, None]
    keys = torch.where(mentions < 0, -1, document * (mentions.max() + 1) + mentions)
    return keys.unique(return_inverse=True)[1] - int((keys < 0).any())


def _padded(rows: Sequence[Sequence[float]], value: float) -> Tensor:
    """Return rows of equal length: whole numbers if the padding value is one, else floats."""
    result = np.full((len(rows), max(map(len, rows))), value, np.int64 if type(value) is int else np.float32)
    for padded_row, row in zip(result, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(result)


class EpochBatches(Sampler[list[int]]):
    """Batches of an epoch: of similar length, or of whole documents; the same for the same seed and epoch.

    Several processes that train together divide each batch: each has its share, a document is never divided,
    and no share is empty. (accelerate's sampler would drop or repeat uneven batches.)

    Args:
        documents: document of each row; None if rows need not stay together.
        lengths: number of tokens of each row.
        batch_size: number of rows of a batch; with documents, the approximate number.
        seed: seed of the order.
        versions: number of versions of the rows that the dataset holds, one after the other; each epoch takes
            the next.
        rank: number of this process.
        world: number of processes that share each batch.
    """

    drop_last = False  # accelerate asks whether rows are left out

    def __init__(
        self,
        documents: Sequence[int] | None,
        lengths: Sequence[int],
        batch_size: int,
        seed: int = 0,
        versions: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths, self.batch_size, self.seed, self.versions = lengths, batch_size, seed, versions
        self.rank, self.world = rank, world
        self.epoch = 0
        self.together = None if documents is None else rows_of_documents(documents)
        parts = len(lengths) if self.together is None else len(self.together)
        if parts < world or batch_size < world:
            units = "sentences" if self.together is None else "documents"
            raise ValueError(
                f"{parts} {units} in batches of {batch_size} cannot be divided among {world} processes"
            )

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch; Trainer calls it before each."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.lengths), self.batch_size)
        batches = whole + (rest >= self.world) if whole else 1
        return batches if self.together is None else min(batches, len(self.together) // self.world)

    def __iter__(self) -> Iterator[list[int]]:
        chance = random.Random(f"{self.seed}/{self.epoch}")
        batches = self._similar(chance) if self.together is None else self._grouped(chance, self.together)
        first = len(self.lengths) * version_at(self.epoch, self.versions)
        chance.shuffle(batches)
        return iter([[first + row for row in batch[self.rank]] for batch in batches])

    def _similar(self, chance: random.Random) -> list[list[list[int]]]:
        """Return batches of rows sorted by length, with some noise so that they differ between epochs."""
        order = sorted(range(len(self.lengths)), key=lambda row: self.lengths[row] + 2 * chance.random())
        starts = [number * self.batch_size for number in range(len(self))]
        batches = [order[start:end] for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]
        return [[batch[rank :: self.world] for rank in range(self.world)] for batch in batches]

    def _grouped(self, chance: random.Random, together: list[list[int]]) -> list[list[list[int]]]:
        """Return batches of whole documents in random order."""
        order = chance.sample(range(len(together)), len(together))
        shares = balanced_batches(together, order, len(self) * self.world)
        return [shares[start : start + self.world] for start in range(0, len(shares), self.world)]
