"""The decorator that compiles a loop."""

from __future__ import annotations

from collections.abc import Callable

import numba


def compiled(function: Callable) -> Callable:
    """Return the function compiled on first call, with a disk cache if a cache directory is writable."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable cache directory
        return numba.njit(**options)(function)
