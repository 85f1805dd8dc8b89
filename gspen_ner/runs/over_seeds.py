"""A number of each seed of an experiment, with its mean and standard deviation."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class OverSeeds:
    """A number of each seed.

    Example:
        >>> str(OverSeeds((58.0, 59.0, 60.0))), f"{OverSeeds((58.0,)):.2f}"
        ('59.0 ± 1.0', '58.00')
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        """Median over seeds."""
        return statistics.median(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self:.1f}"

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) + ("" if self.deviation is None else f" ± {self.deviation:{spec}}")
