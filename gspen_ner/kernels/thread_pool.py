"""A thread pool that shares the rows of a batch, if the batch is large enough for a speedup.

The pool has as many threads as torch uses. It is created on first use, and again in a forked process, since
threads do not survive a fork. It does not change the thread settings of any library.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch

# Number of multiply-adds (B * T * L * L) from which a second thread is faster. torch's own threads keep
# their cores busy for some milliseconds after a parallel operation; smaller work is finished before that.
MIN_WORK = 12_000_000


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


@cache  # threads that call it first at the same time may each get a pool; all but one end with their work
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="gspen-ner")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)
