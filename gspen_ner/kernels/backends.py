"""Which implementation of chain inference runs: by device, or by hand.

A backend is any object with the methods of `Backend`. The first registered one that supports the
tensors' device is used; `use_backend` overrides that for a block of code (and for its thread only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

Want = Literal["log_partition", "nodes", "edges"]


class ChainSums(NamedTuple):
    """What forward-backward found: log Z in the widest float, and as much as was wanted.

    Example:
        >>> from gspen_ner.kernels import forward_backward
        >>> sums = forward_backward(torch.zeros(1, 2, 3), torch.zeros(1, 1, 3, 3), torch.tensor([2]), "nodes")
        >>> sums.log_partition, sums.edges  # of nine labellings; edges were not wanted
        (tensor([2.1972], dtype=torch.float64), None)
    """

    log_partition: Float[Tensor, " B"]
    nodes: Float[Tensor, "B T L"] | None
    edges: Float[Tensor, "B E L L"] | None


class Likelihood(NamedTuple):
    """Log Z, the tags' score, and the gradients of their weighted difference.

    `gradients(weights)` gives those of sum_b weights[b] (score - log Z)[b] in nodes, edges (None unless
    they were wanted), start and end scores, each in the shape of its input.
    """

    log_partition: Float[Tensor, " B"]
    score: Float[Tensor, " B"]
    gradients: Callable[[Tensor], tuple[Tensor, Tensor | None, Tensor, Tensor]]


@runtime_checkable
class Backend(Protocol):
    """Chain inference on checked input: nodes `[B, T, L]`, edges `[B or 1, T-1 or 1, L, L]`.

    Positions from a row's length on are padding: they may hold anything, marginals are zero and tags
    are -1 there. An impossible row gives a non-finite score, which the caller turns into an error.

    Example:
        >>> from gspen_ner.kernels.reference import ReferenceBackend
        >>> isinstance(ReferenceBackend(), Backend)
        True
    """

    name: str

    def supports(self, device: torch.device) -> bool:
        """Whether tensors on this device can be handled."""

    def forward_backward(self, nodes: Tensor, edges: Tensor, lengths: Tensor, want: Want) -> ChainSums:
        """Log partition and marginals; edges are counts `[B, 1, L, L]` if the table is shared."""

    def likelihood(
        self,
        nodes: Tensor,
        edges: Tensor,
        lengths: Tensor,
        tags: Tensor,
        want: Want,
        start: Tensor | None,
        end: Tensor | None,
    ) -> Likelihood:
        """Forward-backward beside the score of given tags (checked, but for padding).

        Start and end scores, if any, count at each row's first and last position.
        """

    def viterbi(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Best scores `[B]` and tags `[B, T]`."""

    def k_best(self, nodes: Tensor, edges: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scores `[B, k]`, descending, -inf where there is no further path, and tags `[B, k, T]`."""

    def sample(self, nodes: Tensor, edges: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
        """Tags `[S, B, T]` by inverting the conditional distributions at `uniforms` `[S, B, T]`."""


_registered: dict[str, Backend] = {}
_chosen: ContextVar[str | None] = ContextVar("gspen_ner_backend", default=None)


def register_backend(backend: Backend, *, first: bool = False) -> None:
    """Make a backend available by its name; `first` lets it go before the ones already there.

    Example:
        >>> from gspen_ner.kernels.reference import ReferenceBackend
        >>> class Mine(ReferenceBackend):
        ...     name = "mine"
        >>> register_backend(Mine())
        >>> available_backends()
        ['numba', 'reference', 'mine']
        >>> unregister_backend("mine")
    """
    rest = {name: other for name, other in _registered.items() if name != backend.name}
    _registered.clear()
    _registered.update({backend.name: backend} | rest if first else rest | {backend.name: backend})


def unregister_backend(name: str) -> None:
    """Take a backend out again.

    Example:
        >>> unregister_backend("mine")
        Traceback (most recent call last):
        ValueError: unknown backend 'mine'; available: ['numba', 'reference']
    """
    _registered.pop(_known(name))


def available_backends() -> list[str]:
    """The names of the registered backends, in the order in which they are tried.

    Example:
        >>> available_backends()
        ['numba', 'reference']
    """
    return list(_registered)


def choose_backend(device: torch.device) -> Backend:
    """The backend set by `use_backend`, else the first that supports the device."""
    name = _chosen.get()
    if name is None:
        return next(backend for backend in _registered.values() if backend.supports(device))
    backend = _registered[_known(name)]
    if not backend.supports(device):
        raise ValueError(f"backend {name!r} does not run on {device}; available: {available_backends()}")
    return backend


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run the chain inference inside the block on the named backend.

    Example:
        >>> from gspen_ner import Chain, Parts, use_backend
        >>> with use_backend("reference"):
        ...     Chain(torch.tensor([2])).log_partition(Parts(torch.zeros(1, 2, 3), torch.zeros(3, 3)))
        tensor([2.1972], dtype=torch.float64)
    """
    token = _chosen.set(_known(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def _known(name: str) -> str:
    if name not in _registered:
        raise ValueError(f"unknown backend {name!r}; available: {available_backends()}")
    return name
