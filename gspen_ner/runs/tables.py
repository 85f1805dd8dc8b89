"""Evaluations and results as tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from gspen_ner.ner.metrics import Assessment, Evaluation
from gspen_ner.runs.run import Results

BASE_NAMES = {"unary": "Unary", "struct": "CRF", "spen": "Unary", "gspen": "CRF"}
FULL_NAMES = {"spen": "SPEN", "gspen": "CRF + GSPEN"}


def system_names(system: str) -> list[str]:
    """Return the names of a system's base model and, if it has a global term, of the whole."""
    return [BASE_NAMES[system], *([FULL_NAMES[system]] if system in FULL_NAMES else [])]


def evaluation_table(evaluation: Evaluation, system: str, title: str) -> Table:
    """Return precision, recall and F1 of each type and of all, of the base model and of the whole."""
    table = _table(title, "type", "entities")
    systems = _systems(evaluation, system)
    for name, _ in systems:
        for column in ("P", "R", "F1"):
            table.add_column(f"{name}\n{column}", justify="right")
    types = sorted({type_ for _, assessment in systems for type_ in assessment.score.types})
    for type_ in [*types, None]:
        scores = [a.score.micro if type_ is None else a.score.types.get(type_) for _, a in systems]
        cells = [
            cell
            for s in scores
            for cell in ([f"{100 * value:.2f}" for value in (s.precision, s.recall, s.f1)] if s else [""] * 3)
        ]
        if type_ is None:
            table.add_section()
        support = next((str(s.support) for s in scores if s), "0")
        table.add_row(type_ or "all (micro)", support, *cells)
    return table


def evaluation_summary(evaluation: Evaluation, system: str) -> Iterator[str]:
    """Yield sentences about what the table does not show."""
    for name, assessment in _systems(evaluation, system):
        yield (
            f"{name}: {100 * assessment.exact_match:.2f} % of {evaluation.sentences} sentences without an "
            f"error; confidences are off by {100 * assessment.calibration.ece:.2f} % on average (ECE)"
        )
    if evaluation.changes is not None:
        changes = evaluation.changes
        yield (
            f"the global term fixed {changes.fixed} errors and made {changes.broken} new ones; "
            f"{changes.same} are the same (an error is a missed or an invented entity)"
        )


def results_table(results: Sequence[Results], title: str) -> Table:
    """Return F1 on dev and test; of several trials, the mean with its standard deviation."""
    table = _table(title, "system", "seed" if len(results) == 1 else "trials")
    for column in ("dev F1", "test F1", "s/epoch"):
        table.add_column(column, justify="right")
    for stage in ("base", "term"):
        rows = [row for result in results if (row := _row(result, stage)) is not None]
        if rows:
            which = str(rows[0].seed) if len(rows) == 1 else str(len(rows))
            columns = ([row.dev for row in rows], [row.test for row in rows])
            known = [row.seconds for row in rows if row.seconds is not None]
            seconds = f"{statistics.median(known):.1f}" if known else ""
            table.add_row(rows[0].name, which, *(_mean(column) for column in columns), seconds)
    return table


def trials_table(results: Sequence[Results], title: str) -> Table:
    """Return F1 of the base model and of the whole for every trial."""
    table = _table(title, "seed")
    for name in system_names(results[0].system):
        for column in ("dev F1", "test F1"):
            table.add_column(f"{name}\n{column}", justify="right")
    for result in results:
        rows = [row for stage in ("base", "term") if (row := _row(result, stage)) is not None]
        table.add_row(str(result.seed), *(_mean([value]) for row in rows for value in (row.dev, row.test)))
    return table


class _Row(NamedTuple):
    name: str
    seed: int
    dev: float | None
    test: float | None
    seconds: float | None


def _row(result: Results, stage: str) -> _Row | None:
    if stage == "term" and result.dev.full is None:
        return None
    names = BASE_NAMES if stage == "base" else FULL_NAMES
    dev, test = (_f1(evaluation, stage) for evaluation in (result.dev, result.test))
    return _Row(names[result.system], result.seed, dev, test, result.seconds_an_epoch.get(stage))


def _f1(evaluation: Evaluation | None, stage: str) -> float | None:
    if evaluation is None:
        return None
    assessment = evaluation.base if stage == "base" else evaluation.full
    return None if assessment is None else assessment.score.f1


def _mean(values: Sequence[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    spread = f" ± {statistics.stdev(known):.2f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.2f}{spread}" if known else ""


def _systems(evaluation: Evaluation, system: str) -> list[tuple[str, Assessment]]:
    systems = [(BASE_NAMES[system], evaluation.base)]
    if evaluation.full is not None:
        systems.append((FULL_NAMES[system], evaluation.full))
    return systems


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in ("entities", "seed") else "left")
    return table
