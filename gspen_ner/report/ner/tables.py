"""The page's tables: what its charts show in numbers, and the confusion of types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from gspen_ner.ner.confusion import Confusion
from gspen_ner.ner.intervals import Interval
from gspen_ner.report.ner.charts import scored_types
from gspen_ner.report.ner.convergence import Convergence
from gspen_ner.report.ner.learning_curves import Curve
from gspen_ner.report.ner.statistics import Statistics

SHADES = 8  # classes heat-1 ... heat-8 of the style sheet
_MANY = 8  # types, whose names then stand upright


def scores_table(statistics: Statistics) -> str:
    """Precision, recall and F1 with its interval: types one below the other, and in each the systems."""
    head = ["type", "entities", "system", "P", "R", "F1", "95 %"]
    head += ["gain", "95 %"] if statistics.has_term else []
    rows = "".join(_scores(statistics, kind) for kind in scored_types(statistics))
    return f'<table class="scores">{_head(head)}<tbody>{rows}</tbody></table>'


def _scores(statistics: Statistics, kind: str | None) -> str:
    scores = statistics.scores(kind)
    span = f'rowspan="{len(scores)}"'
    first = f'<th scope="row" {span}>{escape(kind or "all")}</th><td {span}>{scores[0].support}</td>'
    last = ""
    if statistics.has_term:
        sure = interval(statistics.intervals.difference[kind], signed=True)
        last = f"<td {span}>{gain(scores[1].f1 - scores[0].f1)}</td><td {span}>{sure}</td>"
    rows = []
    for place, (name, score) in enumerate(zip(statistics.names, scores, strict=True)):
        cells = [percent(value) for value in (score.precision, score.recall, score.f1)]
        cells.append(interval(statistics.intervals.systems[place][kind]))
        values = "".join(f"<td>{cell}</td>" for cell in cells)
        system = f'<td class="system s{place}">{escape(name)}</td>{values}'
        rows.append(f"<tr>{first}{system}{last}</tr>")
        first = last = ""
    return "".join(rows)


def calibration_table(statistics: Statistics) -> str:
    """Mean confidence, share of right entities, and their number, by bin and system."""
    rows = [
        [name, f"{confidence:.3f}", f"{accuracy:.3f}", str(size)]
        for name, assessment in zip(statistics.names, statistics.assessments, strict=True)
        for confidence, accuracy, size in assessment.calibration.bins
    ]
    return table(["system", "confidence", "right", "entities"], rows)


def curves_table(curves: Sequence[Curve]) -> str:
    """F1 on dev and training loss by epoch."""
    rows = []
    for curve in curves:
        losses = dict(curve.loss)
        for epoch, f1 in curve.f1:
            loss = losses.get(epoch)
            rows.append([curve.stage, f"{epoch:g}", percent(f1), "" if loss is None else f"{loss:.4g}"])
    return table(["stage", "epoch", "dev F1", "loss"], rows)


def convergence_table(found: Convergence) -> str:
    """Sentences that took so many steps, and quantiles of the residual after them."""
    rows = [
        [str(step), str(size), *(f"{value:.2g}" for value in found.residuals[step] or ())]
        for step, size in enumerate(found.steps)
    ]
    return table(["steps", "sentences", "residual: 10 %", "median", "90 %"], rows)


def confusion_table(found: Confusion, name: str) -> str:
    """Rows are gold types, columns what they were taken for; shades grow with the share of the row.

    In the last row, of entities that are none, they grow with the share of the column, so that a single one
    is faint.
    """
    types = [place for place, kind in enumerate(found.types) if _occurs(found, place)]
    head = ["gold", *(found.types[place] for place in types), "boundary", "missed"]
    rows = []
    for place in types:
        row = found.taken_for[place]
        counts = [row[other] for other in types] + [found.boundaries[place], found.missed[place]]
        total = sum(counts)
        cells = [
            _count(count, total, "right" if other == place else "")
            for count, other in zip(counts, [*types, None, None], strict=True)
        ]
        rows.append(f'<tr><th scope="row">{escape(found.types[place])}</th>{"".join(cells)}</tr>')
    cells = [_count(found.invented[place], _said(found, place), "") for place in types]
    rows.append(f'<tr><th scope="row">nothing</th>{"".join(cells)}<td></td><td></td></tr>')
    inside = f"<caption>{escape(name)}</caption>{_head(head)}<tbody>{''.join(rows)}</tbody>"
    return f'<table class="confusion{" many" if len(types) >= _MANY else ""}">{inside}</table>'


def _said(found: Confusion, place: int) -> int:
    """How often the system says a type."""
    return sum(row[place] for row in found.taken_for) + found.boundaries[place] + found.invented[place]


def _occurs(found: Confusion, place: int) -> bool:
    row = [*found.taken_for[place], found.boundaries[place], found.missed[place], found.invented[place]]
    return any(row) or any(other[place] for other in found.taken_for)


def _count(count: int, total: int, class_: str) -> str:
    shade = math.ceil(SHADES * math.sqrt(count / total)) if count else 0  # so that rare errors show too
    return f'<td class="{class_} heat-{shade}">{count or "·"}</td>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text, whose first column names the rows."""
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return f"<table>{_head(head)}<tbody>{''.join(body)}</tbody></table>"


def _head(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def percent(value: float) -> str:
    """A share as per cent."""
    return f"{100 * value:.2f}"


def gain(value: float) -> str:
    """A difference of shares as points, with its sign."""
    return f"{100 * value:+.2f}".replace("-", "\N{MINUS SIGN}")


def interval(found: Interval, signed: bool = False) -> str:
    """Both ends of an interval."""
    if found.low is None or found.high is None:
        return ""
    if signed:
        return f"{gain(found.low)} to {gain(found.high)}"
    return f"{percent(found.low)}\N{EN DASH}{percent(found.high)}"
