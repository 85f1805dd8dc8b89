"""One stage of training by Flair's `ModelTrainer`."""

from __future__ import annotations

import json
import logging
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import flair
import torch
from flair.data import Corpus
from flair.embeddings import StackedEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.trainers.plugins import TrainerPlugin, TrainingInterrupt

from gspen_ner.files import write_whole
from gspen_ner.hosts.flair.documents import DocumentBatches
from gspen_ner.hosts.flair.tagger import GSPENTagger
from gspen_ner.recipe import FlairTraining

logger = logging.getLogger(__name__)
BEST_FILE = "best-model.pt"  # as Flair calls it


class AnnealOnTrainLoss(TrainerPlugin):
    """Lowers the learning rate when the training loss stalls; Flair's own plugin watches the dev score.

    Args:
        factor: the rate is multiplied by this
        patience: after so many epochs without a lower loss than the lowest so far.
        smallest: training ends when the rate falls below this.
    """

    def __init__(self, factor: float = 0.5, patience: int = 3, smallest: float = 1e-4) -> None:
        super().__init__()
        self.factor, self.patience, self.smallest = factor, patience, smallest
        self.lowest, self.stalled = float("inf"), 0
        self.losses: list[float] = []

    @TrainerPlugin.hook
    def before_training_epoch(self, **kw: Any) -> None:
        """Begin a new mean."""
        self.losses = []

    @TrainerPlugin.hook("metric_recorded")
    def collect(self, record: Any) -> None:
        """Losses of the epoch's batches."""
        if tuple(record.name) == ("train", "batch_loss"):
            self.losses.append(float(record.value))

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Lower the rate if the loss has stalled."""
        loss = statistics.fmean(self.losses) if self.losses else float("inf")
        self.stalled = 0 if loss < self.lowest else self.stalled + 1
        self.lowest = min(loss, self.lowest)
        if self.stalled >= self.patience:
            self.stalled = 0
            for group in self.trainer.optimizer.param_groups:
                group["lr"] *= self.factor
        if all(group["lr"] < self.smallest for group in self.trainer.optimizer.param_groups):
            raise TrainingInterrupt("the learning rate is too small to go on")


class EpochLog(TrainerPlugin):
    """Writes an epoch's dev F1 and training time as a JSON line.

    Args:
        file: of JSON lines; those of the stage are written anew.
        stage: its name.
    """

    def __init__(self, file: Path, stage: str) -> None:
        super().__init__()
        self.file, self.stage = file, stage
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.lines = [line for line in lines if json.loads(line)["stage"] != stage]
        self.seconds: list[float] = []
        self.killed = False

    @TrainerPlugin.hook
    def training_interrupt(self, **kw: Any) -> None:
        """Remember Ctrl-C, which Flair takes for the end of training."""
        self.killed = isinstance(sys.exc_info()[1], KeyboardInterrupt)

    @TrainerPlugin.hook
    def before_training_epoch(self, **kw: Any) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Stop it before evaluation begins."""
        self.seconds.append(time.perf_counter() - self.start)

    @TrainerPlugin.hook
    def after_evaluation(self, epoch: int, validation_scores: Any, **kw: Any) -> None:
        """Write the line."""
        f1, seconds = float(validation_scores[0]), self.seconds[-1]
        entry = {"stage": self.stage, "epoch": epoch, "eval_f1": f1, "seconds": seconds}
        self.lines.append(json.dumps(entry))
        logger.info("%s, epoch %d: %.1f s, dev F1 %.2f", self.stage, epoch, seconds, 100 * f1)
        write_whole(self.file, "".join(f"{line}\n" for line in self.lines))


class FreshEmbeddings(TrainerPlugin):
    """Forgets dev sentences' embeddings that are trained, before they are evaluated.

    With stored embeddings, Flair 0.15 tells the trained ones by their gradients, which there are none of in
    evaluation: it would go on evaluating those of the first epoch.
    """

    @TrainerPlugin.hook
    def after_training_epoch(self, **kw: Any) -> None:
        """Clear them."""
        embeddings = self.trainer.model.embeddings
        parts = embeddings.embeddings if isinstance(embeddings, StackedEmbeddings) else [embeddings]
        trained = [name for part in parts if not part.static_embeddings for name in part.get_names()]
        if trained:
            for sentence in self.trainer.corpus.dev:
                sentence.clear_embeddings(trained)


def quiet_console() -> None:
    """Let Flair write its log into files only; what matters is said by `EpochLog`."""
    for handler in logging.getLogger("flair").handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.WARNING)


def train_stage(
    tagger: SequenceTagger, corpus: Corpus, training: FlairTraining, folder: Path, seed: int
) -> float:
    """Train a tagger; its best state on dev is BEST_FILE in the folder.

    Returns:
        The median of the seconds that an epoch took, without evaluation.
    """
    flair.set_seed(seed)
    log = EpochLog(folder.parent / "metrics.jsonl", folder.name)
    plugins: list[TrainerPlugin] = [log, FreshEmbeddings()]
    watch_loss = training.anneal_on == "train_loss"
    if watch_loss:
        plugins.append(
            AnnealOnTrainLoss(training.anneal_factor, training.patience, training.min_learning_rate)
        )
    if isinstance(tagger, GSPENTagger) and tagger.couples_documents:
        plugins.append(DocumentBatches(seed))
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[training.optimizer]
    ModelTrainer(tagger, corpus).train(
        folder,
        learning_rate=training.learning_rate,
        mini_batch_size=training.batch_size,
        max_epochs=training.epochs,
        optimizer=optimizer,
        anneal_factor=training.anneal_factor,
        patience=10**6 if watch_loss else training.patience,
        min_learning_rate=0.0 if watch_loss else training.min_learning_rate,
        plugins=plugins,
        save_final_model=False,
        embeddings_storage_mode="cpu",
    )
    if log.killed:
        raise KeyboardInterrupt
    if not (folder / BEST_FILE).exists():  # Flair saves no model whose dev F1 is 0
        tagger.save(folder / BEST_FILE)
    return statistics.median(log.seconds)
