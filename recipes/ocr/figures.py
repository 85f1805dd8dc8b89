"""Pictures of what came out of the OCR experiment, each with the numbers that it shows as JSON beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recipes.ocr.summary import (
    SOLVERS,
    Curve,
    StudyCase,
    accuracies,
    costs,
    over_seeds,
    study,
)
from recipes.studies.over_seeds import SYSTEMS
from recipes.studies.pictures import SYSTEM_COLOURS, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gspen_ner.recipe import OCRRecipe
    from recipes.ocr.cell import SystemResult

Style = dict[str, Any]

_MARKERS = dict(zip(SYSTEM_COLOURS, "osD^vP", strict=True))
_SYSTEM_STYLES: dict[str, Style] = {
    name: {"color": colour, "marker": _MARKERS[name]} for name, colour in SYSTEM_COLOURS.items()
}
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
_ASIDE = 0.045  # inches between the points of lines at one place, so that error bars stay in sight
_STUDY_PANELS = {"ours": "our step sizes", "paper": "the paper's step sizes"}


@dataclass(frozen=True)
class Line:
    """The points of a line; a point of one seed has no standard deviation."""

    name: str
    x: list[float]
    mean: list[float]
    standard_deviation: list[float | None]
    seeds: list[int]

    @classmethod
    def of(cls, name: str, curve: Curve) -> Line:
        """A line under its name in the legend."""
        points = curve.values()
        return cls(
            name,
            list(curve),
            [point.mean for point in points],
            [point.deviation for point in points],
            [len(point.values) for point in points],
        )


@dataclass(frozen=True)
class Lines:
    """A picture of lines, in one panel or several."""

    title: str
    x: str
    y: str
    panels: dict[str, list[Line]]


@dataclass(frozen=True)
class Bar:
    """The time that a system takes."""

    name: str
    median: float
    standard_deviation: float | None
    times_struct: float | None
    seeds: int


@dataclass(frozen=True)
class Bars:
    """A picture of bars."""

    title: str
    x: str
    bars: list[Bar]


def draw_figures(recipe: OCRRecipe, results: Sequence[SystemResult], folder: Path) -> None:
    """Draw accuracy by alpha and by size, times, and the study of inference, as far as there are results.

    Args:
        recipe: what was done.
        results: what came out.
        folder: gets NAME.png and NAME.json of each picture; older ones are replaced.
    """
    words, alpha = f"{recipe.size} training words", f"background weight alpha = {recipe.alpha:g}"
    by_alpha = _accuracy(recipe, results, "alpha", "background weight alpha", words)
    by_size = _accuracy(recipe, results, "size", "training words", alpha)
    for by, lines in (("alpha", by_alpha), ("size", by_size)):
        if any(lines.panels.values()):
            figure = _lines_figure(lines, _SYSTEM_STYLES, log=by == "size", columns=3)
            write_picture(folder / f"accuracy_by_{by}", lines, figure)
    bars = _seconds(recipe, results, f"{alpha}, {words}")
    if bars.bars:
        write_picture(folder / "seconds_an_epoch", bars, _bars_figure(bars))
    lines, styles = _study(results, f"{alpha}, {words}")
    if lines.panels:
        figure = _lines_figure(lines, styles, log=True, columns=2, share_y=True)
        write_picture(folder / "inference_study", lines, figure)


def _accuracy(
    recipe: OCRRecipe, results: Sequence[SystemResult], by: Literal["alpha", "size"], x: str, fixed: str
) -> Lines:
    found = {
        "whole words": accuracies(recipe, results, by, "test_words"),
        "single letters": accuracies(recipe, results, by, "test_letters"),
    }
    said = over_seeds(list(found["whole words"].values()))
    return Lines(
        f"OCR: accuracy by {'background weight' if by == 'alpha' else 'number of training words'}\n"
        f"({fixed}; {said})",
        x,
        "test accuracy (%)",
        {what: [Line.of(name, curve) for name, curve in curves.items()] for what, curves in found.items()},
    )


def _seconds(recipe: OCRRecipe, results: Sequence[SystemResult], fixed: str) -> Bars:
    bars = [
        Bar(name, cost.seconds.median, cost.seconds.deviation, cost.times_struct, len(cost.seconds.values))
        for name, cost in costs(recipe, results).items()
    ]
    seeds = max((bar.seeds for bar in bars), default=0)
    said = f"median ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    return Bars(f"OCR: training time\n({fixed}; {said})", "seconds an epoch", bars)


def _study(results: Sequence[SystemResult], fixed: str) -> tuple[Lines, dict[str, Style]]:
    """The study's lines, a panel for each rule of step sizes, and how each is drawn."""
    curves = study(results)
    panels: dict[str, list[Line]] = {}
    for case, curve in curves.items():
        panels.setdefault(_STUDY_PANELS[case.steps], []).append(Line.of(_study_name(case), curve))
    styles = {
        _study_name(case): _STUDY_STYLES[case.solver, case.entropy] | _BASE_STYLES[case.base]
        for case in curves
    }
    title = f"OCR: GSPEN by its inference\n({fixed}; {over_seeds(list(curves.values()))})"
    return Lines(title, "largest number of inference steps", "test words right (%)", panels), styles


def _study_name(case: StudyCase) -> str:
    with_or_without = "with" if case.entropy else "without"
    return f"{SOLVERS[case.solver]} {with_or_without} entropy, from {SYSTEMS[case.base]}"


def _lines_figure(
    lines: Lines, styles: Mapping[str, Style], *, log: bool, columns: int, share_y: bool = False
) -> Figure:
    """Panels side by side, with one legend of so many columns below them."""
    from matplotlib.figure import Figure
    from matplotlib.transforms import ScaledTranslation

    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    figure.suptitle(lines.title)
    panels = figure.subplots(1, len(lines.panels), squeeze=False, sharey=share_y)[0]
    handles: dict[str, Any] = {}
    for panel, (title, drawn) in zip(panels, lines.panels.items(), strict=True):
        panel.set(title=title, xlabel=lines.x, ylabel=lines.y)
        _mark_points(panel, sorted({x for line in drawn for x in line.x}), log)
        for number, line in enumerate(drawn):
            inches = _ASIDE * (number - (len(drawn) - 1) / 2)
            handles[line.name] = _draw(panel, line, styles[line.name])
            for artist in handles[line.name].get_children():
                aside = ScaledTranslation(inches, 0, figure.dpi_scale_trans)
                artist.set_transform(artist.get_transform() + aside)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _mark_points(panel: Axes, points: Sequence[float], log: bool) -> None:
    """Ticks where there are points, and nowhere else."""
    if log:
        panel.set_xscale("log")
    panel.set_xticks(points, [f"{point:g}" for point in points])
    panel.set_xticks([], minor=True)
    panel.margins(x=0.1)
    panel.grid(axis="y", color="#dddddd")
    panel.spines[["top", "right"]].set_visible(False)


def _draw(panel: Axes, line: Line, style: Style) -> Any:
    """A line with error bars where there are any."""
    known = any(value is not None for value in line.standard_deviation)
    errors = [float("nan") if value is None else value for value in line.standard_deviation]
    looks: Style = {"capsize": 3, "markersize": 6, "linewidth": 1.5, "elinewidth": 1.0, **style}
    return panel.errorbar(line.x, line.mean, yerr=errors if known else None, **looks)


def _bars_figure(bars: Bars) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 1.6 + 0.45 * len(bars.bars)), layout="constrained")
    figure.suptitle(bars.title)
    panel = figure.subplots()
    panel.set(xscale="log", xlabel=bars.x)
    panel.xaxis.set_major_formatter("{x:g}")
    for bar in bars.bars:
        error = float("nan") if bar.standard_deviation is None else bar.standard_deviation
        panel.barh(bar.name, bar.median, xerr=error, capsize=3, color=_SYSTEM_STYLES[bar.name]["color"])
        ratio = "" if bar.times_struct is None else f"  ({bar.times_struct:.1f} times Struct)"
        end = bar.median + (bar.standard_deviation or 0)
        panel.annotate(
            f"{bar.median:.3g} s{ratio}", (end, bar.name), (6, 0), textcoords="offset points", va="center"
        )
    panel.invert_yaxis()
    panel.margins(x=0.3)
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    return figure
