"""Plugins of Flair's training loop: batches of documents, another schedule, a log, and a fault corrected."""

from __future__ import annotations

import logging
import math
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from flair.data import Sentence
from flair.embeddings import StackedEmbeddings
from flair.trainers.plugins import TrainerPlugin, TrainingInterrupt
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gspen_ner.hosts.flair.sentences import document_numbers
from gspen_ner.training.documents import balanced_batches, rows_of_documents
from gspen_ner.training.stages import write_history

logger = logging.getLogger(__name__)


class DocumentBatches(TrainerPlugin):
    """Makes `ModelTrainer` train on batches of whole documents, shuffled anew in every epoch.

    Args:
        seed: seed of the order; default 0.

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
        """Read the sentences that Flair trains on."""
        if kw.get("mini_batch_chunk_size") is not None:
            raise ValueError("mini_batch_chunk_size would cut documents: leave it out")
        if kw.get("multi_gpu"):
            raise ValueError("DocumentBatches would give every process the same batches: leave out multi_gpu")
        train = self.trainer._get_train_data(train_with_dev, train_with_test)
        self.sentences = [train[row] for row in range(len(train))]

    @TrainerPlugin.hook
    def before_training_epoch(self, epoch: int, **kw: Any) -> None:
        """Shuffle the documents."""
        self.chance = random.Random(f"{self.seed}/{epoch}")
        self.batches = []

    @TrainerPlugin.hook
    def before_training_batch(self, batch: list[Sentence], batch_no: int, **kw: Any) -> None:
        """Replace the sentences of a batch by whole documents."""
        if not self.batches:
            documents = rows_of_documents(document_numbers(self.sentences))
            self.chance.shuffle(order := list(range(len(documents))))
            dealt = balanced_batches(documents, order, kw["total_number_of_batches"])
            self.batches = [[self.sentences[row] for row in rows] for rows in dealt]
        batch[:] = self.batches[batch_no]

    @property
    def attach_to_all_processes(self) -> bool:
        """Return True: every process makes batches."""
        return True


class AnnealOnTrainLoss(TrainerPlugin):
    """Lowers the learning rate when the training loss stalls; Flair's own plugin watches the dev score.

    Args:
        factor: learning-rate factor on a plateau; default 0.5.
        patience: epochs without a lower loss than the lowest so far, before the rate falls; default 3.
        smallest: learning rate below which training ends; default 1e-4.
    """

    def __init__(self, factor: float = 0.5, patience: int = 3, smallest: float = 1e-4) -> None:
        super().__init__()
        self.factor, self.patience, self.smallest = factor, patience, smallest
        self.losses: list[float] = []

    @TrainerPlugin.hook
    def after_setup(self, **kw: Any) -> None:
        """Make the schedule of the trainer's optimizer; torch's patience is one epoch shorter."""
        options: dict[str, Any] = {"factor": self.factor, "patience": self.patience - 1}
        self.schedule = ReduceLROnPlateau(self.trainer.optimizer, **options, threshold=0.0, eps=0.0)

    @TrainerPlugin.hook
    def before_training_epoch(self, **kw: Any) -> None:
        """Start a new mean of losses."""
        self.losses = []

    @TrainerPlugin.hook("metric_recorded")
    def collect(self, record: Any) -> None:
        """Collect the losses of the epoch's batches."""
        if tuple(record.name) == ("train", "batch_loss"):
            self.losses.append(float(record.value))

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Lower the learning rate if the loss has stalled."""
        self.schedule.step(statistics.fmean(self.losses) if self.losses else math.inf)
        if all(group["lr"] < self.smallest for group in self.trainer.optimizer.param_groups):
            raise TrainingInterrupt("the learning rate is too small to go on")


class EpochLog(TrainerPlugin):
    """Writes each epoch's dev F1 and training time; see `write_history`."""

    def __init__(self, file: Path, stage: str) -> None:
        super().__init__()
        self.file, self.stage = file, stage
        self.entries: list[dict[str, float]] = []
        self.seconds: list[float] = []
        self.killed = False

    @TrainerPlugin.hook
    def training_interrupt(self, **kw: Any) -> None:
        """Remember Ctrl-C, which Flair treats as the end of training."""
        self.killed = isinstance(sys.exc_info()[1], KeyboardInterrupt)

    @TrainerPlugin.hook
    def before_training_epoch(self, **kw: Any) -> None:
        """Start to measure the time of the epoch."""
        self.start = time.perf_counter()

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Record the time of the epoch, before evaluation begins."""
        self.seconds.append(time.perf_counter() - self.start)

    @TrainerPlugin.hook
    def after_evaluation(self, epoch: int, validation_scores: Any, **kw: Any) -> None:
        """Write and log the line of the epoch."""
        f1, seconds = float(validation_scores[0]), self.seconds[-1]
        self.entries.append({"epoch": epoch, "eval_f1": f1, "seconds": seconds})
        logger.info("%s, epoch %d: %.1f s, dev F1 %.2f", self.stage, epoch, seconds, 100 * f1)
        write_history(self.file, self.stage, self.entries)


class FreshEmbeddings(TrainerPlugin):
    """Clears trained embeddings of dev sentences before they are evaluated.

    With stored embeddings, Flair 0.15 recognises trained embeddings by their gradients, which evaluation does
    not compute: it would evaluate the embeddings of the first epoch in every epoch.
    """

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Clear the embeddings that training changes."""
        embeddings = self.trainer.model.embeddings
        parts = embeddings.embeddings if isinstance(embeddings, StackedEmbeddings) else [embeddings]
        trained = [name for part in parts if not part.static_embeddings for name in part.get_names()]
        if trained:
            for sentence in self.trainer.corpus.dev:
                sentence.clear_embeddings(trained)
