"""Where the workers are: in this process, in several of this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from gspen_ner.corpora.processes import in_processes, in_this_process
from gspen_ner.corpora.worker import Outcome, PartTagger

Engine = Callable[[Path, Sequence[int]], Iterator[Outcome]]
"""Tags the parts with these numbers of the corpus whose manifest lies in a folder."""


def make_engine(
    name: Literal["local", "ray"], workers: int = 1, threads: int | None = None, gpus: float = 0
) -> Engine:
    """An engine by name.

    Args:
        name: `"local"` or `"ray"`.
        workers: how many, each with a model of its own.
        threads: of each worker; None: 1, or as torch has it where the only worker is this process.
        gpus: of each worker; a local one takes the GPU if there is one.
    """
    if name == "ray":
        return partial(_with_ray, workers=workers, threads=threads or 1, gpus=gpus)
    if gpus:
        raise ValueError("GPUs are given out by the engine ray; a local worker takes the GPU if there is one")
    if workers == 1:
        return partial(in_this_process, threads=threads)
    return partial(in_processes, workers=workers, threads=threads or 1)


def _with_ray(
    folder: Path, parts: Sequence[int], workers: int, threads: int, gpus: float
) -> Iterator[Outcome]:
    from gspen_ner.hosts.ray import over_actors

    told = {"folder": str(folder), "threads": threads}
    for result in over_actors(PartTagger, told, parts, workers, threads, gpus):
        yield Outcome(*result)
