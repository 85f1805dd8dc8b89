"""What a stage adds to Flair's training loop: another schedule, a log, and a fault of Flair's mended."""

from __future__ import annotations

import json
import logging
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from flair.embeddings import StackedEmbeddings
from flair.trainers.plugins import TrainerPlugin, TrainingInterrupt

from gspen_ner.files import write_whole

logger = logging.getLogger(__name__)


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
