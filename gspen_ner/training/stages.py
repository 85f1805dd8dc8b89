"""What hosts share that train in stages: scoring with or without dropout, and the history of all epochs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gspen_ner.files import write_whole


@contextmanager
def scoring(model: nn.Module, draw: int | None) -> Iterator[None]:
    """Let a model score without gradients; its mode and the random numbers of others stay as they are.

    Args:
        model: the model.
        draw: number of a draw of dropout masks; None scores without dropout.
    """
    was_training = model.training
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(-1 if draw is None else draw)
        model.train(draw is not None)
        yield
    model.train(was_training)


def write_history(file: Path, stage: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write the entries of a stage's epochs as JSON lines, after those of the other stages in the file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    others = [line for line in lines if json.loads(line)["stage"] != stage]
    own = [json.dumps({"stage": stage, **entry}) for entry in entries]
    write_whole(file, "".join(f"{line}\n" for line in [*others, *own]))
