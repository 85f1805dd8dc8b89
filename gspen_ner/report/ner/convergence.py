"""How inference went over a dataset: steps, and residuals step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gspen_ner.ner.predictions import Prediction


@dataclass(frozen=True)
class Convergence:
    """Inference of all sentences.

    Args:
        converged: the share whose residual came below the tolerance.
        steps: how many sentences took 0, 1, 2, ... steps.
        residuals: after each step, the smallest residual of which 10, 50 and 90 % of the sentences are below;
            a sentence that has finished keeps its last. None where less than half have one yet.
    """

    converged: float
    steps: list[int]
    residuals: list[tuple[float, float, float] | None]


def convergence(predictions: Sequence[Prediction]) -> Convergence | None:
    """Look at all inferences; None if there were none."""
    ways = [p.workings for p in predictions if p.workings is not None and p.workings.residuals]
    if not ways:
        return None
    steps = np.array([len(way.residuals) - 1 for way in ways])
    every = range(int(steps.max()) + 1)
    table = np.array([[way.residuals[min(step, len(way.residuals) - 1)] for step in every] for way in ways])
    return Convergence(
        float(np.mean([way.converged for way in ways])),
        np.bincount(steps).tolist(),
        [_quantiles(column) for column in table.T],
    )


def _quantiles(residuals: np.ndarray) -> tuple[float, float, float] | None:
    known = residuals[np.isfinite(residuals)]
    if 2 * len(known) < len(residuals):
        return None
    low, middle, high = np.quantile(known, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high
