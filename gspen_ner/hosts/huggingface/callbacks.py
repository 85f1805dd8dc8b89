"""Callbacks of a stage: averaged weights, metrics as JSON lines, one log line an epoch, a progress bar.

    average <- decay * average + (1 - decay) * weights       after every update

Early on the decay is (1 + n) / (10 + n), so that the first weights are soon forgotten.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from gspen_ner.files import unwritable, write_whole

logger = logging.getLogger(__name__)
AVERAGE_FILE = "average.safetensors"


class WeightAverage(TrainerCallback):
    """Averages the weights that are trained; saved with every checkpoint and restored from it.

    Args:
        decay: of the average; 0 averages nothing.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {decay}")
        self.decay = decay
        self.weights: dict[str, Tensor] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.decay == 0:
            return
        trained = _trained(kwargs["model"])
        self.weights = {name: weight.detach().clone() for name, weight in trained.items()}
        if state.global_step:  # resumed
            saved = load_file(_folder(args, state) / AVERAGE_FILE)
            for name, average in self.weights.items():
                average.copy_(saved[name])

    @torch.no_grad()
    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.decay == 0:
            return
        decay = min(self.decay, (1 + state.global_step) / (10 + state.global_step))
        trained = _trained(kwargs["model"])
        torch._foreach_lerp_(list(self.weights.values()), [trained[name] for name in self.weights], 1 - decay)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.decay and state.is_world_process_zero:
            file = _folder(args, state) / AVERAGE_FILE
            try:
                save_file(self.weights, file)
            except SafetensorError as error:  # a full disk
                raise unwritable(file, error) from error

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Let the model have the averaged weights for a while."""
        trained = _trained(model) if self.weights else {}
        self._swap(trained)
        try:
            yield
        finally:
            self._swap(trained)

    def _swap(self, trained: dict[str, nn.Parameter]) -> None:
        for name, weight in trained.items():
            weight.data, self.weights[name] = self.weights[name], weight.data


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    model = getattr(model, "module", model)  # without the wrapper of distributed training
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"


class StageLog(TrainerCallback):
    """Writes the history of one stage behind those of the stages before it.

    The file is written anew from Trainer's own history, which checkpoints keep: a resumed run has every
    epoch once.

    Args:
        file: of JSON lines.
        stage: name of the stage.
    """

    def __init__(self, file: Path, stage: str) -> None:
        self.file, self.stage = file, stage

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        others = [line for line in lines if json.loads(line)["stage"] != self.stage]
        own = [json.dumps({"stage": self.stage, **entry}) for entry in state.log_history]
        write_whole(self.file, "".join(f"{line}\n" for line in [*others, *own]))

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        trained = [entry for entry in state.log_history if "loss" in entry][-1:]
        said = [f"loss {entry['loss']:.4f}, {entry.get('seconds', 0):.1f} s" for entry in trained]
        said.append(f"dev F1 {100 * kwargs['metrics']['eval_f1']:.2f}")
        epochs = f"{round(state.epoch or 0)}/{round(state.num_train_epochs)}"
        logger.info("%s, epoch %s: %s", self.stage, epochs, ", ".join(said))


class EpochClock(TrainerCallback):
    """Measures the training of an epoch, without its evaluation."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the epoch began."""
        return time.perf_counter() - self.start


class QuietProgress(ProgressCallback):
    """Trainer's progress bar without the dictionaries that it prints beside it."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """`StageLog` says it in words."""
