"""Checkpoints of a stage: which one to go on from, and what a kill has torn."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError, safe_open
from transformers import TrainerState

from gspen_ner.hosts.huggingface.callbacks import AVERAGE_FILE


def last_checkpoint(folder: Path, averaged: bool) -> Path | None:
    """The newest checkpoint that was written as a whole; what a kill has torn is passed over."""
    found = reversed(_checkpoints(folder))
    return next((checkpoint for checkpoint in found if _whole(checkpoint, averaged)), None)


def remove_newer(folder: Path, checkpoint: Path | None) -> None:
    """Remove those after a checkpoint (all if None): torn ones, which Trainer would take for the newest."""
    for torn in _checkpoints(folder):
        if checkpoint is None or _step(torn) > _step(checkpoint):
            shutil.rmtree(torn)


def state_of(checkpoint: Path) -> TrainerState:
    """What Trainer knew at a checkpoint, the log of all epochs among it."""
    return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))


def had_stopped(checkpoint: Path) -> bool:
    """Whether training was over at a checkpoint; Trainer itself forgets that."""
    callbacks = cast(dict[str, dict[str, Any]], state_of(checkpoint).stateful_callbacks)
    return bool(callbacks.get("TrainerControl", {}).get("args", {}).get("should_training_stop"))


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
        chance = sorted(checkpoint.glob("rng_state*.pth")) or [checkpoint / "rng_state.pth"]
        for file in (checkpoint / "optimizer.pt", checkpoint / "scheduler.pt", *chance):
            if zipfile.ZipFile(file).testzip() is not None:
                return False
    except (OSError, ValueError, SafetensorError, zipfile.BadZipFile):
        return False
    return True
