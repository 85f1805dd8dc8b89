"""Engines run the workers that tag a corpus: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal

from gspen_ner.corpora.worker import Outcome, PartTagger

AHEAD = 3
"""Parts queued for each worker, so that no worker is idle while the slowest one finishes."""
Engine = Callable[[Path, Sequence[int]], Iterator[Outcome]]
"""Tags the parts with these numbers of the corpus whose manifest is in a folder."""

_tagger: PartTagger | None = None  # of a worker process


def make_engine(
    name: Literal["local", "ray"], workers: int = 1, threads: int | None = None, gpus: float = 0
) -> Engine:
    """Return an engine.

    Args:
        name: `"local"` or `"ray"`.
        workers: number of workers, each of which loads the model; default 1.
        threads: CPU threads of each worker; None, the default, means 1 or, for a single local worker, torch's
            own default.
        gpus: GPUs of each Ray worker; default 0. Local workers use the GPU if there is one.
    """
    if name == "ray":
        return partial(_on_ray, workers=workers, threads=threads or 1, gpus=gpus)
    if gpus:
        raise ValueError("gpus needs the engine ray; local workers use the GPU if there is one")
    if workers == 1:
        return partial(_in_this_process, threads=threads)
    return partial(_in_processes, workers=workers, threads=threads or 1)


def _on_ray(folder: Path, parts: Sequence[int], workers: int, threads: int, gpus: float) -> Iterator[Outcome]:
    from gspen_ner.hosts.ray import over_actors

    arguments = {"folder": str(folder), "threads": threads}
    for result in over_actors(PartTagger, arguments, parts, workers, threads, gpus):
        yield Outcome(*result)


def _in_this_process(folder: Path, parts: Sequence[int], threads: int | None) -> Iterator[Outcome]:
    return map(PartTagger(folder, threads), parts)


def _in_processes(folder: Path, parts: Sequence[int], workers: int, threads: int) -> Iterator[Outcome]:
    """Tag parts in several processes and yield their outcomes in the order of the parts.

    Processes are spawned: the threads of torch, numba and tokenizers do not survive a fork.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _prepare_process)
    waiting: deque[Future[Outcome]] = deque()
    try:
        for part in parts:
            if len(waiting) == AHEAD * workers:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_tag_part, folder, threads, part))
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ValueError("a worker process died, perhaps for lack of memory: try fewer --workers") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _tag_part(folder: Path, threads: int, part: int) -> Outcome:
    global _tagger
    if _tagger is None:  # not in _prepare_process, whose exceptions would only break the pool
        _tagger = PartTagger(folder, threads)
    return _tagger(part)


def _prepare_process() -> None:
    """Make a worker process ignore Ctrl-C, which its parent handles, and end when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process with its parent: workers of a killed run would otherwise wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
