"""The charts of the report; the style class of a series is `s0` for the base model, `s1` for the full one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gspen_ner.ner.metrics import Changes
from gspen_ner.report.statistics import Convergence, Curve, Statistics
from gspen_ner.report.svg import Frame, Point, element, labelled, picture, polyline, round_ticks, text

WIDTH = 360
_ROW_HEIGHT = 42
_LONGEST_NAME = 15  # maximum number of letters shown of a type
_SMALLEST_RESIDUAL = 1e-6  # smaller residuals are drawn at this value


def f1_chart(statistics: Statistics) -> str:
    """Return the F1 of each type and of all types, with intervals: one row per type, one dot per system."""
    rows = scored_types(statistics)
    lows = [intervals[row].low for intervals in statistics.intervals.systems for row in rows]
    lowest = min((low for low in lows if low is not None), default=0)
    ticks = round_ticks(min(100 * lowest, 90), 100, 4)
    names = [_short("all" if row is None else row) for row in rows]
    left = 16 + max(map(_width, names))
    height = _ROW_HEIGHT * len(rows)
    frame = Frame(left, 4, WIDTH - 46, height, (ticks[0], 100), (0, 1))
    parts = [frame.x_axis(labelled(tick for tick in ticks if tick <= 100), "F1, %", grid=True)]
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        middle = _ROW_HEIGHT * (number + 0.5) + (0 if row is not None else 2)
        parts.append(text(name, left - 10, middle + 4, "end", "label" if row is not None else "label all"))
        for system, score in enumerate(statistics.scores(row)):
            y = middle + (14 * system - 7 if statistics.has_term else 0)
            interval = statistics.intervals.systems[system][row]
            if interval.low is not None and interval.high is not None:
                low, high = frame.x(100 * interval.low), frame.x(100 * interval.high)
                parts.append(element("line", x1=low, x2=high, y1=y, y2=y, class_=f"whisker s{system}"))
            dot = min(max(frame.x(100 * score.f1), frame.left), frame.right)
            parts.append(element("circle", cx=dot, cy=y, r=4, class_=f"dot s{system}"))
            parts.append(text(f"{100 * score.f1:.1f}", WIDTH - 4, y + 4, "end", f"value s{system}"))
    description = f"F1 of {len(rows) - 1} types and of all, with 95 % intervals; numbers in the table below."
    return picture("F1 by type", description, WIDTH, height + 36, "".join(parts))


def scored_types(statistics: Statistics) -> list[str | None]:
    """Return the types that at least one system was scored on, in the page's order, then None for all."""
    scored = {name for assessment in statistics.assessments for name in assessment.score.types}
    return [*(name for name in statistics.types if name in scored), None]


def reliability_chart(statistics: Statistics) -> str:
    """Return the share of correct entities by confidence; larger dots stand for more entities."""
    frame = Frame(40, 28, WIDTH - 12, 346, (0, 1), (0, 1))
    ticks = labelled(number / 5 for number in range(6))
    parts = [frame.y_axis(ticks, "share of correct entities"), frame.x_axis(ticks, "confidence")]
    parts.append(polyline(frame.at([(0, 0), (1, 1)]), "ideal"))
    x, y = frame.x(0.05) - 4, frame.y(0.05) - 4
    tilt = math.degrees(math.atan2(frame.y(1) - frame.y(0), frame.x(1) - frame.x(0)))
    parts.append(text("perfect calibration", x, y, transform=f"rotate({tilt:.1f} {x:.1f} {y:.1f})"))
    for system, assessment in enumerate(statistics.assessments):
        bins = assessment.calibration.bins
        largest = max((size for _, _, size in bins), default=1)
        points = frame.at((confidence, accuracy) for confidence, accuracy, _ in bins)
        parts.append(polyline(points, f"line s{system}"))
        for (x, y), (_, accuracy, size) in zip(points, bins, strict=True):
            low, high = map(frame.y, share_interval(accuracy, size))
            radius = 3 + 7 * math.sqrt(size / largest)
            parts.append(element("line", x1=x, x2=x, y1=low, y2=high, class_=f"whisker thin s{system}"))
            parts.append(element("circle", cx=x, cy=y, r=radius, class_=f"bubble s{system}"))
    description = (
        "Share of correct entities by confidence, in ten bins, with 95 % intervals; on the diagonal, "
        "confidences equal the share of correct entities."
    )
    return picture("Reliability of confidences", description, WIDTH, 380, "".join(parts))


def share_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share observed in `count` cases.

    Example:
        >>> [round(end, 2) for end in share_interval(1.0, 2)]
        [0.34, 1.0]
    """
    z = 1.96
    centre = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low, high = ((centre + sign * spread) / (1 + z * z / count) for sign in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


def f1_curve(curves: Sequence[Curve]) -> str:
    """Return F1 on dev by epoch, the stages side by side; a short stage gets at least 40 % of the sum."""
    values = [100 * f1 for curve in curves for _, f1 in curve.f1]
    ticks = round_ticks(min(values), max(values), 4)
    whole = Frame(40, 28, WIDTH - 12, 188, (0, 1), (ticks[0], ticks[-1]))
    parts = [whole.y_axis(labelled(ticks), "F1 on dev, %")]
    lengths = [max(_length(curve.f1), 1) for curve in curves]
    widths = [max(length, 0.4 * sum(lengths)) for length in lengths]
    left = whole.left
    for curve, length, width in zip(curves, lengths, widths, strict=True):
        right = left + (whole.right - whole.left) * width / sum(widths)
        frame = Frame(left, whole.top, right, whole.bottom, (0, length), whole.y_range)
        parts.append(frame.x_axis(labelled(_whole_ticks(length, 4)), f"{_stage(curve.stage)}, epoch"))
        parts.append(_series(frame.at((epoch, 100 * f1) for epoch, f1 in curve.f1), _system(curve.stage)))
        if curve is not curves[0]:
            parts.append(element("line", x1=left, x2=left, y1=whole.top, y2=whole.bottom, class_="border"))
        left = right
    description = f"F1 on the development data after each epoch, {min(values):.1f} to {max(values):.1f} %."
    return picture("Learning curve: F1 on dev", description, WIDTH, 224, "".join(parts))


def loss_curve(curve: Curve) -> str:
    """Return the training loss of a stage by epoch."""
    values = [loss for _, loss in curve.loss]
    ticks = round_ticks(min(0.0, *values), max(values), 3)
    length = max(_length(curve.loss), 1)
    frame = Frame(40, 28, WIDTH - 12, 114, (0, length), (ticks[0], ticks[-1]))
    points = frame.at(curve.loss)
    axes = frame.y_axis(labelled(ticks), "training loss") + frame.x_axis(
        labelled(_whole_ticks(length, 6)), f"{_stage(curve.stage)}, epoch"
    )
    description = f"Training loss, {_stage(curve.stage)}: from {values[0]:.3g} to {values[-1]:.3g}."
    return picture("Training loss", description, WIDTH, 150, axes + _series(points, _system(curve.stage)))


def steps_chart(convergence: Convergence) -> str:
    """Return the number of sentences by the number of inference steps."""
    ticks = round_ticks(0, max(convergence.steps), 3)
    count = len(convergence.steps)
    frame = Frame(48, 28, WIDTH - 12, 138, (-0.5, count - 0.5), (0, ticks[-1]))
    bars = [
        element(
            "rect",
            element("title", f"steps: {step}, sentences: {size}"),
            x=frame.x(step - 0.38),
            y=frame.y(size),
            width=frame.x(0.38) - frame.x(-0.38),
            height=frame.bottom - frame.y(size),
            class_="bar s1",
        )
        for step, size in enumerate(convergence.steps)
        if size
    ]
    every = max(1, math.ceil(count / 12))
    axes = frame.y_axis(labelled(ticks), "sentences") + frame.x_axis(
        labelled(range(0, count, every)), "inference steps"
    )
    description = f"Sentences by steps of inference, from 0 to {count - 1}."
    return picture("Steps", description, WIDTH, 174, axes + "".join(bars))


def residuals_chart(convergence: Convergence) -> str:
    """Return the residual after each step: the median, and the middle 80 % of the sentences; logarithmic."""
    rows = enumerate(convergence.residuals)
    logs = [(step, [_log(value) for value in row]) for step, row in rows if row is not None]
    values = [value for _, row in logs for value in row]
    low, high = math.floor(min(values)), math.ceil(max(values))
    high = max(high, low + 1)
    last = max(len(convergence.residuals) - 1, 1)
    frame = Frame(48, 28, WIDTH - 12, 138, (0, last), (low, high))
    every = math.ceil((high - low) / 4)
    y_ticks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1, every)]
    band = [(step, row[0]) for step, row in logs] + [(step, row[2]) for step, row in reversed(logs)]
    area = " ".join(f"{x:.2f},{y:.2f}" for x, y in frame.at(band))
    parts = [
        frame.y_axis(y_ticks, "residual (logarithmic)"),
        frame.x_axis(labelled([0, *_whole_ticks(last, 10)]), "inference steps"),
    ]
    parts.append(element("polygon", points=area, class_="band s1"))
    parts.append(_series(frame.at((step, row[1]) for step, row in logs), 1))
    description = "Median residual of inference by step, and the range of the middle 80 % of the sentences."
    return picture("Residuals", description, WIDTH, 174, "".join(parts))


def changes_bar(changes: Changes) -> str:
    """Return one bar of the errors that the global term fixed, did not change, and made."""
    parts, x = [], 0.0
    total = max(changes.fixed + changes.same + changes.broken, 1)
    for name, count in (("fixed", changes.fixed), ("same", changes.same), ("broken", changes.broken)):
        width = 720 * count / total
        if width:
            parts.append(
                element("rect", x=x, y=0, width=max(width - 2, 0.5), height=16, class_=f"change {name}")
            )
        x += width
    title = "What the global term changed"
    description = f"{changes.fixed} errors fixed, {changes.same} the same, {changes.broken} new."
    return picture(title, description, 720, 16, "".join(parts), preserveAspectRatio="none")


def _series(points: Sequence[Point], system: int) -> str:
    dots = [element("circle", cx=x, cy=y, r=2.5, class_=f"dot s{system}") for x, y in points]
    return polyline(points, f"line s{system}") + ("".join(dots) if len(points) <= 40 else "")


def _length(points: Sequence[Point]) -> float:
    return math.ceil(max((epoch for epoch, _ in points), default=0))


def _whole_ticks(length: float, about: int) -> list[float]:
    """Return about `about` whole numbers up to a length, without zero."""
    step = max(1, round_ticks(0, length, about)[1])
    return [number for number in range(0, int(length) + 1) if number % step == 0 and number]


def _system(stage: str) -> int:
    return 1 if stage == "term" else 0


def _stage(stage: str) -> str:
    return {"base": "base model", "term": "global term"}.get(stage, stage)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _width(name: str) -> float:
    """Return the approximate width of a type's name; capitals are wider."""
    return sum(8.6 if letter.isupper() else 6.8 for letter in name)


def _log(value: float) -> float:
    return math.log10(max(value, _SMALLEST_RESIDUAL))
