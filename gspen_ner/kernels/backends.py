"""The choice of the implementation of chain inference.

A backend is any object with the methods of `Backend`. By default, the first registered backend that supports
the tensors' device is used; `use_backend` chooses another one for a block of code (in the current thread).
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
    """Result of forward-backward: log Z in float64, and the requested marginals (None if not requested).

    Example:
        >>> from gspen_ner.kernels import forward_backward
        >>> sums = forward_backward(torch.zeros(1, 2, 3), torch.zeros(1, 1, 3, 3), torch.tensor([2]), "nodes")
        >>> sums.log_partition, sums.edges  # nine labellings; edge marginals were not requested
        (tensor([2.1972], dtype=torch.float64), None)
    """

    log_partition: Float[Tensor, " B"]
    nodes: Float[Tensor, "B T L"] | None
    edges: Float[Tensor, "B E L L"] | None


class Likelihood(NamedTuple):
    """Log Z, the score of the tags, and a function for the gradients of the log likelihood.

    `gradients(weights)` returns the gradients of sum_b weights[b] (score - log Z)[b] in nodes, edges (None if
    not requested), start scores and end scores, each in the shape of its input.
    """

    log_partition: Float[Tensor, " B"]
    score: Float[Tensor, " B"]
    gradients: Callable[[Tensor], tuple[Tensor, Tensor | None, Tensor, Tensor]]


@runtime_checkable
class Backend(Protocol):
    """Chain inference on checked input: nodes `[B, T, L]`, edges `[B or 1, T-1 or 1, L, L]`.

    Positions from a row's length on are padding, with arbitrary scores; there, marginals are zero and tags
    are -1. A row without a possible labelling has a non-finite score, for which the caller raises an error.

    Example:
        >>> from gspen_ner.kernels.reference import ReferenceBackend
        >>> isinstance(ReferenceBackend(), Backend)
        True
    """

    name: str

    def supports(self, device: torch.device) -> bool:
        """Return whether tensors on this device are supported."""

    def forward_backward(self, nodes: Tensor, edges: Tensor, lengths: Tensor, want: Want) -> ChainSums:
        """Return log partition and marginals; edges are counts `[B, 1, L, L]` for a shared table."""

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
        """Return log partition, score of the given tags and gradients; tags on padding are not checked.

        Start and end scores, or None, are added at each row's first and last position.
        """

    def viterbi(self, nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best scores `[B]` and tags `[B, T]`."""

    def k_best(self, nodes: Tensor, edges: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return scores `[B, k]` in descending order, -inf for missing paths, and tags `[B, k, T]`."""

    def sample(self, nodes: Tensor, edges: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
        """Return tags `[S, B, T]`: the inverse conditional distributions at `uniforms` `[S, B, T]`."""


_registered: dict[str, Backend] = {}
_chosen: ContextVar[str | None] = ContextVar("gspen_ner_backend", default=None)


def register_backend(backend: Backend, *, first: bool = False) -> None:
    """Make a backend available by its name.

    Args:
        backend: the backend; it replaces a registered backend of the same name.
        first: whether it is tried before the other backends; by default it is tried after them.

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
    """Remove a registered backend.

    Example:
        >>> unregister_backend("mine")
        Traceback (most recent call last):
        ValueError: unknown backend 'mine'; available: ['numba', 'reference']
    """
    _registered.pop(_known(name))


def available_backends() -> list[str]:
    """Return the names of the registered backends, in the order in which they are tried.

    Example:
        >>> available_backends()
        ['numba', 'reference']
    """
    return list(_registered)


def choose_backend(device: torch.device) -> Backend:
    """Return the backend chosen by `use_backend`, else the first that supports the device."""
    name = _chosen.get()
    if name is None:
        return next(backend for backend in _registered.values() if backend.supports(device))
    backend = _registered[_known(name)]
    if not backend.supports(device):
        raise ValueError(
            f"backend {name!r} does not support the device {device}; available: {available_backends()}"
        )
    return backend


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run chain inference within a block of code on the named backend.

    Example:
        >>> from gspen_ner import Chain, Parts
        >>> from gspen_ner.kernels import use_backend
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
