"""What came out of the OCR experiment, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from recipes.ocr.summary import (
    SOLVERS,
    accuracies,
    costs,
    over_seeds,
    study,
)
from recipes.studies.over_seeds import SYSTEMS

if TYPE_CHECKING:
    from gspen_ner.recipe import OCRRecipe
    from recipes.ocr.cell import SystemResult


def ocr_tables(recipe: OCRRecipe, results: Sequence[SystemResult]) -> Iterator[Table]:
    """Accuracy by alpha and by size, what training takes, and the study of inference; none without rows."""
    tables = (
        _accuracy_table(recipe, results, "alpha", f"alpha, {recipe.size} training words"),
        _accuracy_table(recipe, results, "size", f"training size, alpha {recipe.alpha:g}"),
        _cost_table(recipe, results),
        _study_table(recipe, results),
    )
    yield from (table for table in tables if table.row_count)


def _accuracy_table(
    recipe: OCRRecipe, results: Sequence[SystemResult], by: Literal["alpha", "size"], title: str
) -> Table:
    words, letters = (accuracies(recipe, results, by, measure) for measure in ("test_words", "test_letters"))
    points = sorted({point for curve in words.values() for point in curve})
    heads = [f"{by} {point:g}\n{what}" for point in points for what in ("words", "letters")]
    said = over_seeds(list(words.values()))
    table = _table(f"test accuracy by {title} (%, {said})", ["system"], heads)
    for name in words:
        cells = [str(curve.get(point, "")) for point in points for curve in (words[name], letters[name])]
        table.add_row(name, *cells)
    return table


def _cost_table(recipe: OCRRecipe, results: Sequence[SystemResult]) -> Table:
    table = _table(
        f"what training takes, alpha {recipe.alpha:g}, {recipe.size} training words (median seconds)",
        ["system"],
        ["seconds an epoch", "times Struct's", "inference steps", "negative losses (%)"],
    )
    for name, cost in costs(recipe, results).items():
        negative = None if cost.negative is None else 100 * cost.negative
        others = (cost.times_struct, cost.steps, negative)
        cells = ["" if value is None else f"{value:.1f}" for value in others]
        table.add_row(name, f"{cost.seconds.median:.3f}", *cells)
    return table


def _study_table(recipe: OCRRecipe, results: Sequence[SystemResult]) -> Table:
    curves = study(results)
    points = sorted({point for curve in curves.values() for point in curve})
    table = _table(
        f"GSPEN's inference: test words by largest number of steps, alpha {recipe.alpha:g}, "
        f"{recipe.size} training words (%, {over_seeds(list(curves.values()))})",
        ["solver", "entropy", "step sizes", "from"],
        [f"{point:g} steps" for point in points],
    )
    for case, curve in curves.items():
        steps = "ours" if case.steps == "ours" else "the paper's"
        cells = [str(curve.get(point, "")) for point in points]
        table.add_row(
            SOLVERS[case.solver], "yes" if case.entropy else "no", steps, SYSTEMS[case.base], *cells
        )
    return table


def _table(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    for number in numbers:
        table.add_column(number, justify="right")
    return table
