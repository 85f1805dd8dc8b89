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
    """How many processes there are; asks the environment, so that it costs nothing."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def state() -> PartialState:
    """Who this process is. The first call makes the processes find each other."""
    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)


def placed(model: Model) -> Model:
    """A model, moved to where this process computes."""
    if torch.cuda.is_available():
        nn.Module.to(model, torch.device("cuda") if world_size() == 1 else state().device)
    return model


def is_main() -> bool:
    """Whether this process writes files and talks."""
    return world_size() == 1 or state().is_main_process


@contextmanager
def main_first() -> Iterator[bool]:
    """Inside, the main process goes first, and the others find what it wrote; says whether this is it."""
    if world_size() == 1:
        yield True
        return
    with state().main_process_first():
        yield state().is_main_process


def own_rows(groups: Sequence[int]) -> list[int]:
    """The rows that this process has to do with; those of one group are all one process's."""
    if world_size() == 1:
        return list(range(len(groups)))
    number_of = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    mine = state().process_index
    return [row for row, group in enumerate(groups) if number_of[group] % world_size() == mine]


def gathered(items: list[Item]) -> list[Item]:
    """The items of all processes, those of the first one first."""
    return items if world_size() == 1 else gather_object(items)
