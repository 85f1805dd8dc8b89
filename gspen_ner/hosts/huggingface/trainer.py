"""One stage of training by `transformers.Trainer`: batches, development F1, the best model, resuming.

Trainer owns the loop. What is added: batches of similar length or of whole documents, evaluation by our
own decoder, averaged weights, and a best model that is written by `save_pretrained`, never as a pickle.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerState,
    TrainingArguments,
)

from gspen_ner.files import mend_folder, write_folder
from gspen_ner.hosts.huggingface.averaging import FILE_NAME as AVERAGE_FILE
from gspen_ner.hosts.huggingface.averaging import WeightAverage
from gspen_ner.hosts.huggingface.batches import EpochBatches
from gspen_ner.hosts.huggingface.data import Collator
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.run_log import EpochClock, QuietProgress, StageLog
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.labels import spans_of_tags
from gspen_ner.recipe import TermTraining, Training
from gspen_ner.tasks.ner_metrics import span_f1


@dataclass(frozen=True)
class StageData:
    """What a stage learns from, and what it is judged by.

    Args:
        train: rows with labels.
        dev: rows with gold tags.
        draws: versions of its rows that `train` holds; see `EpochBatches`.
    """

    train: datasets.Dataset
    dev: datasets.Dataset
    draws: int = 1


def train_stage(
    model: GSPENForTokenClassification, training: Training, folder: Path, data: StageData, seed: int
) -> float:
    """Train a model, going on from the last checkpoint in the folder if there is one.

    Returns:
        The median of the seconds that an epoch took, without evaluation.
    """
    mend_folder(folder / "best")
    transformers.logging.set_verbosity_error()  # it warns of what is done otherwise here
    trainer = StageTrainer(model, training, folder, data, seed)
    checkpoint = last_checkpoint(folder / "checkpoints", training.average > 0)
    for torn in _checkpoints(folder / "checkpoints"):  # by their numbers, Trainer would take them for newer
        if checkpoint is None or _step(torn) > _step(checkpoint):
            shutil.rmtree(torn)
    if checkpoint is not None and _had_stopped(checkpoint):
        history = TrainerState.load_from_json(str(checkpoint / "trainer_state.json")).log_history
    else:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = trainer.state.log_history
    return statistics.median(entry["seconds"] for entry in history if "seconds" in entry)


def _had_stopped(checkpoint: Path) -> bool:
    """Whether training was over at a checkpoint; Trainer itself forgets that."""
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    control = state.stateful_callbacks.get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop"))


class StageTrainer(Trainer):
    """Trains a model on a dataset and keeps the one that is best on another.

    Args:
        model: what is trained.
        training: how.
        folder: gets `checkpoints` and `best`; the metrics go into a file beside it.
        data: what it learns from and is judged by.
        seed: of dropout and of the order of batches.
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
        self.batches = self._batches(model, data, seed)
        self.data = data
        self.gold = [spans_of_tags(tags, "BIO") for tags in data.dev[:]["tags"]]
        self.watched: list[tuple[float, float]] = []
        super().__init__(
            model=model,
            args=self._arguments(seed),
            data_collator=Collator.of(model),
            train_dataset=data.train,
            eval_dataset=data.dev,
            callbacks=[self.average, self.clock, log, *stopping],
            optimizers=self._optimizers(model),
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if sys.stderr.isatty():
            self.add_callback(QuietProgress)

    def _batches(self, model: GSPENForTokenClassification, data: StageData, seed: int) -> EpochBatches:
        rows = data.train.select_columns(["document", "mentions"])[: len(data.train) // data.draws]
        documents = rows["document"] if model.couples_documents else None
        lengths = [len(row) for row in rows["mentions"]]
        return EpochBatches(documents, lengths, self.training.batch_size, seed, data.draws)

    def _arguments(self, seed: int) -> TrainingArguments:
        arguments = TrainingArguments(
            output_dir=str(self.folder / "checkpoints"),
            num_train_epochs=self.training.epochs,
            per_device_train_batch_size=self.training.batch_size,
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
        )
        if arguments.world_size > 1:
            raise ValueError(f"one process only, not {arguments.world_size}: batches cannot be divided yet")
        arguments._n_gpu = min(arguments.n_gpu, 1)  # spellings of a batch cannot be divided among devices
        return arguments

    def _optimizers(
        self, model: GSPENForTokenClassification
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        training = self.training
        base = [weight for weight in model.scorer.parameters() if weight.requires_grad]
        head = [] if model.head is None else list(model.head.parameters())
        rate = training.learning_rate
        if isinstance(training, TermTraining):
            rate = training.base_learning_rate or rate
        groups = [{"params": base, "lr": rate}, {"params": head, "lr": training.learning_rate}]
        groups = [group for group in groups if group["params"]]
        optimizer: torch.optim.Optimizer
        if training.optimizer == "sgd":
            optimizer = torch.optim.SGD(groups, momentum=training.momentum, nesterov=training.nesterov)
        else:
            optimizer = torch.optim.Adam(groups, fused=True)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, self._rate_factor())

    def _rate_factor(self) -> Callable[[int], float]:
        steps, training = len(self.batches), self.training
        if training.schedule == "linear":
            return lambda step: max(0.0, 1 - step / (steps * training.epochs))
        if training.schedule == "inverse_time":
            return lambda step: 1 / (1 + training.decay * (step // steps))
        return lambda step: 1.0

    def get_train_dataloader(self) -> DataLoader:
        loader: DataLoader = DataLoader(
            self.data.train, batch_sampler=self.batches, collate_fn=self.data_collator
        )
        return self.accelerator.prepare(loader)

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

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """F1 on the development set, with averaged weights; a model better than all before is kept."""
        assert isinstance(self.model, GSPENForTokenClassification)
        was_training = self.model.training
        with self.average.in_place(self.model):
            found = Tagger(self.model).spans(self.data.dev)
            lengths = [len(row) for row in self.data.dev[:]["mentions"]]
            score = span_f1(self.gold, found, lengths).micro
            before = [entry["eval_f1"] for entry in self.state.log_history if "eval_f1" in entry]
            if self.is_world_process_zero() and score.f1 > max(before, default=-math.inf):
                write_folder(self.folder / "best", self.model.save_pretrained)
        self.model.train(was_training)
        metrics = {f"eval_{name}": getattr(score, name) for name in ("f1", "precision", "recall")}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def last_checkpoint(folder: Path, averaged: bool) -> Path | None:
    """The newest checkpoint that was written as a whole; what a kill has torn is passed over."""
    found = reversed(_checkpoints(folder))
    return next((checkpoint for checkpoint in found if _whole(checkpoint, averaged)), None)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*"), key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1])


def _whole(checkpoint: Path, averaged: bool) -> bool:
    try:
        for name in ("config.json", "trainer_state.json"):
            json.loads((checkpoint / name).read_text(encoding="utf-8"))
        for name in ["model.safetensors", *([AVERAGE_FILE] if averaged else [])]:
            with safe_open(checkpoint / name, "pt"):
                pass
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            if zipfile.ZipFile(checkpoint / name).testzip() is not None:
                return False
    except (OSError, ValueError, SafetensorError, zipfile.BadZipFile):
        return False
    return True
