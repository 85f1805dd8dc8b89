"""Checkpoints of a stage: the moving average of the weights, and incomplete ones of interrupted runs.

    average <- decay * average + (1 - decay) * weights       after every update

Early on the decay is (1 + n) / (10 + n), so that the first weights are soon forgotten.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerState, TrainingArguments

from gspen_ner.files import unwritable

AVERAGE_FILE = "average.safetensors"


class WeightAverage(TrainerCallback):
    """Averages the weights that are trained; saved with every checkpoint and restored from it.

    Args:
        decay: decay of the average; 0 averages nothing.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {decay}")
        self.decay = decay
        self.weights: dict[str, Tensor] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any
    ) -> None:
        if self.decay == 0:
            return
        trained = _trained(kwargs["model"])
        self.weights = {name: weight.detach().clone() for name, weight in trained.items()}
        if state.global_step:  # resumed
            saved = load_file(_file(args, state))
            for name, average in self.weights.items():
                average.copy_(saved[name])

    @torch.no_grad()
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.decay == 0:
            return
        decay = min(self.decay, (1 + state.global_step) / (10 + state.global_step))
        trained = _trained(kwargs["model"])
        torch._foreach_lerp_(list(self.weights.values()), [trained[name] for name in self.weights], 1 - decay)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.decay and state.is_world_process_zero:
            file = _file(args, state)
            try:
                save_file(self.weights, file)
            except SafetensorError as error:  # a full disk
                raise unwritable(file, error) from error

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights within this context."""
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


def _file(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(args.output_dir or ".") / f"checkpoint-{state.global_step}" / AVERAGE_FILE


def last_checkpoint(folder: Path, averaged: bool) -> Path | None:
    """Return the newest complete checkpoint; incomplete ones of interrupted runs are skipped.

    Args:
        folder: folder of the checkpoints.
        averaged: whether a complete checkpoint contains averaged weights.
    """
    newest_first = reversed(_checkpoints(folder))
    return next((checkpoint for checkpoint in newest_first if _is_complete(checkpoint, averaged)), None)


def remove_newer(folder: Path, checkpoint: Path | None) -> None:
    """Remove incomplete checkpoints after a complete one (all if None): Trainer would resume from them."""
    for newer in _checkpoints(folder):
        if checkpoint is None or _step(newer) > _step(checkpoint):
            shutil.rmtree(newer)


def state_of(checkpoint: Path) -> TrainerState:
    """Return Trainer's state at a checkpoint, with the log of all epochs."""
    return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))


def had_stopped(checkpoint: Path) -> bool:
    """Return whether training was over at a checkpoint; Trainer itself forgets that."""
    callbacks = cast(dict[str, dict[str, Any]], state_of(checkpoint).stateful_callbacks)
    return bool(callbacks.get("TrainerControl", {}).get("args", {}).get("should_training_stop"))


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*"), key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1])


def _is_complete(checkpoint: Path, averaged: bool) -> bool:
    try:
        for name in ("config.json", "trainer_state.json"):
            json.loads((checkpoint / name).read_text(encoding="utf-8"))
        for name in ["model.safetensors", *([AVERAGE_FILE] if averaged else [])]:
            with safe_open(checkpoint / name, "pt"):
                pass
        chance = sorted(checkpoint.glob("rng_state*.pth")) or [checkpoint / "rng_state.pth"]
        for file in (checkpoint / "optimizer.pt", checkpoint / "scheduler.pt", *chance):
            if zipfile.ZipFile(file).testzip() is not None:
                return False
    except (OSError, ValueError, SafetensorError, zipfile.BadZipFile):
        return False
    return True
