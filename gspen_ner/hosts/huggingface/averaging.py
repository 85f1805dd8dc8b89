"""An exponential moving average of the weights, which is what gets evaluated and kept.

    average <- decay * average + (1 - decay) * weights       after every update

Early on the decay is (1 + n) / (10 + n), so that the first weights are soon forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gspen_ner.files import unwritable

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
