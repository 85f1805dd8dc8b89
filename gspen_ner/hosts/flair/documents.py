"""Documents in Flair: which sentences belong together, and training batches that keep them together.

Flair marks the sentence that separates documents (`ColumnCorpus(document_separator_token="-DOCSTART-")`) and
links each sentence to the one before it. A sentence belongs to the separator that its links lead back to;
one that no separator stands before is a document of its own, whatever order sentences come in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from flair.data import Sentence
from flair.trainers.plugins import TrainerPlugin
from torch import Tensor

from gspen_ner.terms import Context, match_mentions
from gspen_ner.training.documents import deal, fill, rows_of_documents


def document_numbers(sentences: Sequence[Sentence]) -> list[int]:
    """Equal numbers for sentences of one document."""
    found: dict[int, Sentence | None] = {}
    marks = [_mark(sentence, found) for sentence in sentences]
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(id(sentence if mark is None else mark), len(numbers))
        for sentence, mark in zip(sentences, marks, strict=True)
    ]


def _mark(sentence: Sentence, found: dict[int, Sentence | None]) -> Sentence | None:
    """The separator before a sentence, or None."""
    walked: list[int] = []
    at: Sentence | None = sentence
    mark: Sentence | None = None
    while at is not None:
        if id(at) in found:
            mark = found[id(at)]
            break
        if at.is_document_boundary:
            mark = at
            break
        walked.append(id(at))
        at = at._previous_sentence
    found.update(dict.fromkeys(walked, mark))
    return mark


def context_of(sentences: Sequence[Sentence], mask: Tensor) -> Context:
    """What a term may know of a batch."""
    documents = document_numbers(sentences)
    mentions = match_mentions([[token.text for token in sentence] for sentence in sentences], documents)
    return Context(mask, torch.tensor(documents, device=mask.device), mentions.to(mask.device))


def whole_documents(sentences: Sequence[Sentence], size: int) -> list[list[Sentence]]:
    """Return batches of about `size` sentences that cut no document."""
    documents = rows_of_documents(document_numbers(sentences))
    batches = fill(documents, [len(sentence) for sentence in sentences], size)
    return [[sentences[row] for row in rows] for rows in batches]


class DocumentBatches(TrainerPlugin):
    """Makes `ModelTrainer` train on batches of whole documents, shuffled anew in every epoch.

    Args:
        seed: of the order.

    Use it as `trainer.train(..., plugins=[DocumentBatches()])`. There are as many batches as Flair would
    make, each of about `mini_batch_size` sentences.

    Example:
        >>> sentences = [Sentence([word]) for word in ("Ann", "left", "Bob")]
        >>> sentences[0].is_document_boundary = sentences[2].is_document_boundary = True
        >>> Sentence.set_context_for_sentences(sentences)
        >>> plugin, dealt = DocumentBatches(seed=1), ([], [])
        >>> plugin.sentences = sentences  # what Flair's trainer does
        >>> plugin.before_training_epoch(epoch=1)
        >>> for number, batch in enumerate(dealt):
        ...     plugin.before_training_batch(batch, number, total_number_of_batches=2)
        >>> sorted(len(batch) for batch in dealt)
        [1, 2]
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.sentences: list[Sentence] = []
        self.batches: list[list[Sentence]] = []

    @TrainerPlugin.hook
    def after_setup(self, train_with_dev: bool, train_with_test: bool, **kw: Any) -> None:
        """Take the sentences that Flair trains on."""
        if kw.get("mini_batch_chunk_size") is not None:
            raise ValueError("mini_batch_chunk_size would cut documents: leave it out")
        if kw.get("multi_gpu"):
            raise ValueError("DocumentBatches would give every process the same batches: leave out multi_gpu")
        train = self.trainer._get_train_data(train_with_dev, train_with_test)
        self.sentences = [train[place] for place in range(len(train))]

    @TrainerPlugin.hook
    def before_training_epoch(self, epoch: int, **kw: Any) -> None:
        """Shuffle the documents."""
        self.chance = random.Random(f"{self.seed}/{epoch}")
        self.batches = []

    @TrainerPlugin.hook
    def before_training_batch(self, batch: list[Sentence], batch_no: int, **kw: Any) -> None:
        """Put whole documents where Flair put sentences."""
        if not self.batches:
            self.batches = self._deal(kw["total_number_of_batches"])
        batch[:] = self.batches[batch_no]

    def _deal(self, count: int) -> list[list[Sentence]]:
        """Return so many batches of about equal size, with documents in random order."""
        documents = rows_of_documents(document_numbers(self.sentences))
        self.chance.shuffle(documents)
        return [[self.sentences[row] for row in rows] for rows in deal(documents, count)]

    @property
    def attach_to_all_processes(self) -> bool:
        """Batches are made on every process."""
        return True
