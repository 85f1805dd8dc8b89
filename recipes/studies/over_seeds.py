"""What tables and pictures of the paper's systems share: their names, and numbers of several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gspen_ner.runs.over_seeds import OverSeeds

SYSTEMS = {
    "unary": "Unary",
    "struct": "Struct",
    "struct_without_entropy": "Struct without entropy",
    "spen": "SPEN",
    "nlstruct": "NLStruct",
    "gspen": "GSPEN",
}
"""What people call them, in the order in which they are shown."""


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
