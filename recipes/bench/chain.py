"""Chain inference against other CRF libraries, and how its time grows with length and batch.

Both sides are timed in float32 and compared in float64. The layout of scores that a peer needs is prepared
in advance and not timed.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from gspen_ner.scorers.crf import LinearChainCRF
from recipes.bench.timing import Contest, Peer, Row, clock, compare


@dataclass(frozen=True)
class ChainProblem:
    """A batch of chains of equal length with random scores and labels."""

    batch: int
    length: int
    labels: int
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        return f"({self.batch}, {self.length}, {self.labels})"

    def scores(self) -> tuple[Tensor, Tensor]:
        """Return emissions `[B, T, L]` and transitions `[L, L]`."""
        random = torch.Generator().manual_seed(0)
        emissions = 2 * torch.randn(self.batch, self.length, self.labels, generator=random)
        transitions = torch.randn(self.labels, self.labels, generator=random)
        return emissions.to(self.dtype), transitions.to(self.dtype)

    def tags(self, labels: int) -> Tensor:
        """Return random labels below `labels`."""
        random = torch.Generator().manual_seed(1)
        return torch.randint(0, labels, (self.batch, self.length), generator=random)

    @property
    def lengths(self) -> Tensor:
        """Equal lengths: the most work for ours, and no difference to the peers."""
        return torch.full((self.batch,), self.length)


class Operation(NamedTuple):
    """Two functions with the same result; `view` converts the peer's into ours and is not timed."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    view: Callable[[Any], Any] = lambda result: result


class ChainPeer(Peer[ChainProblem]):
    """A CRF library."""

    def contests(self, problem: ChainProblem) -> Generator[Contest]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch_struct|torchcrf")  # deprecations in the peers
            in_double = self.operations(replace(problem, dtype=torch.float64))
            for what, operation in self.operations(problem).items():
                ours, theirs, view = in_double[what]
                yield Contest(
                    what,
                    self.name,
                    clock(operation.ours),
                    clock(operation.theirs),
                    lambda ours=ours, theirs=theirs, view=view: (ours(), view(theirs())),  # type: ignore[misc]
                )

    @abstractmethod
    def operations(self, problem: ChainProblem) -> dict[str, Operation]:
        """Return what the peer can do: marginals, likelihood with gradients, viterbi."""


def with_gradients(loss: Callable[[], Tensor], leaves: Sequence[Tensor]) -> Callable[[], tuple]:
    """Return a function that returns a loss and its gradients."""

    def run() -> tuple:
        for leaf in leaves:
            leaf.grad = None
        value = loss()
        value.backward()
        return value, *(leaf.grad for leaf in leaves)

    return run


class TorchStruct(ChainPeer):
    """Marginals by differentiating a parallel scan over one table for each position."""

    name = "torch-struct"
    package, wanted_version = "torch-struct", "0.5"

    def operations(self, problem: ChainProblem) -> dict[str, Operation]:
        import torch_struct

        emissions, transitions = problem.scores()
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        scores = transitions.mT[None, None] + emissions[:, 1:, :, None]  # [to, from]
        scores[:, 0] += emissions[:, 0, None, :]

        def marginals() -> Tensor:
            return torch_struct.LinearChainCRF(scores, problem.lengths).marginals

        def view(pairs: Tensor) -> tuple[Tensor, ...]:
            nodes = torch.cat([pairs[:, :1].sum(2), pairs.sum(3)], 1)
            log_z = torch_struct.LinearChainCRF(scores, problem.lengths).partition
            return log_z, nodes, pairs.sum(1, keepdim=True).mT

        return {"marginals": Operation(lambda: chain.sums(theta), marginals, view)}


class TorchLoop(ChainPeer):
    """The recursion as usually written: a Python loop over positions, in log space."""

    name = "torch loop"

    def operations(self, problem: ChainProblem) -> dict[str, Operation]:
        emissions, transitions = problem.scores()
        tags = problem.tags(problem.labels)
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        leaf, table = emissions.clone().requires_grad_(), transitions.clone().requires_grad_()

        def forward(scores: Tensor, table: Tensor) -> list[Tensor]:
            alphas = [scores[:, 0]]
            for t in range(1, problem.length):
                alphas.append(torch.logsumexp(alphas[-1][:, :, None] + table, 1) + scores[:, t])
            return alphas

        def marginals() -> tuple[Tensor, Tensor, Tensor]:
            alphas, beta = forward(emissions, transitions), torch.zeros_like(emissions[:, 0])
            betas = [beta]
            for t in range(problem.length - 1, 0, -1):
                beta = torch.logsumexp(transitions + (emissions[:, t] + beta)[:, None, :], 2)
                betas.append(beta)
            log_z = torch.logsumexp(alphas[-1], 1)
            alpha, beta = torch.stack(alphas, 1), torch.stack(betas[::-1], 1)
            ahead = (emissions + beta)[:, 1:, None, :] + transitions - log_z[:, None, None, None]
            counts = (alpha[:, :-1, :, None] + ahead).exp().sum(1, keepdim=True)
            return log_z, (alpha + beta - log_z[:, None, None]).exp(), counts

        def loss() -> Tensor:
            log_z = torch.logsumexp(forward(leaf, table)[-1], 1)
            gold = leaf.gather(2, tags[..., None]).sum() + table[tags[:, :-1], tags[:, 1:]].sum()
            return log_z.sum() - gold

        def our_loss() -> Tensor:
            return -chain.log_likelihood(Parts(leaf, table), tags).sum()

        def viterbi() -> list[list[int]]:
            best, origins = emissions[:, 0], []
            for t in range(1, problem.length):
                top, origin = (best[:, :, None] + transitions).max(1)
                best = top + emissions[:, t]
                origins.append(origin)
            path = [best.argmax(1, keepdim=True)]
            for origin in reversed(origins):
                path.append(origin.gather(1, path[-1]))
            return torch.cat(path[::-1], 1).tolist()

        leaves = (leaf, table)
        return {
            "marginals": Operation(lambda: chain.sums(theta), marginals),
            "likelihood": Operation(with_gradients(our_loss, leaves), with_gradients(loss, leaves)),
            "viterbi": Operation(lambda: chain.argmax(theta).tolist(), viterbi),
        }


class PytorchCRF(ChainPeer):
    """pytorch-crf, for which `LinearChainCRF` is a drop-in replacement."""

    name = "pytorch-crf"
    package, wanted_version = "pytorch-crf", "0.7.2"

    def operations(self, problem: ChainProblem) -> dict[str, Operation]:
        import torchcrf

        emissions, transitions = problem.scores()
        tags, leaf = problem.tags(problem.labels), emissions.clone().requires_grad_()
        theirs = torchcrf.CRF(problem.labels, batch_first=True).to(problem.dtype)
        with torch.no_grad():
            theirs.transitions.copy_(transitions)
        ours = LinearChainCRF(problem.labels, batch_first=True).to(problem.dtype)
        ours.load_state_dict(theirs.state_dict())

        def training(crf: torch.nn.Module) -> Callable[[], tuple]:
            parameters = [parameter for _, parameter in sorted(crf.named_parameters())]
            return with_gradients(lambda: -crf(leaf, tags), [leaf, *parameters])

        return {
            "likelihood": Operation(training(ours), training(theirs)),
            "viterbi": Operation(lambda: ours.decode(emissions), lambda: theirs.decode(emissions)),
        }


class FlairCRF(ChainPeer):
    """Flair's CRF, whose last two labels START and STOP are forbidden by scores of -10,000."""

    name = "Flair"
    package, wanted_version = "flair", "0.15.1"

    def operations(self, problem: ChainProblem) -> dict[str, Operation]:
        from flair.data import Dictionary
        from flair.models.sequence_tagger_utils.crf import CRF
        from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder, ViterbiLoss

        emissions, transitions = problem.scores()
        start, stop = problem.labels - 2, problem.labels - 1
        items = [*map(str, range(start)), "<START>", "<STOP>"]
        dictionary = Dictionary(add_unk=False)
        for name in items:
            dictionary.add_item(name)
        crf = CRF(dictionary, problem.labels, init_from_state_dict=True).to(problem.dtype)
        with torch.no_grad():
            crf.transitions.copy_(transitions)
            crf.transitions[start, :] = -10_000.0
            crf.transitions[:, stop] = -10_000.0
        tags, chain = problem.tags(start), Chain(problem.lengths)
        viterbi_loss, decoder, flat = ViterbiLoss(dictionary), ViterbiDecoder(dictionary), tags.flatten()
        leaf = emissions.clone().requires_grad_()

        def theta(nodes: Tensor) -> Parts:
            table = crf.transitions
            return chain.potentials(nodes, table.mT, start=table[:, start], end=table[stop])

        def loss() -> Tensor:
            return viterbi_loss((crf(leaf), problem.lengths, crf.transitions), flat)

        def our_loss() -> Tensor:
            return -chain.log_likelihood(theta(leaf), tags).sum()

        @torch.no_grad()
        def decode() -> list[list[str]]:
            rows, _ = decoder.decode((crf(emissions), problem.lengths, crf.transitions), False, [])
            return [[name for name, _ in row] for row in rows]

        @torch.no_grad()
        def our_decode() -> list[list[str]]:
            return [[items[k] for k in row] for row in chain.argmax(theta(emissions)).tolist()]

        leaves = (leaf, crf.transitions)
        return {
            "likelihood": Operation(with_gradients(our_loss, leaves), with_gradients(loss, leaves)),
            "viterbi": Operation(our_decode, decode),
        }


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
