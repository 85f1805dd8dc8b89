"""Chain inference against other CRF libraries, and how its time grows with length and batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from recipes.bench.chain_peers import ChainProblem, FlairCRF, PytorchCRF, TorchLoop, TorchStruct
from recipes.bench.timing import Row, compare

PEERS = (TorchStruct(), TorchLoop(), PytorchCRF(), FlairCRF())
MAIN = ChainProblem(32, 50, 19)
SHAPES = ((32, 25, 17), (32, 50, 19), (32, 120, 19), (8, 512, 9), (4, 4096, 9))
CASES = tuple(ChainProblem(*shape) for shape in SHAPES)
TWICE_AS_LONG, TWICE_AS_MANY = ChainProblem(32, 100, 19), ChainProblem(64, 50, 19)
HALF_LENGTH, HALF_BATCH = "ours at half the length", "ours at half the batch"
TARGETS = {
    (str(MAIN), "marginals", "torch-struct"): 100.0,
    (str(MAIN), "marginals", "torch loop"): 5.0,
    (str(MAIN), "likelihood", "pytorch-crf"): 15.0,
    (str(MAIN), "likelihood", "Flair"): 20.0,
    (str(MAIN), "viterbi", "pytorch-crf"): 10.0,
    (str(MAIN), "viterbi", "Flair"): 15.0,
    (str(TWICE_AS_LONG), "marginals", HALF_LENGTH): 0.45,  # linear growth is 0.5, with a margin for noise
    (str(TWICE_AS_MANY), "marginals", HALF_BATCH): 0.45,
}


def run_growth(seconds: float) -> Iterator[Row]:
    """Time ours with a table for each position, at twice the length and at twice the batch."""
    emissions, transitions = MAIN.scores()
    tables = transitions + 0.1 * torch.randn(MAIN.batch, MAIN.length - 1, *transitions.shape)
    main = _sums(MAIN, emissions, transitions)
    for case, ours, peer, theirs in (
        (MAIN, main, "ours, table per position", _sums(MAIN, emissions, tables)),
        (TWICE_AS_LONG, _sums(TWICE_AS_LONG, *TWICE_AS_LONG.scores()), HALF_LENGTH, main),
        (TWICE_AS_MANY, _sums(TWICE_AS_MANY, *TWICE_AS_MANY.scores()), HALF_BATCH, main),
    ):
        our_time, their_time = compare(ours, theirs, seconds)
        yield Row(str(case), "marginals", our_time, peer, their_time)


def _sums(problem: ChainProblem, emissions: Tensor, transitions: Tensor) -> Callable[[], object]:
    chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
    return lambda: chain.sums(theta)
