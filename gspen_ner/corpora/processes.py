"""Workers on this machine: in this process, or in several, each with a model of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path

from gspen_ner.corpora.worker import Outcome, PartTagger

AHEAD = 3  # parts that wait for each worker, so that it never waits for the slowest one

_worker: PartTagger | None = None


def in_this_process(folder: Path, parts: Sequence[int], threads: int | None) -> Iterator[Outcome]:
    """Tag parts one after the other."""
    worker = PartTagger(folder, threads)
    return map(worker, parts)


def in_processes(folder: Path, parts: Sequence[int], workers: int, threads: int) -> Iterator[Outcome]:
    """Tag parts in several processes; outcomes come in the order of the parts.

    Processes are spawned: torch's threads, numba's and those of tokenizers do not survive a fork.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _prepare)
    waiting: deque[Future[Outcome]] = deque()
    try:
        for part in parts:
            if len(waiting) == AHEAD * workers:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_tag, folder, threads, part))
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ValueError("a worker died (was there too little memory?)") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _tag(folder: Path, threads: int, part: int) -> Outcome:
    global _worker
    if _worker is None:  # not in _prepare, whose errors would only break the pool
        _worker = PartTagger(folder, threads)
    return _worker(part)


def _prepare() -> None:
    """A process leaves interrupts to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Without this, the workers of a killed run would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
