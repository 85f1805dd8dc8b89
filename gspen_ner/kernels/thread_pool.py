"""Rows of a batch split over a few threads, where the batch is large enough to gain from it.

The pool has as many threads as torch uses, is made on first need, and is made anew in a forked child
(threads do not survive a fork). It neither reads nor changes any library's thread settings otherwise.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

# Multiply-adds (B * T * L * L) from which a second thread pays. Less than that is done before torch's
# own threads, which spin for some milliseconds after a parallel operation, give the other core free.
MIN_WORK = 12_000_000

_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def over_rows(task: Callable[[int, int], None], rows: int, work: int) -> None:
    """Call `task(start, stop)` so that every row is covered once."""
    threads = min(torch.get_num_threads(), rows)
    if threads < 2 or work < MIN_WORK:
        task(0, rows)
        return
    first, *others = pairwise(rows * k // threads for k in range(threads + 1))
    pending = [_executor().submit(task, *part) for part in others]
    task(*first)
    for future in pending:
        future.result()


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="gspen-ner")
        return _pool


def _forget() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
