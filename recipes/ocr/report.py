"""Tables and pictures of the OCR study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from recipes.ocr.inference_study import SOLVERS, STEP_SIZES, StudyCase
from recipes.studies.pictures import Style, bar, draw_bars, draw_lines
from recipes.studies.results import (
    SYSTEMS,
    Curve,
    by_system,
    cost_columns,
    curve,
    grouped,
    make_table,
    over_seeds,
    seeds_note,
    systems_table,
    term_column,
    times_struct,
)

if TYPE_CHECKING:
    from recipes.ocr.settings import OCRRecipe
    from recipes.ocr.systems import OCRResult

Varied = Literal["alpha", "size"]
_STUDY_STYLES: dict[tuple[str, bool], Style] = {
    ("mirror_descent", True): {"color": "#D55E00", "marker": "P"},
    ("mirror_descent", False): {"color": "#0072B2", "marker": "s"},
    ("frank_wolfe", True): {"color": "#E69F00", "marker": "^"},
    ("frank_wolfe", False): {"color": "#009E73", "marker": "v"},
}
_BASE_STYLES: dict[str, Style] = {
    "struct": {"linestyle": "-"},
    "struct_without_entropy": {"linestyle": "--", "markerfacecolor": "white"},
}


def accuracies(recipe: OCRRecipe, results: Sequence[OCRResult], by: Varied, measure: str) -> dict[str, Curve]:
    """Return the accuracy of each system by alpha, at the recipe's size, or by size, at its alpha."""
    fixed = "size" if by == "alpha" else "alpha"
    chosen = [result for result in results if getattr(result, fixed) == getattr(recipe, fixed)]
    return {
        name: curve(group, lambda result: getattr(result, by), measure)
        for name, group in by_system(chosen).items()
    }


def inference_curves(results: Sequence[OCRResult]) -> dict[StudyCase, Curve]:
    """Return the accuracy of the GSPENs of the study of inference by their number of steps."""
    chosen = [result for result in results if result.system.startswith("study-")]
    return {
        case: curve(group, lambda result: StudyCase.of_name(result.system)[1], "test_words")
        for case, group in grouped(chosen, lambda result: StudyCase.of_name(result.system)[0]).items()
    }


def at_one_cell(recipe: OCRRecipe, results: Sequence[OCRResult]) -> list[OCRResult]:
    """Return the results at the recipe's alpha and size."""
    return [result for result in results if (result.alpha, result.size) == (recipe.alpha, recipe.size)]


def ocr_tables(recipe: OCRRecipe, results: Sequence[OCRResult]) -> Iterator[Table]:
    """Yield accuracy by alpha and by size, costs of training, and the study of inference; no empty tables."""
    tables = (
        _accuracy_table(recipe, results, "alpha", f"alpha, {recipe.size} training words"),
        _accuracy_table(recipe, results, "size", f"training size, alpha {recipe.alpha:g}"),
        _cost_table(recipe, results),
        _inference_table(recipe, results),
    )
    yield from (table for table in tables if table.row_count)


def _accuracy_table(recipe: OCRRecipe, results: Sequence[OCRResult], by: Varied, title: str) -> Table:
    words, letters = (accuracies(recipe, results, by, measure) for measure in ("test_words", "test_letters"))
    points = sorted({point for curve in words.values() for point in curve})
    heads = [f"{by} {point:g}\n{unit}" for point in points for unit in ("words", "letters")]
    rows = (
        [name, *(str(curve.get(point, "")) for point in points for curve in (words[name], letters[name]))]
        for name in words
    )
    return make_table(f"test accuracy by {title} (%, {_note(words)})", ["system"], heads, rows)


def _cost_table(recipe: OCRRecipe, results: Sequence[OCRResult]) -> Table:
    chosen = at_one_cell(recipe, results)
    columns = {
        **cost_columns(chosen),
        "inference steps": term_column("inference_steps"),
        "negative losses (%)": term_column("negative_losses", factor=100),
    }
    title = f"what training takes, alpha {recipe.alpha:g}, {recipe.size} training words (median seconds)"
    return systems_table(title, chosen, columns)


def _inference_table(recipe: OCRRecipe, results: Sequence[OCRResult]) -> Table:
    curves = inference_curves(results)
    points = sorted({point for curve in curves.values() for point in curve})
    title = (
        f"GSPEN's inference: test words by largest number of steps, alpha {recipe.alpha:g}, "
        f"{recipe.size} training words (%, {_note(curves)})"
    )
    rows = (
        [
            SOLVERS[case.solver],
            "yes" if case.entropy else "no",
            "ours" if case.steps == "ours" else "the paper's",
            SYSTEMS[case.base],
            *(str(curve.get(point, "")) for point in points),
        ]
        for case, curve in curves.items()
    )
    heads = ["solver", "entropy", "step sizes", "from"]
    return make_table(title, heads, [f"{point:g} steps" for point in points], rows)


def draw_pictures(recipe: OCRRecipe, results: Sequence[OCRResult], folder: Path) -> None:
    """Draw accuracy by alpha and by size, times, and the study of inference, as far as there are results.

    Args:
        recipe: settings of the study.
        results: results of all systems.
        folder: gets NAME.png and NAME.json of each picture; older ones are replaced.
    """
    words, alpha = f"{recipe.size} training words", f"background weight alpha = {recipe.alpha:g}"
    _draw_accuracy(recipe, results, "alpha", ("background weight", "background weight alpha", words), folder)
    _draw_accuracy(recipe, results, "size", ("number of training words", "training words", alpha), folder)
    _draw_times(recipe, results, f"{alpha}, {words}", folder)
    _draw_inference(results, f"{alpha}, {words}", folder)


def _draw_accuracy(
    recipe: OCRRecipe, results: Sequence[OCRResult], by: Varied, texts: tuple[str, str, str], folder: Path
) -> None:
    panels = {
        "whole words": accuracies(recipe, results, by, "test_words"),
        "single letters": accuracies(recipe, results, by, "test_letters"),
    }
    varied, x, fixed = texts
    title = f"OCR: accuracy by {varied}\n({fixed}; {_note(panels['whole words'])})"
    draw_lines(folder / f"accuracy_by_{by}", title, (x, "test accuracy (%)"), panels, log=by == "size")


def _draw_times(recipe: OCRRecipe, results: Sequence[OCRResult], fixed: str, folder: Path) -> None:
    chosen, bars = at_one_cell(recipe, results), {}
    for name, group in by_system(chosen).items():
        seconds, ratio = over_seeds(group, "seconds_an_epoch"), times_struct(chosen, group)
        times = "" if ratio is None else f"  ({ratio:.1f} times Struct)"
        bars[name] = bar(seconds.median, seconds, f"{seconds.median:.3g} s{times}")
    groups = by_system(chosen).values()
    note = seeds_note((over_seeds(group, "seconds_an_epoch") for group in groups), "median")
    title = f"OCR: training time\n({fixed}; {note})"
    draw_bars(folder / "seconds_an_epoch", title, "seconds an epoch", bars, log=True)


def _draw_inference(results: Sequence[OCRResult], fixed: str, folder: Path) -> None:
    curves = inference_curves(results)
    panels: dict[str, dict[str, Curve]] = {}
    styles: dict[str, Style] = {}
    for case, points in curves.items():
        entropy = "with" if case.entropy else "without"
        name = f"{SOLVERS[case.solver]} {entropy} entropy, from {SYSTEMS[case.base]}"
        panels.setdefault(STEP_SIZES[case.steps], {})[name] = points
        styles[name] = _STUDY_STYLES[case.solver, case.entropy] | _BASE_STYLES[case.base]
    title = f"OCR: GSPEN by its inference\n({fixed}; {_note(curves)})"
    axes = ("largest number of inference steps", "test words right (%)")
    file = folder / "inference_study"
    draw_lines(file, title, axes, panels, styles, log=True, columns=2, share_y=True)


def _note(curves: dict[str, Curve] | dict[StudyCase, Curve]) -> str:
    return seeds_note(point for curve in curves.values() for point in curve.values())
