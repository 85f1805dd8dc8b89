"""What tables and pictures of the paper's systems share: their names, and numbers of several seeds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

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
        >>> str(OverSeeds((58.0, 59.0, 60.0))), str(OverSeeds((58.0,)))
        ('59.0 ± 1.0', '58.0')
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
        return f"{self.mean:.1f}" + ("" if self.deviation is None else f" ± {self.deviation:.1f}")
