"""The sections of the report above the sentences: an overview, and figures with their numbers as tables."""

from __future__ import annotations

from html import escape

from gspen_ner.report import charts, tables
from gspen_ner.report.statistics import Convergence, Curve, Statistics


def overview(statistics: Statistics) -> str:
    """Return tiles with F1 and gain, a bar of the changed errors, and a sentence on the data."""
    rows = zip(statistics.names, statistics.scores(None), statistics.intervals.systems, strict=True)
    tiles = []
    for number, (name, score, intervals) in enumerate(rows):
        words = f"F1; 95 % interval {tables.interval(intervals[None])}"
        tiles.append(_tile(name, tables.percent(score.f1), words, f"s{number}"))
    if statistics.has_term:
        tiles.append(_gain(statistics))
    parts = [f'<dl class="tiles">{"".join(tiles)}</dl>']
    changes = statistics.evaluation.changes
    if changes is not None:
        legend = "".join(
            f'<li class="{class_}"><b>{count:,}</b> {words}</li>'
            for class_, count, words in (
                ("fixed", changes.fixed, "errors fixed"),
                ("same", changes.same, "unchanged errors"),
                ("broken", changes.broken, "new errors"),
            )
        )
        parts.append(f'<div class="changes">{charts.changes_bar(changes)}<ul>{legend}</ul></div>')
    parts.append(f'<p class="quiet">{_counts(statistics)}</p>')
    return "\n".join(parts)


def _gain(statistics: Statistics) -> str:
    before, after = statistics.scores(None)
    intervals = statistics.intervals
    words = f"F1 points; 95 % interval {tables.interval(intervals.difference[None], signed=True)}"
    if intervals.better is not None:
        words += f"; a gain in {100 * intervals.better:.0f} % of the draws"
    return _tile("Gain", tables.gain(after.f1 - before.f1), words, "gain")


def _tile(name: str, value: str, words: str, class_: str) -> str:
    content = f'<dd class="value">{value}</dd><dd class="quiet">{escape(words)}</dd>'
    return f'<div class="tile {class_}"><dt>{escape(name)}</dt>{content}</div>'


def _counts(statistics: Statistics) -> str:
    counts = [_number(statistics.evaluation.sentences, "sentence")]
    if statistics.documents is not None:
        counts.append(_number(statistics.documents, "document"))
    counts.append(_number(statistics.tokens, "token"))
    counts.append(_number(statistics.scores(None)[0].support, "gold entity", "gold entities"))
    exact = _by_system(statistics, [assessment.exact_match for assessment in statistics.assessments])
    return escape(
        f"{', '.join(counts)}. Sentences without an error: {exact}. F1 is that of whole entities (seqeval, "
        f"strict), intervals are from {statistics.intervals.draws:,} bootstrap draws of "
        f"{statistics.intervals.unit}; an error is a missed or an invented entity."
    )


def _by_system(statistics: Statistics, shares: list[float]) -> str:
    """Return a share of each system in words."""
    pairs = zip(statistics.names, shares, strict=True)
    return ", ".join(f"{name} {tables.percent(share)} %" for name, share in pairs)


def _number(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def figures(statistics: Statistics) -> str:
    """Return the figures for which there are data."""
    legend = _legend(statistics)
    errors = _by_system(statistics, [a.calibration.ece for a in statistics.assessments])
    before = [a.uncalibrated.ece for a in statistics.assessments if a.uncalibrated is not None]
    if before:
        errors += f"; of the exact probabilities, before calibration: {_by_system(statistics, before)}"
    parts = [
        _figure(
            "F1 by type",
            f"Dots are F1, lines 95 % intervals over {statistics.intervals.unit}.",
            f'{legend}<div class="pair uneven">{charts.f1_chart(statistics)}'
            f"{_scrolled('Scores', tables.scores_table(statistics))}</div>",
            class_="wide",
        ),
        _figure(
            "Calibration of confidences",
            "Of entities with a confidence of 0.8, 80 % should be correct: on the dashed line. Larger dots "
            "stand for more entities, vertical lines are 95 % intervals. Expected calibration error (ECE): "
            f"{errors}.",
            legend + charts.reliability_chart(statistics),
            tables.calibration_table(statistics),
        ),
    ]
    curves = [curve for curve in statistics.curves if curve.f1]
    if curves:
        parts.append(_learning(curves))
    if statistics.convergence is not None:
        parts.append(_inference(statistics.convergence))
    if statistics.has_term and statistics.related:
        parts.append(_related(statistics))
    parts.append(_confusions(statistics))
    return "\n".join(parts)


def _learning(curves: list[Curve]) -> str:
    losses = [charts.loss_curve(curve) for curve in curves if curve.loss]
    return _figure(
        "Learning curves",
        "F1 on the development data after each epoch of training, and the training loss.",
        charts.f1_curve(curves) + "".join(losses),
        tables.curves_table(curves),
    )


def _inference(convergence: Convergence) -> str:
    drawn = charts.steps_chart(convergence)
    if any(row is not None for row in convergence.residuals):
        drawn += charts.residuals_chart(convergence)
    return _figure(
        "Convergence of inference",
        f"{100 * convergence.converged:.1f} % of the sentences converged. Above: the number of steps. Below: "
        "the residual, the distance from a solution; the line is the median, the band contains 80 % of the "
        "sentences.",
        drawn,
        tables.convergence_table(convergence),
    )


def _related(statistics: Statistics) -> str:
    return _figure(
        "Related tokens",
        "A document term favours equal labels for tokens of a document with the same word, position or "
        "shape. Shares of tokens, and of gold entities, that are related to others in this way.",
        _scrolled("Shares of related tokens", tables.related_table(statistics)),
    )


def _confusions(statistics: Statistics) -> str:
    drawn = [
        _scrolled(f"Confusions of {name}", tables.confusion_table(confusion, name))
        for confusion, name in zip(statistics.confusions, statistics.names, strict=True)
    ]
    return _figure(
        "Confusion of entity types",
        "Rows are gold types, columns predicted types; stronger shades are larger shares of a row. "
        "“Boundary”: the right type, but not exactly the same words. The last row counts predicted entities "
        "where there is no gold entity; its shades are shares of the column.",
        f'<div class="pair">{"".join(drawn)}</div>',
        class_="wide",
    )


def _legend(statistics: Statistics) -> str:
    names = "".join(f'<li class="s{n}">{escape(name)}</li>' for n, name in enumerate(statistics.names))
    return f'<ul class="legend">{names}</ul>'


def _scrolled(name: str, table: str) -> str:
    """Return a region in which a wide table can be scrolled, also with the keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{table}</div>'


def _figure(title: str, words: str, drawn: str, numbers: str = "", class_: str = "") -> str:
    """Return a figure: title, explanation, charts and, to unfold, the numbers as a table."""
    more = ""
    if numbers:
        more = f"<details><summary>As a table</summary>{_scrolled(title, numbers)}</details>"
    head = f"<figcaption><h3>{escape(title)}</h3><p>{escape(words)}</p></figcaption>"
    return f'<figure class="{class_}">{head}{drawn}{more}</figure>'
