"""A picture of what came out of a multilabel experiment: the F1 of each system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.studies.pictures import SYSTEM_COLOURS, write_picture

if TYPE_CHECKING:
    from gspen_ner.runs.over_seeds import OverSeeds


@dataclass(frozen=True)
class F1Bar:
    """The F1 of a system."""

    name: str
    mean: float
    standard_deviation: float | None
    seeds: list[float]


@dataclass(frozen=True)
class F1Bars:
    """The picture's numbers."""

    title: str
    bars: list[F1Bar]


def draw_f1(source: str, f1: Mapping[str, OverSeeds], folder: Path) -> None:
    """Draw f1.png, with f1.json beside it.

    Args:
        source: what the data are, for the title.
        f1: on test in per cent, by system.
        folder: gets the files.
    """
    from matplotlib.figure import Figure

    bars = [F1Bar(name, found.mean, found.deviation, list(found.values)) for name, found in f1.items()]
    numbers = F1Bars(f"{source}: test F1 averaged over examples", bars)
    figure = Figure(figsize=(7.2, 1.4 + 0.45 * len(bars)), layout="constrained")
    figure.suptitle(numbers.title)
    panel = figure.subplots()
    panel.set(xlabel="test F1 (%)")
    for bar in bars:
        error = float("nan") if bar.standard_deviation is None else bar.standard_deviation
        panel.barh(bar.name, bar.mean, xerr=error, capsize=3, color=SYSTEM_COLOURS[bar.name])
        panel.plot(bar.seeds, [bar.name] * len(bar.seeds), ".", color="black", markersize=4)
        end = max([*bar.seeds, bar.mean + (bar.standard_deviation or 0)])
        panel.annotate(f"{bar.mean:.1f}", (end, bar.name), (6, 0), textcoords="offset points", va="center")
    panel.invert_yaxis()
    panel.margins(x=0.1)
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    write_picture(folder / "f1", numbers, figure)
