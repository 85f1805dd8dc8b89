"""What tables and pictures of the paper's systems share: their names, and numbers of several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SYSTEMS = {
    "unary": "Unary",
    "struct": "Struct",
    "struct_without_entropy": "Struct without entropy",
    "spen": "SPEN",
    "nlstruct": "NLStruct",
    "gspen": "GSPEN",
}
"""What people call them, in the order in which they are shown."""


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
        """Over seeds."""
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        """Over seeds."""
        return statistics.median(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds; one seed has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self:.1f}"

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) + ("" if self.deviation is None else f" ± {self.deviation:{spec}}")


def by_system(results: Sequence[Any], measure: str) -> dict[str, OverSeeds]:
    """A number of each system that there is, over its seeds, by the name that people call it."""
    return {
        name: OverSeeds(values)
        for system, name in SYSTEMS.items()
        if (values := tuple(getattr(result, measure) for result in results if result.system == system))
    }


def said_of_seeds(results: Sequence[Any]) -> str:
    """How numbers over seeds came about, in words."""
    seeds = len({result.seed for result in results})
    return f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
