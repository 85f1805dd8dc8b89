"""`transformers.Trainer` with batches of similar length or, for a document term, of whole documents.

Where several processes train together, a batch is divided among them: each has its share, a document is never
divided, and no share is empty. (accelerate's sampler would drop or repeat uneven batches.)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import datasets
from torch.utils.data import DataLoader, Sampler
from transformers import Trainer

from gspen_ner.hosts.huggingface.data import lengths_of
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.training.documents import deal, fill, in_order, rows_of_documents


class EpochBatches(Sampler[list[int]]):
    """Batches of an epoch: of similar length, or of whole documents; the same for the same seed and epoch.

    Args:
        documents: document of each row, or None if rows need not stay together.
        lengths: number of tokens of each row.
        batch_size: number of rows of a batch; with documents, about so many.
        seed: seed of the order.
        versions: number of versions of the rows that the dataset holds, one after the other; each epoch takes
            the next.
        rank: number of this process.
        world: number of processes that share each batch.
    """

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

    @property
    def drop_last(self) -> bool:
        """Return False, for accelerate: no rows are left out."""
        return False

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
        first = len(self.lengths) * (self.epoch % self.versions)
        chance.shuffle(batches)
        return iter([[first + row for row in batch[self.rank]] for batch in batches])

    def _similar(self, chance: random.Random) -> list[list[list[int]]]:
        """Sorted by length, with some noise so that batches differ from epoch to epoch."""
        order = sorted(range(len(self.lengths)), key=lambda row: self.lengths[row] + 2 * chance.random())
        starts = [number * self.batch_size for number in range(len(self))]
        batches = [order[start:end] for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]
        return [[batch[rank :: self.world] for rank in range(self.world)] for batch in batches]

    def _grouped(self, chance: random.Random, together: list[list[int]]) -> list[list[list[int]]]:
        """Whole documents in random order."""
        shares = deal(chance.sample(together, len(together)), len(self) * self.world)
        return [shares[start : start + self.world] for start in range(0, len(shares), self.world)]


class EpochLoader(DataLoader):
    """Loads the batches of each epoch."""

    batch_sampler: EpochBatches

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch; Trainer calls it before each."""
        self.batch_sampler.set_epoch(epoch)


class DocumentTrainer(Trainer):
    """A Trainer that keeps the sentences of a document together if the model's term scores documents.

    It reads rows of `tokens` (or `mentions`) and, for documents, `document`; see `Collator`. Where several
    processes train together, `per_device_train_batch_size` times their number is divided among them.

    Example:
        >>> import tempfile
        >>> from transformers import TrainingArguments
        >>> from gspen_ner.scorers import Vocabulary
        >>> from gspen_ner.hosts.huggingface import Collator, as_dataset
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> from gspen_ner.ner.files import TaggedSentence
        >>> sentences = [TaggedSentence(("Ann", "left"), ("B-PER", "O"), document) for document in (0, 1, 1)]
        >>> rows = as_dataset(sentences, model.bio)
        >>> options = {"remove_unused_columns": False, "report_to": [], "use_cpu": True}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     arguments = TrainingArguments(folder, per_device_train_batch_size=1, **options)
        ...     model = model.with_terms(["document"])
        ...     trainer = DocumentTrainer(model, arguments, Collator.of(model), rows)
        ...     sorted(batch["documents"].tolist() for batch in trainer.get_train_dataloader())
        [[0], [1, 1]]
    """

    versions = 1
    """Number of versions of its rows that the training data holds; see `EpochBatches`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.args._n_gpu = min(self.args.n_gpu, 1)  # a batch cannot be divided among devices of one process

    def get_train_dataloader(self) -> DataLoader:
        """Batches of an epoch; accelerate must not divide them once more."""
        assert isinstance(self.train_dataset, datasets.Dataset)
        return EpochLoader(
            self.train_dataset, batch_sampler=self.epoch_batches(), collate_fn=self.data_collator
        )

    def epoch_batches(self) -> EpochBatches:
        """Which rows make a batch."""
        assert isinstance(self.train_dataset, datasets.Dataset)
        documents, lengths = self._rows(self.train_dataset, len(self.train_dataset) // self.versions)
        world = self.args.world_size
        size = self.args.per_device_train_batch_size * world
        return EpochBatches(
            documents, lengths, size, self.args.seed, self.versions, self.args.process_index, world
        )

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Return the batches of an evaluation, whole documents too; in one process only."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str) and isinstance(self.eval_dataset, dict):
            dataset = self.eval_dataset[dataset]
        documents, lengths = self._rows(dataset, len(dataset))
        return self._loader(dataset, in_order(documents, lengths, self.args.per_device_eval_batch_size))

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader:
        """Return the batches of a prediction, whose outputs come in the order of the rows."""
        documents, lengths = self._rows(test_dataset, len(test_dataset))
        together = rows_of_documents(range(len(lengths)) if documents is None else documents)
        if [row for rows in together for row in rows] != list(range(len(lengths))):
            raise ValueError("the sentences of a document must follow each other; sort the data by document")
        return self._loader(test_dataset, fill(together, lengths, self.args.per_device_eval_batch_size))

    def _loader(self, dataset: datasets.Dataset, batches: list[list[int]]) -> DataLoader:
        if self.args.world_size > 1:
            raise ValueError("evaluate in one process: documents cannot be divided among several")
        loader = DataLoader(dataset, batch_sampler=batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)

    def _rows(self, dataset: datasets.Dataset, count: int) -> tuple[list[int] | None, list[int]]:
        """Return the document of each row if sentences must stay together, and its number of tokens."""
        assert isinstance(self.model, GSPENForTokenClassification)
        lengths = lengths_of(dataset.select(range(count)))
        if not self.model.couples_documents:
            return None, lengths
        if "document" not in dataset.column_names:
            raise ValueError(
                f"the model's term scores documents: the data needs a column document, "
                f"it has {dataset.column_names}"
            )
        return dataset.select_columns(["document"])[:count]["document"], lengths
