"""The tables of the report: the numbers behind its charts, and the confusion of entity types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from gspen_ner.ner.confusion import Confusion
from gspen_ner.ner.intervals import Interval
from gspen_ner.report.charts import scored_types
from gspen_ner.report.statistics import Convergence, Curve, Statistics

SHADES = 8  # classes heat-1 ... heat-8 of the style sheet
_MANY = 8  # number of types from which on their names are written vertically


def scores_table(statistics: Statistics) -> str:
    """Return precision, recall and F1 with its interval: one block per type, one row per system."""
    head = ["type", "entities", "system", "P", "R", "F1", "95 %"]
    head += ["gain", "95 %"] if statistics.has_term else []
    rows = "".join(_scores(statistics, entity_type) for entity_type in scored_types(statistics))
    return f'<table class="scores">{_head(head)}<tbody>{rows}</tbody></table>'


def _scores(statistics: Statistics, entity_type: str | None) -> str:
    """Return the rows of one type, or of all types for None."""
    scores = statistics.scores(entity_type)
    span = f'rowspan="{len(scores)}"'
    first = f'<th scope="row" {span}>{escape(entity_type or "all")}</th><td {span}>{scores[0].support}</td>'
    last = ""
    if statistics.has_term:
        difference = interval(statistics.intervals.difference[entity_type], signed=True)
        last = f"<td {span}>{gain(scores[1].f1 - scores[0].f1)}</td><td {span}>{difference}</td>"
    rows = []
    for system, (name, score) in enumerate(zip(statistics.names, scores, strict=True)):
        cells = [percent(value) for value in (score.precision, score.recall, score.f1)]
        cells.append(interval(statistics.intervals.systems[system][entity_type]))
        values = "".join(f"<td>{cell}</td>" for cell in cells)
        row = f'<td class="system s{system}">{escape(name)}</td>{values}'
        rows.append(f"<tr>{first}{row}{last}</tr>")
        first = last = ""
    return "".join(rows)


def calibration_table(statistics: Statistics) -> str:
    """Return mean confidence, share of correct entities and their number, by system and bin."""
    rows = [
        [name, f"{confidence:.3f}", f"{accuracy:.3f}", str(size)]
        for name, assessment in zip(statistics.names, statistics.assessments, strict=True)
        for confidence, accuracy, size in assessment.calibration.bins
    ]
    return table(["system", "confidence", "correct", "entities"], rows)


def related_table(statistics: Statistics) -> str:
    """Return the shares of tokens and of gold entities that each relation of a document term relates."""
    entities, tokens = max(statistics.scores(None)[0].support, 1), max(statistics.tokens, 1)
    rows = [
        [name.replace("_", " "), f"{counts.tokens / tokens:.0%}", f"{counts.entities / entities:.0%}"]
        for name, counts in statistics.related.items()
    ]
    return table(["relation", "tokens", "entities"], rows)


def curves_table(curves: Sequence[Curve]) -> str:
    """Return F1 on dev and training loss by stage and epoch."""
    rows = []
    for curve in curves:
        losses = dict(curve.loss)
        for epoch, f1 in curve.f1:
            loss = losses.get(epoch)
            rows.append([curve.stage, f"{epoch:g}", percent(f1), "" if loss is None else f"{loss:.4g}"])
    return table(["stage", "epoch", "dev F1", "loss"], rows)


def convergence_table(convergence: Convergence) -> str:
    """Return the number of sentences by steps of inference, and quantiles of the residual after them."""
    rows = [
        [str(step), str(size), *(f"{value:.2g}" for value in convergence.residuals[step] or ())]
        for step, size in enumerate(convergence.steps)
    ]
    return table(["steps", "sentences", "residual: 10 %", "median", "90 %"], rows)


def confusion_table(confusion: Confusion, name: str) -> str:
    """Return the confusion of types: rows are gold types, columns predicted types.

    Shades show the share of the row; in the last row, which counts predicted entities without a gold entity,
    they show the share of the column.
    """
    types = [number for number in range(len(confusion.types)) if _occurs(confusion, number)]
    head = ["gold", *(confusion.types[number] for number in types), "boundary", "missed"]
    rows = []
    for gold in types:
        counts = [confusion.taken_for[gold][predicted] for predicted in types]
        counts += [confusion.boundaries[gold], confusion.missed[gold]]
        cells = [
            _count(count, sum(counts), "right" if predicted == gold else "")
            for count, predicted in zip(counts, [*types, None, None], strict=True)
        ]
        rows.append(f'<tr><th scope="row">{escape(confusion.types[gold])}</th>{"".join(cells)}</tr>')
    cells = [_count(confusion.invented[number], _predicted(confusion, number), "") for number in types]
    rows.append(f'<tr><th scope="row">no entity</th>{"".join(cells)}<td></td><td></td></tr>')
    content = f"<caption>{escape(name)}</caption>{_head(head)}<tbody>{''.join(rows)}</tbody>"
    return f'<table class="confusion{" many" if len(types) >= _MANY else ""}">{content}</table>'


def _predicted(confusion: Confusion, number: int) -> int:
    """Return how often a type is predicted."""
    matched = sum(row[number] for row in confusion.taken_for)
    return matched + confusion.boundaries[number] + confusion.invented[number]


def _occurs(confusion: Confusion, number: int) -> bool:
    """Return whether a type occurs in the gold or the predicted entities."""
    gold = sum(confusion.taken_for[number]) + confusion.boundaries[number] + confusion.missed[number]
    return bool(gold or _predicted(confusion, number))


def _count(count: int, total: int, class_: str) -> str:
    shade = math.ceil(SHADES * math.sqrt(count / total)) if count else 0  # the root makes rare errors visible
    return f'<td class="{class_} heat-{shade}">{count or "·"}</td>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of text, whose first column names the rows."""
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return f"<table>{_head(head)}<tbody>{''.join(body)}</tbody></table>"


def _head(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.2f}"


def gain(value: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.2f}".replace("-", "\N{MINUS SIGN}")


def interval(ends: Interval, signed: bool = False) -> str:
    """Return both ends of an interval in per cent or, if `signed`, in points; empty if undefined."""
    if ends.low is None or ends.high is None:
        return ""
    if signed:
        return f"{gain(ends.low)} to {gain(ends.high)}"
    return f"{percent(ends.low)}\N{EN DASH}{percent(ends.high)}"
