"""Work spread over a Ray cluster: Ray Data with actors that keep their state.

Only numbers and small results are sent; actors read and write files themselves, which all machines must see
under the same names. RAY_ADDRESS names the cluster; by default, one is started on this machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import ray
import ray.data
import ray.exceptions

MOST_BLOCKS = 2000  # tasks of a run; beyond that a task has several items


class _Actor:
    """Makes its worker once, and calls it for every item."""

    def __init__(self, make: Callable[..., Callable[[int], tuple]], arguments: Mapping[str, Any]) -> None:
        self.work = make(**arguments)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list]:
        return {"result": [list(self.work(int(item))) for item in batch["item"]]}


def over_actors(
    make: Callable[..., Callable[[int], tuple]],
    arguments: Mapping[str, Any],
    items: Sequence[int],
    workers: int,
    cpus: int = 1,
    gpus: float = 0,
) -> Iterator[list]:
    """Yield the results of workers, in any order.

    Args:
        make: makes a worker, a function of an item; importable on every machine.
        arguments: arguments of `make`.
        items: numbers of the items to work on.
        workers: number of actors.
        cpus: number of CPUs of each actor; default 1.
        gpus: number of GPUs of each actor; default 0.
    """
    started = not ray.is_initialized()
    if started:
        _start(workers * cpus, workers * gpus)
    try:
        data = ray.data.from_items(
            [{"item": item} for item in items], override_num_blocks=min(len(items), MOST_BLOCKS)
        )
        done = data.map_batches(
            _Actor,
            fn_constructor_args=(make, arguments),
            batch_size=1,
            num_cpus=cpus,
            num_gpus=gpus,
            compute=ray.data.ActorPoolStrategy(size=workers),
        )
        for row in done.iter_rows():
            yield list(row["result"])
    except ray.exceptions.RayError as error:  # its text ends with the text of the worker's error
        raise ValueError(f"Ray: {str(error).strip().splitlines()[-1]}") from None
    finally:
        if started:
            ray.shutdown()


def _start(cpus: int, gpus: float) -> None:
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # errors come as exceptions besides
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:  # one CPU more than the actors take: the tasks that feed them would wait for ever
        ray.init(num_cpus=cpus + 1, num_gpus=round(gpus) or None, include_dashboard=False, **quiet)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
