"""Evaluations and results for the terminal: tables, and a document that the global term corrected."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import TERM_SYSTEMS, Assessment, Evaluation, compare_errors
from gspen_ner.ner.predictions import Prediction, SentenceTagger
from gspen_ner.runs.run import Results

BASE_NAMES = {"unary": "Unary", "struct": "CRF", "spen": "Unary", "gspen": "CRF"}
FULL_NAMES = {"spen": "SPEN", "gspen": "CRF + GSPEN"}
SHOWCASE_DOCUMENTS = 200
"""Number of documents in which `showcase` looks for a corrected one."""


@dataclass(frozen=True)
class OverSeeds:
    """Values of a measure, one for each seed.

    Example:
        >>> str(OverSeeds((58.0, 59.0, 60.0))), f"{OverSeeds((58.0,)):.2f}"
        ('59.0 ± 1.0', '58.00')
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        """Median over seeds."""
        return statistics.median(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self:.1f}"

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) + ("" if self.deviation is None else f" ± {self.deviation:{spec}}")


def system_names(system: str) -> list[str]:
    """Return the names of a system's base model and, if it has a global term, of the full model."""
    return [BASE_NAMES[system], *([FULL_NAMES[system]] if system in FULL_NAMES else [])]


def evaluation_table(evaluation: Evaluation, system: str, title: str) -> Table:
    """Return precision, recall and F1 by type and of all, for the base model and the full model."""
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
        before = assessment.uncalibrated
        yield (
            f"{name}: {100 * assessment.exact_match:.2f} % of {evaluation.sentences} sentences without an "
            f"error; confidences are off by {100 * assessment.calibration.ece:.2f} % on average (ECE"
            + (")" if before is None else f"; {100 * before.ece:.2f} % before calibration)")
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
    which = str(results[0].seed if len(results) == 1 else len(results))
    for name, stage in _stages(results):
        seconds = [r.seconds_an_epoch[stage] for r in results if stage in r.seconds_an_epoch]
        median = f"{statistics.median(seconds):.1f}" if seconds else ""
        table.add_row(name, which, *_mean_f1(results, stage), median)
    return table


def trials_table(results: Sequence[Results], title: str) -> Table:
    """Return F1 of the base model and of the full model for every trial."""
    table = _table(title, "seed")
    stages = _stages(results)
    for name, _ in stages:
        for column in ("dev F1", "test F1"):
            table.add_column(f"{name}\n{column}", justify="right")
    for result in results:
        table.add_row(str(result.seed), *(f1 for _, stage in stages for f1 in _mean_f1([result], stage)))
    return table


def _stages(results: Sequence[Results]) -> list[tuple[str, str]]:
    """Return the name of each system, and the stage of training that it comes from."""
    return list(zip(system_names(results[0].system), ("base", "term"), strict=False))


def _mean_f1(results: Sequence[Results], stage: str) -> Iterator[str]:
    """Yield the mean F1 on dev and on test of the models that a stage trained; empty without test data."""
    for evaluations in ([result.dev for result in results], [result.test for result in results]):
        present = [evaluation for evaluation in evaluations if evaluation is not None]
        assessments = [e.base if stage == "base" else e.full for e in present]
        values = tuple(100 * assessment.score.f1 for assessment in assessments if assessment is not None)
        yield f"{OverSeeds(values):.2f}" if values else ""


def showcase(tagger: SentenceTagger, sentences: Sequence[TaggedSentence]) -> Iterator[Text]:
    """Yield the document with most errors fixed and no error left, before and after, if there is one."""
    if tagger.system not in TERM_SYSTEMS:
        return
    by_document: dict[int, list[TaggedSentence]] = {}
    for sentence in sentences:
        by_document.setdefault(sentence.document, []).append(sentence)
    documents = list(by_document.values())[:SHOWCASE_DOCUMENTS]
    predictions = iter(tagger.tag_sentences([sentence for document in documents for sentence in document]))
    predicted = [[(sentence, next(predictions)) for sentence in document] for document in documents]
    corrected = max(predicted, key=_fixed)
    if _fixed(corrected) > 0:
        yield Text("\nA document that the global term corrected (✗ marks predictions of its base model):\n")
        for sentence, prediction in corrected:
            yield _line(sentence, prediction)


def _fixed(document: Sequence[tuple[TaggedSentence, Prediction]]) -> int:
    """Return the number of errors fixed; 0 if an error is left."""
    gold, before, after = zip(*((s.spans, p.base_spans, p.spans) for s, p in document), strict=True)
    changes = compare_errors(gold, before, after)
    return changes.fixed if not changes.broken and not changes.same else 0


def _line(sentence: TaggedSentence, prediction: Prediction) -> Text:
    """Return a sentence with its entities, and those of the base model where they differ."""
    after = {entity.span.start: entity for entity in prediction.entities}
    wrong = {span.start: span for span in prediction.base_spans if span not in prediction.spans}
    line = Text("  ")
    position = 0
    while position < len(sentence.tokens):
        entity = after.get(position)
        end = position + 1 if entity is None else entity.span.end
        line.append(" ".join(sentence.tokens[position:end]), style="" if entity is None else "bold")
        if position in wrong:
            line.append(f" ✗{wrong[position].type}", style="red")
        if entity is not None:
            style = "cyan" if entity.span in prediction.base_spans and position not in wrong else "green"
            line.append(f" {entity.span.type} {entity.probability:.2f}", style=style)
        line.append(" ")
        position = end
    return line


def _systems(evaluation: Evaluation, system: str) -> list[tuple[str, Assessment]]:
    return list(zip(system_names(system), evaluation.assessments, strict=True))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in ("entities", "seed") else "left")
    return table
