"""How every loop is compiled."""

from __future__ import annotations

from collections.abc import Callable

import numba


def compiled(function: Callable) -> Callable:
    """Compile on first call, cached on disk where some cache directory can be written."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no place to write to
        return numba.njit(**options)(function)
