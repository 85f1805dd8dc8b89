"""Other people's linear-chain CRFs behind one interface, each beside ours on the very same problem.

A peer says what it can do (`contests`): for each of marginals, likelihood and viterbi, a function of its
own and ours, and how to compare what they return. What a peer needs to be given (its own layout of scores)
is prepared beforehand and not timed. Contests are timed in float32, and compared in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import torch
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from gspen_ner.scorers.crf import LinearChainCRF

What = Literal["marginals", "likelihood", "viterbi"]


@dataclass(frozen=True)
class Problem:
    """A batch of chains of equal length: random scores and labels."""

    batch: int
    length: int
    labels: int
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        return f"({self.batch}, {self.length}, {self.labels})"

    def scores(self) -> tuple[Tensor, Tensor]:
        """Emissions `[B, T, L]` and transitions `[L, L]`."""
        random = torch.Generator().manual_seed(0)
        emissions = 2 * torch.randn(self.batch, self.length, self.labels, generator=random)
        transitions = torch.randn(self.labels, self.labels, generator=random)
        return emissions.to(self.dtype), transitions.to(self.dtype)

    def tags(self, labels: int) -> Tensor:
        """Random labels below `labels`."""
        random = torch.Generator().manual_seed(1)
        return torch.randint(0, labels, (self.batch, self.length), generator=random)

    @property
    def lengths(self) -> Tensor:
        """All equal: the most work for us, and no difference to the peers."""
        return torch.full((self.batch,), self.length)


@dataclass(frozen=True)
class Contest:
    """Two functions that do the same; the views turn what they return into comparable tensors."""

    ours: Callable[[], Any]
    peer: Callable[[], Any]
    view_ours: Callable[[Any], Sequence[Tensor]]
    view_peer: Callable[[Any], Sequence[Tensor]]

    def check(self) -> None:
        """Raise AssertionError unless both sides agree; meant for double precision."""
        pairs = zip(self.view_ours(self.ours()), self.view_peer(self.peer()), strict=True)
        for number, (ours, peers) in enumerate(pairs):
            difference = (ours.detach().double() - peers.detach().double()).abs().max().item()
            if not difference <= 1e-6 * max(1.0, float(peers.detach().abs().max())):
                raise AssertionError(f"result {number} differs by {difference}: nothing is measured")


def _as_they_are(results: Sequence[Tensor]) -> Sequence[Tensor]:
    return results


def _as_tensor(labels: list[list[int]]) -> Sequence[Tensor]:
    return (torch.tensor(labels),)


class Peer(ABC):
    """A CRF library."""

    name: str
    package: str | None = None
    wanted_version: str | None = None

    def missing(self) -> str | None:
        """What to say if the peer is not installed in the version that is compared, else None."""
        if self.package is None:
            return None
        try:
            found = version(self.package)
        except PackageNotFoundError:
            return f"{self.package} {self.wanted_version} is not installed (pip install 'gspen-ner[bench]')"
        if found != self.wanted_version:
            return f"{self.package} {self.wanted_version} is compared, but {found} is installed"
        return None

    @abstractmethod
    def contests(self, problem: Problem) -> dict[What, Contest]:
        """What the peer can do on a problem."""


class TorchLoop(Peer):
    """The recursion as it is usually written: a python loop over positions, log space, float32."""

    name = "torch loop"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        emissions, transitions = problem.scores()
        tags = problem.tags(problem.labels)
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        leaf = emissions.clone().requires_grad_()
        table = transitions.clone().requires_grad_()

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

        def likelihood() -> tuple[Tensor, ...]:
            leaf.grad = table.grad = None
            log_z = torch.logsumexp(forward(leaf, table)[-1], 1)
            gold = leaf.gather(2, tags[..., None]).sum() + table[tags[:, :-1], tags[:, 1:]].sum()
            loss = log_z.sum() - gold
            loss.backward()
            return loss, _grad(leaf), _grad(table)

        def our_likelihood() -> tuple[Tensor, ...]:
            leaf.grad = table.grad = None
            loss = -chain.log_likelihood(Parts(leaf, table), tags).sum()
            loss.backward()
            return loss, _grad(leaf), _grad(table)

        def viterbi() -> list[list[int]]:
            best, origins = emissions[:, 0], []
            for t in range(1, problem.length):
                top, origin = (best[:, :, None] + transitions).max(1)
                best = top + emissions[:, t]
                origins.append(origin)
            tag = best.argmax(1, keepdim=True)
            path = [tag]
            for origin in reversed(origins):
                tag = origin.gather(1, tag)
                path.append(tag)
            return torch.cat(path[::-1], 1).tolist()

        def our_viterbi() -> list[list[int]]:
            return chain.argmax(theta).tolist()

        return {
            "marginals": Contest(lambda: chain.sums(theta), marginals, _sums, _as_they_are),
            "likelihood": Contest(our_likelihood, likelihood, _as_they_are, _as_they_are),
            "viterbi": Contest(our_viterbi, viterbi, _as_tensor, _as_tensor),
        }


def _sums(found: tuple[Tensor, Parts]) -> Sequence[Tensor]:
    log_z, marginals = found
    assert marginals.edges is not None
    return log_z, marginals.nodes, marginals.edges


class TorchStruct(Peer):
    """Marginals by differentiating a parallel scan; it has a table per position by design."""

    name = "torch-struct"
    package, wanted_version = "torch-struct", "0.5"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        import torch_struct

        emissions, transitions = problem.scores()
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        scores = transitions.mT[None, None] + emissions[:, 1:, :, None]  # [to, from]
        scores[:, 0] += emissions[:, 0, None, :]

        def marginals() -> Tensor:
            return torch_struct.LinearChainCRF(scores, problem.lengths).marginals

        def nodes_and_counts(pairs: Tensor) -> Sequence[Tensor]:
            nodes = torch.cat([pairs[:, :1].sum(2), pairs.sum(3)], 1)
            log_z = torch_struct.LinearChainCRF(scores, problem.lengths).partition
            return log_z, nodes, pairs.sum(1, keepdim=True).mT

        return {"marginals": Contest(lambda: chain.sums(theta), marginals, _sums, nodes_and_counts)}


class PytorchCRF(Peer):
    """pytorch-crf, whose place `LinearChainCRF` takes."""

    name = "pytorch-crf"
    package, wanted_version = "pytorch-crf", "0.7.2"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        import torchcrf

        emissions, transitions = problem.scores()
        tags = problem.tags(problem.labels)
        leaf = emissions.clone().requires_grad_()
        peer = torchcrf.CRF(problem.labels, batch_first=True).to(problem.dtype)
        with torch.no_grad():
            peer.transitions.copy_(transitions)
        ours = LinearChainCRF(problem.labels, batch_first=True).to(problem.dtype)
        ours.load_state_dict(peer.state_dict())

        def train(crf: torch.nn.Module) -> Tensor:
            leaf.grad = None
            crf.zero_grad()
            loss = -crf(leaf, tags)
            loss.backward()
            return loss

        def with_gradients(crf: torch.nn.Module) -> Callable[[Tensor], Sequence[Tensor]]:
            parameters = [parameter for _, parameter in sorted(crf.named_parameters())]
            return lambda loss: [loss, _grad(leaf), *map(_grad, parameters)]

        return {
            "likelihood": Contest(
                lambda: train(ours), lambda: train(peer), with_gradients(ours), with_gradients(peer)
            ),
            "viterbi": Contest(
                lambda: ours.decode(emissions), lambda: peer.decode(emissions), _as_tensor, _as_tensor
            ),
        }


class FlairCRF(Peer):
    """Flair's CRF: two of its labels are START and STOP, forbidden by scores of -10,000."""

    name = "Flair"
    package, wanted_version = "flair", "0.15.1"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        from flair.data import Dictionary
        from flair.models.sequence_tagger_utils.crf import CRF
        from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder, ViterbiLoss

        emissions, transitions = problem.scores()
        names = [f"tag{k}" for k in range(problem.labels - 2)]
        dictionary = Dictionary(add_unk=False)
        for name in [*names, "<START>", "<STOP>"]:
            dictionary.add_item(name)
        start, stop = problem.labels - 2, problem.labels - 1
        crf = CRF(dictionary, problem.labels, init_from_state_dict=True).to(problem.dtype)
        with torch.no_grad():
            crf.transitions.copy_(transitions)
            crf.transitions[start, :] = -10_000.0
            crf.transitions[:, stop] = -10_000.0
        tags, chain = problem.tags(len(names)), Chain(problem.lengths)
        loss, decoder, flat = ViterbiLoss(dictionary), ViterbiDecoder(dictionary), tags.flatten()
        leaf = emissions.clone().requires_grad_()

        def flair_loss() -> tuple[Tensor, ...]:
            leaf.grad = crf.transitions.grad = None
            value = loss((crf(leaf), problem.lengths, crf.transitions), flat)
            value.backward()
            return value, _grad(leaf), _grad(crf.transitions)

        def theta(nodes: Tensor) -> Parts:
            table = crf.transitions
            return chain.potentials(nodes, table.mT, start=table[:, start], end=table[stop])

        def our_loss() -> tuple[Tensor, ...]:
            leaf.grad = crf.transitions.grad = None
            value = -chain.log_likelihood(theta(leaf), tags).sum()
            value.backward()
            return value, _grad(leaf), _grad(crf.transitions)

        items = [*names, "<START>", "<STOP>"]

        @torch.no_grad()
        def flair_decode() -> list[list[str]]:
            found, _ = decoder.decode((crf(emissions), problem.lengths, crf.transitions), False, [])
            return [[name for name, _ in row] for row in found]

        @torch.no_grad()
        def our_decode() -> list[list[str]]:
            return [[items[k] for k in row] for row in chain.argmax(theta(emissions)).tolist()]

        def numbers(rows: list[list[str]]) -> Sequence[Tensor]:
            index = {name: k for k, name in enumerate(items)}
            return _as_tensor([[index[name] for name in row] for row in rows])

        return {
            "likelihood": Contest(our_loss, flair_loss, _as_they_are, _as_they_are),
            "viterbi": Contest(our_decode, flair_decode, numbers, numbers),
        }


def _grad(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad


PEERS: tuple[Peer, ...] = (TorchStruct(), TorchLoop(), PytorchCRF(), FlairCRF())
