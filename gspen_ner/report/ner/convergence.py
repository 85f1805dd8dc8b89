"""Convergence of inference over a dataset: the number of steps, and the residual after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gspen_ner.ner.predictions import Prediction


@dataclass(frozen=True)
class Convergence:
    """Convergence of inference over all sentences.

    Args:
        converged: share of sentences whose residual fell below the tolerance.
        steps: number of sentences that took 0, 1, 2, ... steps.
        residuals: 10 %, 50 % and 90 % quantiles of the residual after each step; a converged sentence keeps
            its last residual. None where less than half of the sentences have a finite residual.
    """

    converged: float
    steps: list[int]
    residuals: list[tuple[float, float, float] | None]


def convergence(predictions: Sequence[Prediction]) -> Convergence | None:
    """Return the convergence of inference; None if no prediction used inference with a global term."""
    workings = [p.workings for p in predictions if p.workings is not None and p.workings.residuals]
    if not workings:
        return None
    steps = np.array([len(w.residuals) - 1 for w in workings])
    columns = range(int(steps.max()) + 1)
    table = np.array([[w.residuals[min(step, len(w.residuals) - 1)] for step in columns] for w in workings])
    return Convergence(
        float(np.mean([w.converged for w in workings])),
        np.bincount(steps).tolist(),
        [_quantiles(column) for column in table.T],
    )


def _quantiles(residuals: np.ndarray) -> tuple[float, float, float] | None:
    finite = residuals[np.isfinite(residuals)]
    if 2 * len(finite) < len(residuals):
        return None
    low, middle, high = np.quantile(finite, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high
