"""What came out of the OCR experiment, over seeds: the numbers behind its tables and pictures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from gspen_ner.runs.over_seeds import OverSeeds
from recipes.ocr.inference_study import StudyCase
from recipes.studies.over_seeds import SYSTEMS

if TYPE_CHECKING:
    from gspen_ner.recipe import OCRRecipe
    from recipes.ocr.cell import SystemResult

Key = TypeVar("Key", bound=Hashable)
WITH_TERM = ("spen", "nlstruct", "gspen")
SOLVERS = {"mirror_descent": "mirror descent", "frank_wolfe": "Frank-Wolfe"}


Curve = dict[float, OverSeeds]
"""Accuracy in percent by what is varied, in order."""


@dataclass(frozen=True)
class Cost:
    """What training a system takes; its inference has steps and losses if there is a global term."""

    seconds: OverSeeds
    times_struct: float | None
    steps: float | None
    negative: float | None


def accuracies(
    recipe: OCRRecipe,
    results: Sequence[SystemResult],
    by: Literal["alpha", "size"],
    measure: Literal["test_words", "test_letters"],
) -> dict[str, Curve]:
    """The accuracy of each system by alpha, at the recipe's size, or by size, at the recipe's alpha."""
    fixed: Literal["alpha", "size"] = "size" if by == "alpha" else "alpha"
    chosen = [result for result in results if getattr(result, fixed) == getattr(recipe, fixed)]
    systems = _grouped(chosen, lambda result: result.system)
    return {
        name: _curve(systems[system], lambda result: getattr(result, by), measure)
        for system, name in SYSTEMS.items()
        if system in systems
    }


def costs(recipe: OCRRecipe, results: Sequence[SystemResult]) -> dict[str, Cost]:
    """What training takes at the recipe's alpha and size, by system."""
    here = [result for result in results if (result.alpha, result.size) == (recipe.alpha, recipe.size)]
    systems = _grouped(here, lambda result: result.system)
    seconds = {
        system: OverSeeds(tuple(result.seconds_an_epoch for result in found))
        for system, found in systems.items()
    }
    struct = seconds["struct"].median if "struct" in seconds else None
    return {
        name: Cost(
            seconds[system],
            seconds[system].median / struct if struct else None,
            _inference(systems[system], "inference_steps"),
            _inference(systems[system], "negative_losses"),
        )
        for system, name in SYSTEMS.items()
        if system in systems
    }


def study(results: Sequence[SystemResult]) -> dict[StudyCase, Curve]:
    """Words that the GSPENs of the study got right, by the number of steps."""
    chosen = [result for result in results if result.system.startswith("study-")]
    cases = _grouped(chosen, lambda result: StudyCase.of_name(result.system)[0])
    return {
        case: _curve(found, lambda result: StudyCase.of_name(result.system)[1], "test_words")
        for case, found in cases.items()
    }


def over_seeds(curves: Sequence[Curve]) -> str:
    """How the numbers of some curves came about, in words."""
    seeds = max((len(point.values) for curve in curves for point in curve.values()), default=0)
    return f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"


def _inference(results: Sequence[SystemResult], measure: str) -> float | None:
    """The mean over seeds of what systems with a global term have."""
    if results[0].system not in WITH_TERM:
        return None
    return statistics.fmean(getattr(result, measure) for result in results)


def _curve(results: Sequence[SystemResult], key: Callable[[SystemResult], float], measure: str) -> Curve:
    points = _grouped(results, key)
    return {
        point: OverSeeds(tuple(getattr(result, measure) for result in points[point]))
        for point in sorted(points)
    }


def _grouped(
    results: Sequence[SystemResult], key: Callable[[SystemResult], Key]
) -> dict[Key, list[SystemResult]]:
    groups: dict[Key, list[SystemResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups
