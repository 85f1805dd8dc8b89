"""What a training says while it runs: metrics as JSON lines, one log line an epoch, a progress bar."""

from __future__ import annotations

import json
import logging
import statistics
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from gspen_ner.files import write_whole

logger = logging.getLogger(__name__)


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


class UpdateClock(TrainerCallback):
    """Measures updates one by one; the first, which may compile something, counts only if it is alone."""

    def __init__(self) -> None:
        self.start, self.times = 0.0, list[float]()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.start = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.times.append(time.perf_counter() - self.start)

    @property
    def seconds(self) -> float:
        """Of an update, on average."""
        return statistics.fmean(self.times[1:] or self.times)


class QuietProgress(ProgressCallback):
    """Trainer's progress bar without the dictionaries that it prints beside it."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """`StageLog` says it in words."""
