"""Tables and pictures of the OCR study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from torch.nn.functional import pad

from gspen_ner.training import Examples
from recipes.ocr.inference_study import SOLVERS, STEP_SIZES, StudyCase
from recipes.studies.pictures import Style, draw_bars, draw_lines, write_picture
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
_GAP_BETWEEN_LETTERS = 2  # white pixels
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
    rows = [
        {"system": name}
        | {
            f"{by} {point:g}\n{unit}": str(curves[name].get(point, ""))
            for point in points
            for unit, curves in (("words", words), ("letters", letters))
        }
        for name in words
    ]
    return make_table(f"test accuracy by {title} (%, {_note(words)})", rows, text=("system",))


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
    rows = [
        {
            "solver": SOLVERS[case.solver],
            "entropy": "yes" if case.entropy else "no",
            "step sizes": "ours" if case.steps == "ours" else "the paper's",
            "from": SYSTEMS[case.base],
        }
        | {f"{point:g} steps": str(curve.get(point, "")) for point in points}
        for case, curve in curves.items()
    ]
    return make_table(title, rows, text=("solver", "entropy", "step sizes", "from"))


def draw_pictures(recipe: OCRRecipe, results: Sequence[OCRResult], folder: Path) -> None:
    """Draw accuracy by alpha and by size, times, and the study of inference, as far as there are results."""
    words, alpha = f"{recipe.size} training words", f"background weight alpha = {recipe.alpha:g}"
    varied: tuple[tuple[Varied, str, str, str], ...] = (
        ("alpha", "background weight", "background weight alpha", words),
        ("size", "number of training words", "training words", alpha),
    )
    for by, name, x, fixed in varied:
        panels = {
            "whole words": accuracies(recipe, results, by, "test_words"),
            "single letters": accuracies(recipe, results, by, "test_letters"),
        }
        title = f"OCR: accuracy by {name}\n({fixed}; {_note(panels['whole words'])})"
        draw_lines(folder / f"accuracy_by_{by}", title, (x, "test accuracy (%)"), panels, log=by == "size")
    _draw_times(at_one_cell(recipe, results), f"{alpha}, {words}", folder)
    _draw_inference(results, f"{alpha}, {words}", folder)


def _draw_times(results: Sequence[OCRResult], fixed: str, folder: Path) -> None:
    bars = {}
    for name, group in by_system(results).items():
        seconds, ratio = over_seeds(group, "seconds_an_epoch"), times_struct(results, group)
        times = "" if ratio is None else f"  ({ratio:.1f} times Struct)"
        bars[name] = (seconds.median, seconds, f"{seconds.median:.3g} s{times}")
    seeds = max((len(seconds.values) for _, seconds, _ in bars.values()), default=0)
    note = seeds_note(seeds, "median")
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
    numbers = [len(point.values) for curve in curves.values() for point in curve.values()]
    return seeds_note(max(numbers, default=0))


def draw_samples(by_alpha: Mapping[float, Examples], file: Path, rows: int = 3) -> None:
    """Draw the first words of each split, a column for each alpha, and write which words they are as JSON.

    Args:
        by_alpha: words; data made with equal seeds show the same words in each column.
        file: path without suffix, of the picture and its JSON file.
        rows: number of words.
    """
    fewest = min(map(len, by_alpha.values()), default=0)
    if not 1 <= rows <= fewest:
        raise ValueError(f"expected from 1 to {fewest} rows, as there are words, got {rows}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.7 * len(by_alpha), 0.35 + 0.76 * rows), layout="constrained")
    panels = figure.subplots(rows, len(by_alpha), squeeze=False, gridspec_kw={"wspace": 0.06})
    words: dict[str, list[str]] = {}
    for column, (alpha, examples) in enumerate(by_alpha.items()):
        for row in range(rows):
            panel = panels[row, column]
            letters = pad(examples.inputs[row], (0, _GAP_BETWEEN_LETTERS), value=255)
            strip = letters.transpose(0, 1).flatten(1)[:, :-_GAP_BETWEEN_LETTERS]
            panel.imshow(strip.numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            panel.set_axis_off()
            word = "".join(ascii_lowercase[label] for label in examples.labels[row].tolist())
            words.setdefault(f"{alpha:g}", []).append(word)
            panel.text(0.5, -0.06, word, transform=panel.transAxes, ha="center", va="top")
        panels[0, column].set_title(rf"$\alpha$ = {alpha:g}")
    write_picture(file, {"words by alpha": words}, figure)
