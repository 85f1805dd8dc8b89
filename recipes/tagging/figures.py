"""The picture of an image tagging experiment: wrong tags on train, dev and test by epoch, as in the paper.

Unary, whose first epochs would leave no room for the others, is drawn as the line that it ends at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gspen_ner.runs.over_seeds import OverSeeds
from recipes.studies.over_seeds import SYSTEMS, by_system, said_of_seeds
from recipes.studies.pictures import SYSTEM_COLOURS, write_picture

if TYPE_CHECKING:
    from recipes.tagging.systems import TaggingResult

PANELS = {"train": "training images", "dev": "validation images", "test": "test images"}


@dataclass(frozen=True)
class LossCurve:
    """The losses of a system by epoch, as far as all seeds went."""

    name: str
    epochs: list[float]
    mean: list[float]
    standard_deviation: list[float | None]


@dataclass(frozen=True)
class LossCurves:
    """The picture's numbers; `iterations` are steps of inference in training and on test."""

    title: str
    panels: dict[str, list[LossCurve]]
    iterations: dict[str, dict[str, float]]


def draw_curves(source: str, results: Sequence[TaggingResult], folder: Path) -> None:
    """Draw curves.png, with curves.json beside it.

    Args:
        source: what the data are, for the title.
        results: of all systems and seeds.
        folder: gets the files.
    """
    from matplotlib.figure import Figure

    numbers = LossCurves(
        f"{source}: wrong tags of an image ({said_of_seeds(results)})",
        {split: _curves(results, split) for split in PANELS},
        _iterations(results),
    )
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    figure.suptitle(numbers.title)
    handles = {}
    for panel, (split, curves) in zip(
        figure.subplots(1, len(PANELS), squeeze=False)[0], numbers.panels.items(), strict=True
    ):
        panel.set(title=PANELS[split], xlabel="epoch", ylabel="wrong tags of an image")
        panel.xaxis.get_major_locator().set_params(integer=True)
        unary = by_system(results, f"{split}_loss")["Unary"].mean
        handles["Unary"] = panel.axhline(unary, color=SYSTEM_COLOURS["Unary"], linestyle="--")
        for curve in curves:
            if curve.name == "Unary":
                continue
            errors = [0.0 if error is None else error for error in curve.standard_deviation]
            (handles[curve.name],) = panel.plot(
                curve.epochs, curve.mean, marker=".", color=SYSTEM_COLOURS[curve.name]
            )
            low, high = ([m + sign * e for m, e in zip(curve.mean, errors, strict=True)] for sign in (-1, 1))
            panel.fill_between(curve.epochs, low, high, color=SYSTEM_COLOURS[curve.name], alpha=0.15)
        panel.grid(axis="y", color="#dddddd")
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
    write_picture(folder / "curves", numbers, figure)


def _curves(results: Sequence[TaggingResult], split: str) -> list[LossCurve]:
    curves = []
    for system, name in SYSTEMS.items():
        found = [result.curve for result in results if result.system == system]
        if not found:
            continue
        points = [OverSeeds(tuple(point[split] for point in seeds)) for seeds in zip(*found, strict=False)]
        epochs = [point["epoch"] for point in found[0][: len(points)]]
        deviations = [point.deviation for point in points]
        curves.append(LossCurve(name, epochs, [point.mean for point in points], deviations))
    return curves


def _iterations(results: Sequence[TaggingResult]) -> dict[str, dict[str, float]]:
    training, test = (by_system(results, measure) for measure in ("inference_steps", "test_steps"))
    return {
        name: {"training": training[name].mean, "test": test[name].mean}
        for name in ("SPEN", "NLStruct", "GSPEN")
        if name in test
    }
