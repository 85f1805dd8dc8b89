"""What hosts share that train in stages: defaults, versions of scores, scoring with dropout, a history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from gspen_ner.files import write_whole

TERM_INFERENCE: Mapping[str, Any] = MappingProxyType({"max_steps": 5, "tolerance": 0.1})
"""Options of the head while `train_term` trains a term of a tagger, by default."""


def needs_make_base(reason: str) -> ValueError:
    """Return the error of cross-fitting that cannot make new base models by itself, for this reason."""
    return ValueError(f"cross-fitting trains new base models, and {reason}: give make_base, which makes one")


def version_at(epoch: int, versions: int) -> int:
    """Return the number of the version of the scores that an epoch learns from: they take turns.

    Example:
        >>> [version_at(epoch, versions=3) for epoch in range(5)]
        [0, 1, 2, 0, 1]
    """
    return epoch % versions


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
    """Write the entries of a stage's epochs as JSON lines, after the lines of other stages in the file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    others = [line for line in lines if json.loads(line)["stage"] != stage]
    own = [json.dumps({"stage": stage, **entry}) for entry in entries]
    write_whole(file, "".join(f"{line}\n" for line in [*others, *own]))
