"""`transformers.Trainer` with batches of similar length or, for a document term, of whole documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
from torch.utils.data import DataLoader
from transformers import Trainer

from gspen_ner.hosts.huggingface.batches import EpochBatches, EpochLoader, in_order, in_row_order
from gspen_ner.hosts.huggingface.data import lengths_of
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification


class DocumentTrainer(Trainer):
    """A Trainer that keeps the sentences of a document together if the model's term scores documents.

    It reads rows of `tokens` (or `mentions`) and, for documents, `document`; see `Collator`. Where several
    processes train together, `per_device_train_batch_size` times their number is divided among them.

    Example:
        >>> import tempfile
        >>> from transformers import TrainingArguments
        >>> from gspen_ner import Vocabulary
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

    draws = 1
    """Versions of its rows that the training data holds; see `EpochBatches`."""

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
        groups, lengths = self._rows(self.train_dataset, len(self.train_dataset) // self.draws)
        world = self.args.world_size
        size = self.args.per_device_train_batch_size * world
        return EpochBatches(groups, lengths, size, self.args.seed, self.draws, self.args.process_index, world)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Batches of an evaluation, whole documents too; in one process only."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str) and isinstance(self.eval_dataset, dict):
            dataset = self.eval_dataset[dataset]
        return self._evaluating(dataset, in_order)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader:
        """The same for predictions, which come in the order of the rows."""
        return self._evaluating(test_dataset, in_row_order)

    def _evaluating(self, dataset: datasets.Dataset, batches: Callable[..., list[list[int]]]) -> DataLoader:
        if self.args.world_size > 1:
            raise ValueError("evaluate in one process: documents cannot be divided among several")
        rows = batches(*self._rows(dataset, len(dataset)), self.args.per_device_eval_batch_size)
        return self.accelerator.prepare(
            DataLoader(dataset, batch_sampler=rows, collate_fn=self.data_collator)
        )

    def _rows(self, dataset: datasets.Dataset, count: int) -> tuple[list[int] | None, list[int]]:
        """The document of each row if that matters, and its length."""
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
