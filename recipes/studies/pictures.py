"""Pictures of results, all in one style, each with its numbers as JSON beside it.

FILE.json    lines: title, x, y, panels {title: [line]}; bars: title, x, bars
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspen_ner.files import write_file, write_whole
from gspen_ner.runs.tables import OverSeeds
from recipes.studies.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = dict[str, Any]
SYSTEM_STYLES: dict[str, Style] = {  # the colours of Okabe and Ito, which colour-blind people can tell apart
    "Unary": {"color": "#777777", "marker": "o"},
    "Struct": {"color": "#0072B2", "marker": "s"},
    "Struct without entropy": {"color": "#56B4E9", "marker": "D"},
    "SPEN": {"color": "#E69F00", "marker": "^"},
    "NLStruct": {"color": "#009E73", "marker": "v"},
    "GSPEN": {"color": "#D55E00", "marker": "P"},
}
_OFFSET = 0.045  # inches between the points of lines at equal x, so that all error bars are visible
_MOST_TICKS = 8


def draw_lines(
    file: Path,
    title: str,
    axes: tuple[str, str],
    panels: Mapping[str, Mapping[str, Curve]],
    styles: Mapping[str, Style] = SYSTEM_STYLES,
    *,
    log: bool = False,
    columns: int = 3,
    share_y: bool = False,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Draw panels of lines side by side, with one legend below; nothing without any line.

    Args:
        file: path without suffix, of the picture and its numbers.
        title: title of the picture.
        axes: labels of x and y.
        panels: the curves of each panel, by their names in the legend.
        styles: how each line is drawn.
        log: whether x has a logarithmic axis.
        columns: number of columns of the legend.
        share_y: whether all panels have the same y axis.
        more: other numbers for the JSON file.
    """
    if not any(panels.values()):
        return
    from matplotlib.figure import Figure
    from matplotlib.transforms import ScaledTranslation

    figure = Figure(figsize=(max(9.6, 3.7 * len(panels)), 5.2), layout="constrained")
    figure.suptitle(title)
    handles: dict[str, Any] = {}
    drawn_panels = figure.subplots(1, len(panels), squeeze=False, sharey=share_y)[0]
    for panel, (panel_title, curves) in zip(drawn_panels, panels.items(), strict=True):
        panel.set(title=panel_title, xlabel=axes[0], ylabel=axes[1], xscale="log" if log else "linear")
        points = sorted({x for curve in curves.values() for x in curve})
        if len(points) <= _MOST_TICKS:
            panel.set_xticks(points, [f"{point:g}" for point in points])
            panel.set_xticks([], minor=True)
        panel.margins(x=0.1)
        panel.grid(axis="y", color="#dddddd")
        panel.spines[["top", "right"]].set_visible(False)
        for position, (name, curve) in enumerate(curves.items()):
            handles[name] = _draw_line(panel, curve, styles[name])
            inches = _OFFSET * (position - (len(curves) - 1) / 2)
            offset = ScaledTranslation(inches, 0, figure.dpi_scale_trans)
            for artist in handles[name].get_children():
                artist.set_transform(artist.get_transform() + offset)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)
    lines = {
        panel: [_line(name, curve) for name, curve in curves.items()] for panel, curves in panels.items()
    }
    numbers = {"title": title, "x": axes[0], "y": axes[1], "panels": lines, **(more or {})}
    write_picture(file, numbers, figure)


def _line(name: str, curve: Curve) -> dict[str, Any]:
    """Return a line for JSON; a point of one seed has no standard deviation."""
    points = curve.values()
    return {
        "name": name,
        "x": list(curve),
        "mean": [point.mean for point in points],
        "standard_deviation": [point.deviation for point in points],
        "seeds": [len(point.values) for point in points],
    }


def draw_bars(
    file: Path, title: str, x: str, bars: Mapping[str, tuple[float, OverSeeds, str]], log: bool = False
) -> None:
    """Draw a bar for each system, with a point for each seed; nothing without any bar.

    Args:
        file: path without suffix, of the picture and its numbers.
        title: title of the picture.
        x: label of the x axis.
        bars: of each system, from top to bottom: length of the bar, a number of each seed, text behind it.
        log: whether the x axis is logarithmic.
    """
    if not bars:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 1.6 + 0.45 * len(bars)), layout="constrained")
    figure.suptitle(title)
    panel = figure.subplots()
    panel.set(xlabel=x)
    if log:
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
    entries = []
    for name, (value, numbers, label) in bars.items():
        deviation, seeds = numbers.deviation, list(numbers.values)
        error = float("nan") if deviation is None else deviation
        panel.barh(name, value, xerr=error, capsize=3, color=SYSTEM_STYLES[name]["color"])
        panel.plot(seeds, [name] * len(seeds), ".", color="black", markersize=4)
        end = max(*seeds, value + (deviation or 0))
        panel.annotate(label, (end, name), (6, 0), textcoords="offset points", va="center")
        entry = {"name": name, "value": value, "standard_deviation": deviation, "seeds": seeds}
        entries.append({**entry, "label": label})
    panel.invert_yaxis()
    panel.margins(x=0.3 if log else 0.1)
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    write_picture(file, {"title": title, "x": x, "bars": entries}, figure)


def write_picture(file: Path, numbers: Any, figure: Figure) -> None:
    """Write a figure as FILE.png and the numbers that it shows as FILE.json, each atomically."""
    write_whole(file.with_suffix(".json"), json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
    write_file(file.with_suffix(".png"), lambda new: figure.savefig(new, format="png", dpi=150))


def _draw_line(panel: Axes, curve: Curve, style: Style) -> Any:
    """Draw a line, with error bars where there are any."""
    deviations = [point.deviation for point in curve.values()]
    errors = [float("nan") if value is None else value for value in deviations]
    means = [point.mean for point in curve.values()]
    look: Style = {"capsize": 3, "markersize": 6, "linewidth": 1.5, "elinewidth": 1.0, **style}
    known = any(value is not None for value in deviations)
    return panel.errorbar(list(curve), means, yerr=errors if known else None, **look)
