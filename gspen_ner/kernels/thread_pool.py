"""A thread pool that shares the rows of a batch, if the batch is large enough for a speedup.

The pool has as many threads as torch uses. It is created on first use, and again in a forked process, since
threads do not survive a fork. It does not change the thread settings of any library.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

# Number of multiply-adds (B * T * L * L) from which a second thread is faster. torch's own threads keep
# their cores busy for some milliseconds after a parallel operation; smaller work is finished before that.
MIN_WORK = 12_000_000

_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def over_rows(task: Callable[[int, int], None], rows: int, work: int) -> None:
    """Call `task(start, stop)` for parts of the rows, in several threads if `work` is large.

    Args:
        task: processes the rows from start to stop - 1.
        rows: number of rows.
        work: approximate number of multiply-adds for all rows.
    """
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


def _reset() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
