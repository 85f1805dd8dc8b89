"""One stage of training by `transformers.Trainer`: batches, development F1, the best model, resuming.

Trainer owns the loop. What is added: batches of similar length or of whole documents, evaluation by our
own decoder, averaged weights, and a best model that is written by `save_pretrained`, never as a pickle.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from torch import Tensor, nn
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    ProgressCallback,
    TrainingArguments,
)

from gspen_ner.files import mend_folder, unwritable, write_folder
from gspen_ner.hosts.huggingface.callbacks import EpochClock, QuietProgress, StageLog, WeightAverage
from gspen_ner.hosts.huggingface.checkpoints import had_stopped, last_checkpoint, remove_newer, state_of
from gspen_ner.hosts.huggingface.data import Collator, lengths_of
from gspen_ner.hosts.huggingface.document_trainer import DocumentTrainer
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.processes import gathered, is_main, main_first, own_rows, world_size
from gspen_ner.hosts.huggingface.rates import rate_factor, stage_optimizer
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.metrics import span_f1
from gspen_ner.recipe import Training


@dataclass(frozen=True)
class StageData:
    """What a stage learns from, and what it is judged by.

    Args:
        train: rows with labels.
        dev: rows with gold tags.
        versions: number of versions of its rows that `train` holds; see `EpochBatches`.

    Example:
        >>> from gspen_ner.hosts.huggingface import as_dataset
        >>> from gspen_ner.ner.files import TaggedSentence
        >>> rows = as_dataset([TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0)])
        >>> StageData(train=rows, dev=rows).versions
        1
    """

    train: datasets.Dataset
    dev: datasets.Dataset
    versions: int = 1


def train_stage(
    model: GSPENForTokenClassification, training: Training, folder: Path, data: StageData, seed: int
) -> float:
    """Train a model, going on from the last checkpoint in the folder if there is one.

    Returns:
        The median of the seconds that an epoch took, without evaluation.
    """
    transformers.logging.set_verbosity_error()  # it warns of what is done otherwise here
    trainer = StageTrainer(model, training, folder, data, seed)
    with main_first():
        if is_main():
            mend_folder(folder / "best")
        checkpoint = last_checkpoint(folder / "checkpoints", training.average > 0)
        if is_main():
            remove_newer(folder / "checkpoints", checkpoint)
    if checkpoint is not None and had_stopped(checkpoint):
        history = state_of(checkpoint).log_history
    else:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = trainer.state.log_history
    return statistics.median(entry["seconds"] for entry in history if "seconds" in entry)


class StageArguments(TrainingArguments):
    """Arguments of a stage."""

    @property
    def device(self) -> torch.device:
        """Where to train; accelerate numbers processors ("cpu:1"), to which torch.load cannot load."""
        device = super().device
        return torch.device("cpu") if device.type == "cpu" else device


class StageTrainer(DocumentTrainer):
    """Trains a model on a dataset and keeps the one that is best on another.

    Args:
        model: what is trained.
        training: how.
        folder: gets `checkpoints` and `best`; the metrics go into a file beside it.
        data: what it learns from and is judged by.
        seed: of dropout and of the order of batches.

    Example:
        >>> import tempfile
        >>> from gspen_ner.scorers import Vocabulary
        >>> from gspen_ner.hosts.huggingface import as_dataset
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> from gspen_ner.ner.files import TaggedSentence
        >>> rows = as_dataset([TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0)], model.bio)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stage = Path(folder) / "base"
        ...     trainer = StageTrainer(model, Training(epochs=1), stage, StageData(rows, rows), seed=1)
        ...     _ = trainer.train()
        ...     sorted(path.name for path in stage.iterdir())
        ['best', 'checkpoints']
    """

    def __init__(
        self,
        model: GSPENForTokenClassification,
        training: Training,
        folder: Path,
        data: StageData,
        seed: int,
    ) -> None:
        self.training, self.folder = training, folder
        self.average, self.clock = WeightAverage(training.average), EpochClock()
        log = StageLog(folder.parent / "metrics.jsonl", folder.name)
        stopping = [EarlyStoppingCallback(training.patience)] if training.patience else []
        self.data, self.versions = data, data.versions
        self.gold = [spans_of_tags(tags, "BIO") for tags in data.dev[:]["tags"]]
        self.watched: list[tuple[float, float]] = []
        super().__init__(
            model=model,
            args=self._arguments(seed),
            data_collator=Collator.of(model),
            train_dataset=data.train,
            eval_dataset=data.dev,
            callbacks=[self.average, self.clock, log, *stopping],
            optimizers=(stage_optimizer(model, training), None),
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if sys.stderr.isatty():
            self.add_callback(QuietProgress)

    def _arguments(self, seed: int) -> TrainingArguments:
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # where Trainer leaves that of the stage before
        return StageArguments(
            output_dir=str(self.folder / "checkpoints"),
            num_train_epochs=self.training.epochs,
            per_device_train_batch_size=max(1, self.training.batch_size // world_size()),
            max_grad_norm=self.training.clip,
            eval_strategy="epoch",
            save_strategy="epoch",
            logging_strategy="epoch",
            save_total_limit=3,  # the newest, of which a kill may leave a part, the one before, and the best
            metric_for_best_model="f1",
            greater_is_better=True,
            remove_unused_columns=False,
            restore_callback_states_from_checkpoint=True,
            report_to=list(self.training.loggers),
            seed=seed,
            use_cpu=not torch.cuda.is_available(),
            dataloader_pin_memory=torch.cuda.is_available(),
            disable_tqdm=True,
            bf16=self.training.precision == "bf16",
            fp16=self.training.precision == "fp16",
            ddp_find_unused_parameters=True,  # a batch of single words has no transitions
        )

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The schedule of the recipe, not one of Trainer's."""
        if self.lr_scheduler is None:
            assert self.optimizer is not None
            factor = rate_factor(self.training, num_training_steps)
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)
        return self.lr_scheduler

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        output = model(**inputs)
        if output.steps is not None:
            self.watched.append((float(output.negative), float(output.steps)))
        return output.loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs:
            logs["seconds"] = self.clock.seconds
        if "loss" in logs and self.watched:
            negative, steps = (statistics.fmean(values) for values in zip(*self.watched, strict=True))
            logs |= {"negative_losses": negative, "inference_steps": steps}
            self.watched.clear()
        super().log(logs, *args, **kwargs)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        try:
            super()._save_checkpoint(*args, **kwargs)
        except Exception as error:  # a full disk is of another kind in each library
            raise unwritable(self.folder / "checkpoints", error) from error

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """F1 on the development set, with averaged weights; a model better than all before is kept."""
        assert isinstance(self.model, GSPENForTokenClassification)
        was_training = self.model.training
        with self.average.in_place(self.model):
            found = self._found()
            lengths = lengths_of(self.data.dev)
            score = span_f1(self.gold, found, lengths).micro
            before = [entry["eval_f1"] for entry in self.state.log_history if "eval_f1" in entry]
            if self.is_world_process_zero() and score.f1 > max(before, default=-math.inf):
                write_folder(self.folder / "best", self.model.save_pretrained)
        self.model.train(was_training)
        metrics = {f"eval_{name}": getattr(score, name) for name in ("f1", "precision", "recall")}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _found(self) -> list[list[Span]]:
        """Entities of the development set, each process finding those of its share of the documents."""
        assert isinstance(self.model, GSPENForTokenClassification)
        dev = self.data.dev
        rows = own_rows(dev[:]["document"])
        spans = Tagger(self.model).spans(dev if len(rows) == len(dev) else dev.select(rows))
        found = dict(gathered(list(zip(rows, spans, strict=True))))
        return [found[row] for row in range(len(dev))]
