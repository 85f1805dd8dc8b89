"""The top of the page: F1 of the systems, what the global term gained, and what it changed."""

from __future__ import annotations

from html import escape

from gspen_ner.report.ner.charts import changes_bar
from gspen_ner.report.ner.statistics import Statistics
from gspen_ner.report.ner.tables import gain, interval, percent


def overview(statistics: Statistics) -> str:
    """Tiles with numbers, the bar of changes, and a sentence on the data."""
    tiles = [
        _tile(name, percent(score.f1), f"F1; 95 % interval {interval(intervals[None])}", f"s{place}")
        for place, (name, score, intervals) in enumerate(
            zip(statistics.names, statistics.scores(None), statistics.intervals.systems, strict=True)
        )
    ]
    if statistics.has_term:
        tiles.append(_gain(statistics))
    parts = [f'<dl class="tiles">{"".join(tiles)}</dl>']
    changes = statistics.evaluation.changes
    if changes is not None:
        legend = "".join(
            f'<li class="{kind}"><b>{count:,}</b> {words}</li>'
            for kind, count, words in (
                ("fixed", changes.fixed, "errors fixed"),
                ("same", changes.same, "the same as before"),
                ("broken", changes.broken, "new ones"),
            )
        )
        parts.append(f'<div class="changes">{changes_bar(changes)}<ul>{legend}</ul></div>')
    parts.append(f'<p class="quiet">{_counts(statistics)}</p>')
    return "\n".join(parts)


def _gain(statistics: Statistics) -> str:
    before, after = statistics.scores(None)
    found = statistics.intervals
    words = f"F1 points; 95 % interval {interval(found.difference[None], signed=True)}"
    if found.better is not None:
        words += f"; a gain in {100 * found.better:.0f} % of the draws"
    return _tile("Gain", gain(after.f1 - before.f1), words, "gain")


def _tile(name: str, value: str, words: str, class_: str) -> str:
    inside = f'<dd class="value">{value}</dd><dd class="quiet">{escape(words)}</dd>'
    return f'<div class="tile {class_}"><dt>{escape(name)}</dt>{inside}</div>'


def _counts(statistics: Statistics) -> str:
    documents = "" if statistics.documents is None else f", {_number(statistics.documents, 'document')}"
    entities = statistics.scores(None)[0].support
    exact = ", ".join(
        f"{name} {percent(assessment.exact_match)} %"
        for name, assessment in zip(statistics.names, statistics.assessments, strict=True)
    )
    return escape(
        f"{_number(statistics.evaluation.sentences, 'sentence')}{documents}, "
        f"{_number(statistics.tokens, 'token')}, {_number(entities, 'gold entity', 'gold entities')}. "
        f"Sentences without an error: {exact}. F1 is of whole entities (seqeval, strict), intervals are "
        f"from {statistics.intervals.draws:,} bootstrap draws of {statistics.intervals.unit}; an error is a "
        "missed or an invented entity."
    )


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
