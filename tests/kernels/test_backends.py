"""Backends are chosen by device, by hand, and can be added; the fast one behaves in every surrounding."""

import os
import subprocess
import sys
import threading

import numba
import pytest
import torch

from gspen_ner import Chain, Parts
from gspen_ner.kernels import (
    available_backends,
    register_backend,
    thread_pool,
    unregister_backend,
    use_backend,
)
from gspen_ner.kernels.backends import choose_backend
from gspen_ner.kernels.loops.compiled import compiled
from gspen_ner.kernels.reference import ReferenceBackend

LENGTHS = torch.tensor([7, 5, 3] * 6)


def a_batch():
    random = torch.Generator().manual_seed(5)
    return Parts(torch.randn(18, 7, 4, generator=random), torch.randn(4, 4, generator=random))


def results():
    chain, theta = Chain(LENGTHS), a_batch()
    marginals = chain.marginals(theta)
    generator = torch.Generator().manual_seed(0)
    return (
        chain.log_partition(theta),
        marginals.nodes,
        marginals.edges,
        *chain.viterbi(theta),
        *chain.k_best(theta, 4),
        chain.sample(theta, 5, generator),
    )


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_backends_are_interchangeable():
    assert available_backends() == ["numba", "reference"]
    with use_backend("numba"):
        fast = results()
    with use_backend("reference"):
        assert_same(results(), fast)
    assert_same(results(), fast)


class CountingBackend(ReferenceBackend):
    name = "counting"
    calls = 0

    def viterbi(self, nodes, edges, lengths):
        self.calls += 1
        return super().viterbi(nodes, edges, lengths)


def test_a_third_backend_needs_no_change_in_callers():
    backend = CountingBackend()
    register_backend(backend)
    try:
        Chain(LENGTHS).argmax(a_batch())
        assert backend.calls == 0
        with use_backend("counting"):
            Chain(LENGTHS).argmax(a_batch())
        assert backend.calls == 1
        register_backend(backend, first=True)
        Chain(LENGTHS).argmax(a_batch())
        assert backend.calls == 2
    finally:
        unregister_backend("counting")
    assert available_backends() == ["numba", "reference"]


def test_unknown_and_unfit_backends():
    with pytest.raises(ValueError, match="unknown backend 'cuda'; available"), use_backend("cuda"):
        pass
    with use_backend("numba"), pytest.raises(ValueError, match="'numba' does not support the device meta"):
        choose_backend(torch.device("meta"))


def test_inference_mode():
    expected = results()
    with torch.inference_mode():
        assert_same(results(), expected)


def test_two_python_threads():
    expected, actual = results(), {}

    def work(number):
        for _ in range(20):
            actual[number] = results()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_same(actual[0], expected)
    assert_same(actual[1], expected)


def test_rows_split_over_threads(monkeypatch):
    expected, before = results(), torch.get_num_threads()
    monkeypatch.setattr(thread_pool, "MIN_WORK", 0)
    assert_same(results(), expected)
    assert torch.get_num_threads() == before


def test_every_row_is_covered_once(monkeypatch):
    monkeypatch.setattr(thread_pool, "MIN_WORK", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for rows in (1, 2, 3, 10):
        seen = []
        thread_pool.over_rows(lambda start, stop, seen=seen: seen.extend(range(start, stop)), rows, 1)
        assert sorted(seen) == list(range(rows))


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(thread_pool, "MIN_WORK", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def task(start, stop):
        if start:
            raise RuntimeError("from the pool")

    with pytest.raises(RuntimeError, match="from the pool"):
        thread_pool.over_rows(task, 4, 1)


class Decoder(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        thread_pool.MIN_WORK = 0  # in the worker: use its own pool, which needs more than one thread
        torch.set_num_threads(2)
        return Chain(LENGTHS).log_partition(a_batch())


def test_forked_data_loader_workers(monkeypatch):
    monkeypatch.setattr(thread_pool, "MIN_WORK", 0)
    expected = Chain(LENGTHS).log_partition(a_batch())  # the parent's pool exists before the fork
    loader = torch.utils.data.DataLoader(Decoder(), num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        torch.testing.assert_close(batch[0], expected)


SCRIPT = """
import torch
threads = torch.get_num_threads()
from gspen_ner import Chain, Parts
for batch in (2, 20):
    chain = Chain(torch.full((batch,), 3))
    theta = Parts(torch.zeros(batch, 3, 2), torch.zeros(2, 2))
    print(round(chain.log_partition(theta)[0].item(), 4), chain.argmax(theta)[0].tolist())
assert torch.get_num_threads() == threads
from gspen_ner.kernels.loops import interleaved
print(type(interleaved.viterbi._cache).__name__)
"""


def test_in_a_fresh_process():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "2.0794 [0, 0, 0]\n2.0794 [0, 0, 0]\nFunctionCache\n"


def test_loops_are_compiled_where_nothing_can_be_cached(monkeypatch):
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    loop = compiled(lambda number: number + 1)
    assert loop(2) == 3
    assert type(loop._cache).__name__ == "NullCache"


MEASURE = """
import resource, torch
from gspen_ner import Chain, Parts
from gspen_ner.kernels import use_backend
for backend in ("numba", "reference"):
    with use_backend(backend):
        for batch in (2, 64):
            Chain(torch.full((batch,), 4)).marginals(Parts(torch.zeros(batch, 4, 64), torch.zeros(64, 64)))
        theta, chain = Parts(torch.zeros(64, 512, 64), torch.zeros(64, 64)), Chain(torch.full((64,), 512))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        chain.marginals(theta)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_shared_table_is_never_spelt_out():
    """64 x 512 positions and 64 labels: a table per position takes 537 MB, nodes in double 17 MB."""
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert max(map(int, run.stdout.split())) < 250_000, "kilobytes"
