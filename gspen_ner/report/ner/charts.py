"""The page's charts. A series is of one system: class `s0` is the base model, `s1` the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gspen_ner.ner.metrics import Changes
from gspen_ner.report.ner.convergence import Convergence
from gspen_ner.report.ner.learning_curves import Curve
from gspen_ner.report.ner.statistics import Statistics
from gspen_ner.report.ner.svg import (
    Frame,
    Point,
    element,
    named,
    picture,
    polyline,
    round_ticks,
    text,
)

WIDTH = 360
_ROW = 42  # the height of a type's
_LONGEST_NAME = 15  # letters of a type
_SMALLEST_RESIDUAL = 1e-6  # smaller ones are drawn here


def f1_chart(statistics: Statistics) -> str:
    """F1 of each type and over all, with intervals: a row a type, a dot a system."""
    rows = scored_types(statistics)
    lows = [intervals[row].low for intervals in statistics.intervals.systems for row in rows]
    least = min((low for low in lows if low is not None), default=0)
    ticks = round_ticks(min(100 * least, 90), 100, 4)
    names = [_short("all" if row is None else row) for row in rows]
    left = 16 + max(map(_width, names))
    height = _ROW * len(rows)
    frame = Frame(left, 4, WIDTH - 46, height, (ticks[0], 100), (0, 1))
    parts = [frame.x_axis(named(tick for tick in ticks if tick <= 100), "F1, %", grid=True)]
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        middle = _ROW * (number + 0.5) + (0 if row is not None else 2)
        parts.append(text(name, left - 10, middle + 4, "end", "label" if row is not None else "label all"))
        for place, score in enumerate(statistics.scores(row)):
            y = middle + (14 * place - 7 if statistics.has_term else 0)
            interval = statistics.intervals.systems[place][row]
            if interval.low is not None and interval.high is not None:
                low, high = frame.x(100 * interval.low), frame.x(100 * interval.high)
                parts.append(element("line", x1=low, x2=high, y1=y, y2=y, class_=f"whisker s{place}"))
            dot = min(max(frame.x(100 * score.f1), frame.left), frame.right)
            parts.append(element("circle", cx=dot, cy=y, r=4, class_=f"dot s{place}"))
            parts.append(text(f"{100 * score.f1:.1f}", WIDTH - 4, y + 4, "end", f"value s{place}"))
    said = f"F1 of {len(rows) - 1} types and over all, with 95 % intervals; the table below has the numbers."
    return picture("F1 by type", said, WIDTH, height + 36, "".join(parts))


def scored_types(statistics: Statistics) -> list[str | None]:
    """Types that some system was scored on, in the page's order, then None for all."""
    scored = {kind for assessment in statistics.assessments for kind in assessment.score.types}
    return [*(kind for kind in statistics.types if kind in scored), None]


def reliability_chart(statistics: Statistics) -> str:
    """How often entities are right against how sure the systems are of them; dots grow with their number."""
    frame = Frame(40, 28, WIDTH - 12, 346, (0, 1), (0, 1))
    ticks = named(place / 5 for place in range(6))
    parts = [frame.y_axis(ticks, "share that is right"), frame.x_axis(ticks, "confidence")]
    parts.append(polyline(frame.at([(0, 0), (1, 1)]), "ideal"))
    x, y = frame.x(0.05) - 4, frame.y(0.05) - 4
    tilt = math.degrees(math.atan2(frame.y(1) - frame.y(0), frame.x(1) - frame.x(0)))
    parts.append(text("right as often as it says", x, y, transform=f"rotate({tilt:.1f} {x:.1f} {y:.1f})"))
    for place, assessment in enumerate(statistics.assessments):
        bins = assessment.calibration.bins
        most = max((size for _, _, size in bins), default=1)
        points = frame.at((confidence, accuracy) for confidence, accuracy, _ in bins)
        parts.append(polyline(points, f"line s{place}"))
        for (x, y), (_, accuracy, size) in zip(points, bins, strict=True):
            low, high = map(frame.y, share_interval(accuracy, size))
            parts.append(element("line", x1=x, x2=x, y1=low, y2=high, class_=f"whisker thin s{place}"))
            parts.append(
                element("circle", cx=x, cy=y, r=3 + 7 * math.sqrt(size / most), class_=f"bubble s{place}")
            )
    said = (
        "Share of right entities by confidence, in ten bins, with 95 % intervals; on the diagonal, "
        "confidences are true."
    )
    return picture("Reliability of confidences", said, WIDTH, 380, "".join(parts))


def share_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen in so many cases (Wilson's): wide where they are few.

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
    """F1 on dev by epoch, one stage beside the other; short ones get room too."""
    values = [100 * f1 for curve in curves for _, f1 in curve.f1]
    ticks = round_ticks(min(values), max(values), 4)
    whole = Frame(40, 28, WIDTH - 12, 188, (0, 1), (ticks[0], ticks[-1]))
    parts = [whole.y_axis(named(ticks), "F1 on dev, %")]
    lengths = [max(_length(curve.f1), 1) for curve in curves]
    rooms = [max(length, 0.4 * sum(lengths)) for length in lengths]
    left = whole.left
    for curve, length, room in zip(curves, lengths, rooms, strict=True):
        right = left + (whole.right - whole.left) * room / sum(rooms)
        frame = Frame(left, whole.top, right, whole.bottom, (0, length), whole.y_range)
        parts.append(frame.x_axis(named(_count_ticks(length, 4)), f"{_stage(curve.stage)}, epoch"))
        parts.append(_series(frame.at((epoch, 100 * f1) for epoch, f1 in curve.f1), _system(curve.stage)))
        if curve is not curves[0]:
            parts.append(element("line", x1=left, x2=left, y1=whole.top, y2=whole.bottom, class_="border"))
        left = right
    said = f"F1 on the development data after each epoch, from {min(values):.1f} to {max(values):.1f} %."
    return picture("Learning curve: F1 on dev", said, WIDTH, 224, "".join(parts))


def loss_curve(curve: Curve) -> str:
    """The training loss of a stage by epoch."""
    values = [loss for _, loss in curve.loss]
    ticks = round_ticks(min(0.0, *values), max(values), 3)
    length = max(_length(curve.loss), 1)
    frame = Frame(40, 28, WIDTH - 12, 114, (0, length), (ticks[0], ticks[-1]))
    points = frame.at(curve.loss)
    axes = frame.y_axis(named(ticks), "training loss") + frame.x_axis(
        named(_count_ticks(length, 6)), f"{_stage(curve.stage)}, epoch"
    )
    said = f"Training loss, {_stage(curve.stage)}: from {values[0]:.3g} to {values[-1]:.3g}."
    return picture("Training loss", said, WIDTH, 150, axes + _series(points, _system(curve.stage)))


def steps_chart(found: Convergence) -> str:
    """How many sentences took how many steps of inference."""
    most = max(found.steps)
    ticks = round_ticks(0, most, 3)
    count = len(found.steps)
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
        for step, size in enumerate(found.steps)
        if size
    ]
    every = max(1, math.ceil(count / 12))
    axes = frame.y_axis(named(ticks), "sentences") + frame.x_axis(
        named(range(0, count, every)), "steps that they took"
    )
    said = f"Sentences by steps of inference, from 0 to {count - 1}."
    return picture("Steps", said, WIDTH, 174, axes + "".join(bars))


def residuals_chart(found: Convergence) -> str:
    """The residual by step: its median, and where 80 % of the sentences are; logarithmic."""
    known = [(step, row) for step, row in enumerate(found.residuals) if row is not None]
    logs = [(step, [_log(value) for value in row]) for step, row in known]
    values = [value for _, row in logs for value in row]
    low, high = math.floor(min(values)), math.ceil(max(values))
    high = max(high, low + 1)
    last = max(len(found.residuals) - 1, 1)
    frame = Frame(48, 28, WIDTH - 12, 138, (0, last), (low, high))
    every = math.ceil((high - low) / 4)
    y_ticks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1, every)]
    band = [(step, row[0]) for step, row in logs] + [(step, row[2]) for step, row in reversed(logs)]
    area = " ".join(f"{x:.2f},{y:.2f}" for x, y in frame.at(band))
    parts = [
        frame.y_axis(y_ticks, "residual (logarithmic)"),
        frame.x_axis(named([0, *_count_ticks(last, 10)]), "after so many steps"),
    ]
    parts.append(element("polygon", points=area, class_="band s1"))
    parts.append(_series(frame.at((step, row[1]) for step, row in logs), 1))
    said = "Median residual of inference by step, and the range of the middle 80 % of the sentences."
    return picture("Residuals", said, WIDTH, 174, "".join(parts))


def changes_bar(changes: Changes) -> str:
    """Errors that the global term fixed, left, and made, as one bar."""
    parts, x = [], 0.0
    total = max(changes.fixed + changes.same + changes.broken, 1)
    for kind, count in (("fixed", changes.fixed), ("same", changes.same), ("broken", changes.broken)):
        width = 720 * count / total
        if width:
            parts.append(
                element("rect", x=x, y=0, width=max(width - 2, 0.5), height=16, class_=f"change {kind}")
            )
        x += width
    said = f"{changes.fixed} errors fixed, {changes.same} the same, {changes.broken} new."
    drawn = "".join(parts)
    return picture("What the global term changed", said, 720, 16, drawn, preserveAspectRatio="none")


def _series(points: Sequence[Point], system: int) -> str:
    dots = [element("circle", cx=x, cy=y, r=2.5, class_=f"dot s{system}") for x, y in points]
    return polyline(points, f"line s{system}") + ("".join(dots) if len(points) <= 40 else "")


def _length(points: Sequence[Point]) -> float:
    return math.ceil(max((epoch for epoch, _ in points), default=0))


def _count_ticks(length: float, about: int) -> list[float]:
    """Whole numbers up to a length, without zero."""
    step = max(1, round_ticks(0, length, about)[1])
    return [number for number in range(0, int(length) + 1) if number % step == 0 and number]


def _system(stage: str) -> int:
    return 1 if stage == "term" else 0


def _stage(stage: str) -> str:
    return {"base": "base model", "term": "global term"}.get(stage, stage)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _width(name: str) -> float:
    """About the width of a type's name; capitals are wider."""
    return sum(8.6 if letter.isupper() else 6.8 for letter in name)


def _log(value: float) -> float:
    return math.log10(max(value, _SMALLEST_RESIDUAL))
