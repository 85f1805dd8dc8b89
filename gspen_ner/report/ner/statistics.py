"""Everything that the page's charts and tables show, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.confusion import Confusion, confusion
from gspen_ner.ner.files import TaggedFile
from gspen_ner.ner.intervals import Intervals, f1_intervals
from gspen_ner.ner.metrics import Assessment, Evaluation, Score, evaluate_predictions
from gspen_ner.ner.predictions import Prediction
from gspen_ner.report.ner.convergence import Convergence, convergence
from gspen_ner.report.ner.learning_curves import Curve
from gspen_ner.runs.tables import system_names


@dataclass(frozen=True)
class Statistics:
    """A tagger's predictions of a dataset, measured.

    Args:
        names: of the systems: the base model and, if there is a global term, the whole.
        types: of entities: the tagger's, then those that only the data have.
        documents: how many there are; None if the data do not tell.
        tokens: how many.
        evaluation: scores, calibration, and what the term changed.
        intervals: of F1.
        confusions: of each system.
        convergence: of inference; None without a global term.
        curves: of training; empty if they are not known.
    """

    names: list[str]
    types: tuple[str, ...]
    documents: int | None
    tokens: int
    evaluation: Evaluation
    intervals: Intervals
    confusions: list[Confusion]
    convergence: Convergence | None
    curves: list[Curve]

    @property
    def assessments(self) -> list[Assessment]:
        """One for each name."""
        full = self.evaluation.full
        return [self.evaluation.base] if full is None else [self.evaluation.base, full]

    def scores(self, kind: str | None) -> list[Score]:
        """Of a type, or None for all, by each system."""
        found = [assessment.score for assessment in self.assessments]
        nothing = Score(0.0, 0.0, 0.0, 0)  # neither gold nor predicted
        return [score.micro if kind is None else score.types.get(kind, nothing) for score in found]

    @property
    def has_term(self) -> bool:
        """Whether there are two systems to compare."""
        return self.evaluation.full is not None


def measure(
    file: TaggedFile,
    predictions: Sequence[Prediction],
    types: Sequence[str],
    system: str,
    curves: list[Curve],
) -> Statistics:
    """Measure predictions of a file's sentences.

    Args:
        file: with gold tags.
        predictions: of its sentences.
        types: that the tagger knows.
        system: the tagger's.
        curves: of its training.
    """
    sentences = file.sentences
    gold = [spans_of_tags(sentence.tags, "BIO") for sentence in sentences]
    names = system_names(system)
    base = [[entity.span for entity in prediction.base_entities] for prediction in predictions]
    full = [[entity.span for entity in prediction.entities] for prediction in predictions]
    systems = [base, full][: len(names)]
    documents = [sentence.document for sentence in sentences] if file.has_documents else None
    every = _all_types(types, gold)
    return Statistics(
        names,
        every,
        None if documents is None else len(set(documents)),
        sum(len(sentence.tokens) for sentence in sentences),
        evaluate_predictions(sentences, predictions, len(names) > 1),
        f1_intervals(gold, systems, documents),
        [confusion(gold, rows, every) for rows in systems],
        convergence(predictions),
        curves,
    )


def _all_types(types: Sequence[str], gold: Sequence[Sequence[Span]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*types, *sorted({span.type for row in gold for span in row})]))
