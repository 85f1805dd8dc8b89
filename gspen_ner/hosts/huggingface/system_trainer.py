"""Training of the graph systems by `transformers.Trainer`, with the best weights on dev kept in memory.

A system trains in minutes, so it has no checkpoints: a run that is killed trains it again.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments

from gspen_ner.hosts.huggingface.callbacks import QuietProgress, UpdateClock
from recipes.studies.settings import SystemTraining

PREDICTION_BATCH = 512
Output = Literal["predict", "scores", "marginals", "steps"]
Point = dict[str, float]
"""The `"epoch"` of an evaluation, and the score of each split by name."""


@dataclass(frozen=True)
class Examples(Dataset):
    """Inputs and labels of one split, read a batch at a time."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, rows: list[int]) -> dict[str, Tensor]:
        return {"inputs": self.inputs[rows], "labels": self.labels[rows]}

    def first(self, count: int) -> Examples:
        """The first so many."""
        return Examples(self.inputs[:count], self.labels[:count])

    def select(self, rows: Tensor) -> Examples:
        """Those of the given numbers, or where true."""
        return Examples(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True)
class Trained:
    """What there is to know of a training."""

    score: float
    """The best on dev."""
    updates: int
    """Until the best on dev."""
    seconds_an_epoch: float
    """Without evaluation."""
    inference_steps: float
    """A training example's, on average over the last epoch; 0 without a global term."""
    negative_losses: float
    """The share of examples whose inference ended below the gold labels, likewise."""
    curve: tuple[Point, ...] = ()
    """What each evaluation found on dev, and on what else was watched."""


def train_system(
    system: nn.Module,
    train: Examples,
    dev: Examples,
    score: Callable[[Tensor, Tensor], float],
    training: SystemTraining,
    seed: int,
    output: Output = "predict",
    watch: Mapping[str, Examples] = MappingProxyType({}),
) -> Trained:
    """Train what requires gradients; the system ends with its best weights on dev.

    Args:
        system: a `UnarySystem` or `GraphSystem`.
        train: what it learns from.
        dev: what it is judged by.
        score: of predictions and gold labels; larger is better.
        training: how.
        seed: of dropout and of the order of examples.
        output: what predictions are: `"predict"`, labels, or `"marginals"`, probabilities.
        watch: what else is scored at each evaluation, for the `curve`; decides nothing.
    """
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        trainer = SystemTrainer(system, train, dev, score, training, seed, folder, output, watch)
        trainer.train()
        if trainer.state.global_step % trainer.evaluated_every:
            trainer.evaluate()
    assert trainer.best is not None
    system.load_state_dict(trainer.best, strict=False)
    an_epoch = -(-len(train) // training.batch_size)
    steps, negative = (statistics.fmean(values) for values in zip(*trainer.watched[-an_epoch:], strict=True))
    seconds = an_epoch * trainer.clock.seconds
    found = (trainer.best_score, trainer.best_update, seconds, steps, negative)
    return Trained(*found, tuple(trainer.curve))


def predictions(system: nn.Module, inputs: Tensor, output: Output = "predict") -> Tensor:
    """The labels that a system predicts, its scores or probabilities of all, or its steps of inference."""
    predict = getattr(system, output)
    was_training = system.training
    system.eval()
    with torch.no_grad():
        found = torch.cat([predict(part) for part in inputs.split(PREDICTION_BATCH)])
    system.train(was_training)
    return found


class SystemTrainer(Trainer):
    """Trainer's loop, our loss, and evaluation by our own decoding."""

    def __init__(
        self,
        system: nn.Module,
        train: Examples,
        dev: Examples,
        score: Callable[[Tensor, Tensor], float],
        training: SystemTraining,
        seed: int,
        folder: str,
        output: Output,
        watch: Mapping[str, Examples],
    ) -> None:
        self.dev, self.score, self.training, self.output = dev, score, training, output
        self.watch, self.curve = watch, list[Point]()
        self.best: dict[str, Tensor] | None = None
        self.best_score, self.best_update, self.worse = -math.inf, 0, 0
        self.clock = UpdateClock()
        self.evaluated_every = max(training.evaluate_every, -(-len(train) // training.batch_size))
        self.watched: list[tuple[float, float]] = []
        learned = [weight for weight in system.parameters() if weight.requires_grad]
        optimizer: torch.optim.Optimizer = torch.optim.Adam(learned, training.learning_rate)
        if training.optimizer == "sgd":
            optimizer = torch.optim.SGD(learned, training.learning_rate, training.momentum)
        falls = training.schedule == "linear"
        rate = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: max(0.0, 1 - step / training.max_updates) if falls else 1.0
        )
        super().__init__(
            model=system,
            args=self._arguments(seed, folder),
            train_dataset=train,
            eval_dataset=dev,
            data_collator=_as_it_is,
            optimizers=(optimizer, rate),
            callbacks=[self.clock],
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if sys.stderr.isatty():
            self.add_callback(QuietProgress)

    def _arguments(self, seed: int, folder: str) -> TrainingArguments:
        return TrainingArguments(
            output_dir=folder,
            max_steps=self.training.max_updates,
            per_device_train_batch_size=self.training.batch_size,
            max_grad_norm=self.training.clip,
            eval_strategy="steps",
            eval_steps=self.evaluated_every,
            save_strategy="no",
            logging_strategy="no",
            remove_unused_columns=False,
            report_to=[],
            seed=seed,
            use_cpu=not torch.cuda.is_available(),
            dataloader_pin_memory=torch.cuda.is_available(),
            disable_tqdm=True,
        )

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        found = model(**inputs)
        self.watched.append((found.steps, found.negative))
        return found.loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The score on dev; stops the training when it has not risen for too long."""
        model = self.model
        assert isinstance(model, nn.Module)
        epoch = round(self.state.epoch or 0.0, 3)
        if self.curve and self.curve[-1]["epoch"] == epoch:  # Trainer asks twice at the end of an epoch
            return {"eval_score": self.curve[-1]["dev"]}
        scores = {
            name: self.score(predictions(model, examples.inputs, self.output), examples.labels)
            for name, examples in ({"dev": self.dev} | dict(self.watch)).items()
        }
        self.curve.append({"epoch": epoch} | scores)
        value = scores["dev"]
        if value > self.best_score:
            learned = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
            self.best = {name: weight.detach().clone() for name, weight in learned.items()}
            self.best_score, self.best_update, self.worse = value, self.state.global_step, 0
        else:
            self.worse += 1
        if self.worse >= self.training.patience:
            self.control.should_training_stop = True
        return {"eval_score": value}


def _as_it_is(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return batch
