"""The page's figures: each a chart with a word of explanation, and its numbers as a table."""

from __future__ import annotations

from html import escape

from gspen_ner.report.ner import charts, tables
from gspen_ner.report.ner.convergence import Convergence
from gspen_ner.report.ner.learning_curves import Curve
from gspen_ner.report.ner.statistics import Statistics


def figures(statistics: Statistics) -> str:
    """All figures that there is something to show in."""
    legend = _legend(statistics)
    shown = [
        _figure(
            "F1 by type",
            f"Dots are F1, lines 95 % intervals over {statistics.intervals.unit}.",
            f'{legend}<div class="pair uneven">{charts.f1_chart(statistics)}'
            f"{_scrolled('Scores', tables.scores_table(statistics))}</div>",
            class_="wide",
        ),
        _figure(
            "Are confidences true?",
            "Of entities with a confidence of 0.8, eight in ten should be right: on the dashed line. Larger "
            f"dots stand for more entities, lines up and down are 95 % intervals. {_calibration(statistics)}",
            legend + charts.reliability_chart(statistics),
            tables.calibration_table(statistics),
        ),
    ]
    curves = [curve for curve in statistics.curves if curve.f1]
    if curves:
        shown.append(_learning(curves))
    if statistics.convergence is not None:
        shown.append(_inference(statistics.convergence))
    shown.append(_confusions(statistics))
    return "\n".join(shown)


def _calibration(statistics: Statistics) -> str:
    return (
        "Confidences are off by, on average (ECE): "
        + ", ".join(
            f"{name} {tables.percent(assessment.calibration.ece)} %"
            for name, assessment in zip(statistics.names, statistics.assessments, strict=True)
        )
        + "."
    )


def _learning(curves: list[Curve]) -> str:
    losses = [charts.loss_curve(curve) for curve in curves if curve.loss]
    return _figure(
        "Learning curves",
        "F1 on the development data after each epoch of training, and the loss that was minimised.",
        charts.f1_curve(curves) + "".join(losses),
        tables.curves_table(curves),
    )


def _inference(found: Convergence) -> str:
    drawn = charts.steps_chart(found)
    if any(row is not None for row in found.residuals):
        drawn += charts.residuals_chart(found)
    return _figure(
        "Convergence of inference",
        f"{100 * found.converged:.1f} % of the sentences converged. Above, how many steps they took; "
        "below, the residual: how far a sentence is from settled labels. The line is the median, the band "
        "holds 80 % of the sentences.",
        drawn,
        tables.convergence_table(found),
    )


def _confusions(statistics: Statistics) -> str:
    drawn = [
        _scrolled(f"Confusions of {name}", tables.confusion_table(found, name))
        for found, name in zip(statistics.confusions, statistics.names, strict=True)
    ]
    return _figure(
        "What is taken for what",
        "Rows are gold types, columns what the system says; stronger shades are larger shares of a row. "
        "“Boundary”: the right type, but not exactly its words. The last row: entities where there are none, "
        "shaded by their share of the column.",
        f'<div class="pair">{"".join(drawn)}</div>',
        class_="wide",
    )


def _legend(statistics: Statistics) -> str:
    names = "".join(
        f'<li class="s{place}">{escape(name)}</li>' for place, name in enumerate(statistics.names)
    )
    return f'<ul class="legend">{names}</ul>'


def _scrolled(name: str, table: str) -> str:
    """A table that is scrolled by itself where it is too wide, with the keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{table}</div>'


def _figure(title: str, words: str, drawn: str, numbers: str = "", class_: str = "") -> str:
    more = ""
    if numbers:
        more = f"<details><summary>As a table</summary>{_scrolled(title, numbers)}</details>"
    head = f"<figcaption><h3>{escape(title)}</h3><p>{escape(words)}</p></figcaption>"
    return f'<figure class="{class_}">{head}{drawn}{more}</figure>'
