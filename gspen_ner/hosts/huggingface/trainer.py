"""One stage of training by `transformers.Trainer`: learning rates, development F1, the best model, resuming.

Trainer owns the loop. Added are: batches of similar length or of whole documents, evaluation by our own
decoder, averaged weights, metrics as JSON lines, one log line an epoch, and a best model that is written by
`save_pretrained`, never as a pickle.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
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
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

from gspen_ner.files import mend_folder, unwritable, write_folder
from gspen_ner.hosts.huggingface.checkpoints import (
    WeightAverage,
    had_stopped,
    last_checkpoint,
    remove_newer,
    state_of,
)
from gspen_ner.hosts.huggingface.data import Collator, lengths_of
from gspen_ner.hosts.huggingface.document_trainer import DocumentTrainer, parameter_groups
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.processes import gathered, main_first, own_rows, world_size
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.metrics import span_f1
from gspen_ner.recipe import TermTraining, Training
from gspen_ner.training.stages import write_history

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageData:
    """Training data and development data of a stage.

    Args:
        train: rows with labels.
        dev: rows with gold tags, which decide which weights are best.
        versions: number of versions of its rows that `train` holds, default 1; see `EpochBatches`.

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
    """Train a model, continuing from the last checkpoint in the folder if there is one.

    Returns:
        The median duration of an epoch in seconds, without evaluation.
    """
    transformers.logging.set_verbosity_error()  # it warns of tasks that are solved in another way here
    trainer = StageTrainer(model, training, folder, data, seed)
    with main_first() as first:
        checkpoint = last_checkpoint(folder / "checkpoints", training.average > 0)
        if first:
            mend_folder(folder / "best")
            remove_newer(folder / "checkpoints", checkpoint)
    if checkpoint is not None and had_stopped(checkpoint):
        history = state_of(checkpoint).log_history
    else:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = trainer.state.log_history
    return statistics.median(entry["seconds"] for entry in history if "seconds" in entry)


class StageArguments(TrainingArguments):
    """Trainer's arguments for a stage."""

    @property
    def device(self) -> torch.device:
        """Device of the training; accelerate numbers processors ("cpu:1"), which torch.load does not take."""
        device = super().device
        return torch.device("cpu") if device.type == "cpu" else device


class StageTrainer(DocumentTrainer):
    """Trains a model and keeps the weights with the best F1 on development data.

    Args:
        model: the model to train.
        training: settings.
        folder: folder of `checkpoints` and `best`; the metrics are written to a file beside it.
        data: training data and development data.
        seed: seed of dropout and of the order of batches.

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
        self.average = WeightAverage(training.average)
        self.stage_log = StageLog(folder.parent / "metrics.jsonl", folder.name)
        stopping = [EarlyStoppingCallback(training.patience)] if training.patience else []
        self.data, self.versions = data, data.versions
        self.gold = [spans_of_tags(tags, "BIO") for tags in data.dev[:]["tags"]]
        self.inference: list[tuple[float, float]] = []
        super().__init__(
            model=model,
            args=self._arguments(seed),
            data_collator=Collator.of(model),
            train_dataset=data.train,
            eval_dataset=data.dev,
            callbacks=[self.average, self.stage_log, *stopping],
            optimizers=(stage_optimizer(model, training), None),
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if sys.stderr.isatty():
            self.add_callback(QuietProgress)

    def _arguments(self, seed: int) -> TrainingArguments:
        os.environ["ACCELERATE_MIXED_PRECISION"] = (
            "no"  # Trainer has set it to the precision of the previous stage
        )
        return StageArguments(
            output_dir=str(self.folder / "checkpoints"),
            num_train_epochs=self.training.epochs,
            per_device_train_batch_size=max(1, self.training.batch_size // world_size()),
            max_grad_norm=self.training.clip,
            eval_strategy="epoch",
            save_strategy="epoch",
            logging_strategy="epoch",
            save_total_limit=3,  # the newest, which may be incomplete, the previous, and the best
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
        """Return the learning-rate schedule of the recipe, not one of Trainer's."""
        if self.lr_scheduler is None:
            assert self.optimizer is not None
            factor = rate_factor(self.training, num_training_steps)
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)
        return self.lr_scheduler

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        output = model(**inputs)
        if output.steps is not None:
            self.inference.append((float(output.negative), float(output.steps)))
        return output.loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs:
            logs["seconds"] = time.perf_counter() - self.stage_log.start
        if "loss" in logs and self.inference:
            negative, steps = (statistics.fmean(values) for values in zip(*self.inference, strict=True))
            logs |= {"negative_losses": negative, "inference_steps": steps}
            self.inference.clear()
        super().log(logs, *args, **kwargs)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        try:
            super()._save_checkpoint(*args, **kwargs)
        except Exception as error:  # each library reports a full disk by an exception of its own
            raise unwritable(self.folder / "checkpoints", error) from error

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Return dev F1 with averaged weights, and keep a model that is better than all before."""
        was_training = self.model.training
        with self.average.in_place(self.model):
            score = span_f1(self.gold, self._predicted(), lengths_of(self.data.dev)).micro
            before = [entry["eval_f1"] for entry in self.state.log_history if "eval_f1" in entry]
            if self.is_world_process_zero() and score.f1 > max(before, default=-math.inf):
                write_folder(self.folder / "best", self.model.save_pretrained)
        self.model.train(was_training)
        metrics = {f"eval_{name}": getattr(score, name) for name in ("f1", "precision", "recall")}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _predicted(self) -> list[list[Span]]:
        """Return predicted entities of the development data; each process tags its share of the documents."""
        dev = self.data.dev
        rows = own_rows(dev[:]["document"])
        spans = Tagger(self.model).spans(dev if len(rows) == len(dev) else dev.select(rows))
        of_row = dict(gathered(list(zip(rows, spans, strict=True))))
        return [of_row[row] for row in range(len(dev))]


class StageLog(TrainerCallback):
    """Logs the epochs of a stage, and writes Trainer's own history of them; see `write_history`.

    Checkpoints keep this history: a resumed run has every epoch once.
    """

    def __init__(self, file: Path, stage: str) -> None:
        self.file, self.stage = file, stage
        self.start = time.perf_counter()

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any
    ) -> None:
        self.start = time.perf_counter()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            write_history(self.file, self.stage, state.log_history)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        trained = [entry for entry in state.log_history if "loss" in entry][-1:]
        parts = [f"loss {entry['loss']:.4f}, {entry.get('seconds', 0):.1f} s" for entry in trained]
        parts.append(f"dev F1 {100 * kwargs['metrics']['eval_f1']:.2f}")
        epochs = f"{round(state.epoch or 0)}/{round(state.num_train_epochs)}"
        logger.info("%s, epoch %s: %s", self.stage, epochs, ", ".join(parts))


class QuietProgress(ProgressCallback):
    """Trainer's progress bar without the dictionaries that it prints; `StageLog` logs them in words."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Print nothing."""


def stage_optimizer(model: GSPENForTokenClassification, training: Training) -> torch.optim.Optimizer:
    """Return the optimizer of a recipe's stage."""
    base = training.learning_rate
    if isinstance(training, TermTraining):
        base = training.base_learning_rate or base
    groups = parameter_groups(
        model,
        base,
        output=training.output_learning_rate,
        transitions=training.transitions_learning_rate,
        term=training.learning_rate,
        weight_decay=training.weight_decay,
    )
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=training.momentum, nesterov=training.nesterov)
    return torch.optim.AdamW(groups, fused=True)  # without weight decay, it is Adam


def rate_factor(training: Training, steps: int) -> Callable[[int], float]:
    """Return the factor of all learning rates at each of `steps` updates: warm-up, then the schedule."""
    an_epoch = steps // training.epochs
    rising = max(1, round(training.warmup * steps))

    def factor(step: int) -> float:
        if training.warmup and step < rising:
            return (step + 1) / rising
        if training.schedule == "linear":
            done = step / steps if not training.warmup else (step - rising) / max(1, steps - rising)
            return max(0.0, 1 - done)
        if training.schedule == "inverse_time":
            return 1 / (1 + training.decay * (step // an_epoch))
        return 1.0

    return factor
