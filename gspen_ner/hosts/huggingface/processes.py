"""This process among those that `torchrun` or `accelerate launch` started together; usually it is alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch import nn

Item = TypeVar("Item")
Model = TypeVar("Model", bound=nn.Module)
PATIENCE = timedelta(hours=12)  # with the main process, which may have to score a whole corpus first


def world_size() -> int:
    """Return the number of processes; reads the environment, so that it costs nothing."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def state() -> PartialState:
    """Return the state of this process. The first call connects the processes."""
    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)


def to_device(model: Model) -> Model:
    """Return a model, moved to the device of this process."""
    if torch.cuda.is_available():
        nn.Module.to(model, torch.device("cuda") if world_size() == 1 else state().device)
    return model


def is_main() -> bool:
    """Return whether this process writes files and logs."""
    return world_size() == 1 or state().is_main_process


@contextmanager
def main_first() -> Iterator[bool]:
    """Run the main process first, so that the others read its files; yield True there, else False."""
    if world_size() == 1:
        yield True
        return
    with state().main_process_first():
        yield state().is_main_process


def own_rows(groups: Sequence[int]) -> list[int]:
    """Return the rows assigned to this process; rows of one group are assigned to one process."""
    if world_size() == 1:
        return list(range(len(groups)))
    number_of = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    own = state().process_index
    return [row for row, group in enumerate(groups) if number_of[group] % world_size() == own]


def gathered(items: list[Item]) -> list[Item]:
    """Return the items of all processes, in the order of the processes."""
    return items if world_size() == 1 else gather_object(items)
