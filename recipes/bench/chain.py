"""Chain inference beside other CRF libraries, and how its time grows with length and batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from recipes.bench.contests import Peer, Problem
from recipes.bench.peers import PEERS
from recipes.bench.timing import Row, compare

MAIN = Problem(32, 50, 19)
CASES = (Problem(32, 25, 17), MAIN, Problem(32, 120, 19), Problem(8, 512, 9), Problem(4, 4096, 9))
TWICE_AS_LONG, TWICE_AS_MANY = Problem(32, 100, 19), Problem(64, 50, 19)
HALF_LENGTH, HALF_BATCH = "ours at half the length", "ours at half the batch"
BARS = {
    (str(MAIN), "marginals", "torch-struct"): 100.0,
    (str(MAIN), "marginals", "torch loop"): 5.0,
    (str(MAIN), "likelihood", "pytorch-crf"): 15.0,
    (str(MAIN), "likelihood", "Flair"): 20.0,
    (str(MAIN), "viterbi", "pytorch-crf"): 10.0,
    (str(MAIN), "viterbi", "Flair"): 15.0,
    (str(TWICE_AS_LONG), "marginals", HALF_LENGTH): 0.45,  # 0.5 is linear growth; the rest is for noise
    (str(TWICE_AS_MANY), "marginals", HALF_BATCH): 0.45,
}


def missing_peers() -> list[str]:
    """What cannot be compared here, and why."""
    return [reason for peer in PEERS if (reason := peer.missing()) is not None]


def contests(cases: tuple[Problem, ...]) -> list[tuple[Problem, Peer]]:
    """What there is to run."""
    return [(problem, peer) for problem in cases for peer in PEERS if peer.missing() is None]


def run_contest(problem: Problem, peer: Peer, seconds: float) -> Iterator[Row]:
    """All that one peer can do on one problem; each is first checked, in float64, to agree with ours."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch_struct|torchcrf")  # deprecations, not ours to mend
        for contest in peer.contests(replace(problem, dtype=torch.float64)).values():
            contest.check()
        for what, contest in peer.contests(problem).items():
            yield Row(str(problem), what, *_pair(compare(contest.ours, contest.peer, seconds), peer.name))


def run_scaling(seconds: float) -> Iterator[Row]:
    """Ours at twice the length and at twice the batch: a ratio of 0.5 is linear growth."""
    for double, peer in ((TWICE_AS_LONG, HALF_LENGTH), (TWICE_AS_MANY, HALF_BATCH)):
        times = compare(_sums(double), _sums(MAIN), seconds)
        yield Row(str(double), "marginals", *_pair(times, peer))


def _sums(problem: Problem) -> Callable[[], object]:
    chain, theta = Chain(problem.lengths), Parts(*problem.scores())
    return lambda: chain.sums(theta)


def run_per_position(seconds: float) -> Iterator[Row]:
    """A table per position, as input-dependent transition scores have it, beside one shared table."""
    emissions, transitions = MAIN.scores()
    chain, shared = Chain(MAIN.lengths), Parts(emissions, transitions)
    each = Parts(emissions, transitions + 0.1 * torch.randn(MAIN.batch, MAIN.length - 1, *transitions.shape))
    times = compare(lambda: chain.sums(shared), lambda: chain.sums(each), seconds)
    yield Row(str(MAIN), "marginals", *_pair(times, "ours, table per position"))


def _pair(times: tuple[float, float], peer: str) -> tuple[float, str, float]:
    return times[0], peer, times[1]
