"""A contest: two functions that do the same on one batch of chains, ours and a peer's.

Contests are timed in float32, and compared in float64.
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


def as_they_are(results: Sequence[Tensor]) -> Sequence[Tensor]:
    """A view of tensors."""
    return results


def as_tensor(labels: list[list[int]]) -> Sequence[Tensor]:
    """A view of labels."""
    return (torch.tensor(labels),)


def our_sums(found: tuple[Tensor, Parts]) -> Sequence[Tensor]:
    """A view of what `Chain.sums` finds."""
    log_z, marginals = found
    assert marginals.edges is not None
    return log_z, marginals.nodes, marginals.edges


def grad_of(leaf: Tensor) -> Tensor:
    """The gradient that a loss has left."""
    assert leaf.grad is not None
    return leaf.grad
