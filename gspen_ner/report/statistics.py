"""The statistics of a report: everything that its charts and tables show."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gspen_ner.ner.confusion import Confusion, confusion
from gspen_ner.ner.files import TaggedFile
from gspen_ner.ner.intervals import Intervals, f1_intervals
from gspen_ner.ner.metrics import Assessment, Evaluation, Score, evaluate_predictions
from gspen_ner.ner.predictions import Prediction
from gspen_ner.ner.statistics import Related, related_tokens
from gspen_ner.runs.tables import system_names

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class Curve:
    """Learning curves of one stage of training.

    Args:
        stage: `"base"` or `"term"`.
        f1: epochs and F1 on the development data.
        loss: epochs and training loss; empty if the trainer does not write it.
    """

    stage: str
    f1: list[tuple[float, float]]
    loss: list[tuple[float, float]]


@dataclass(frozen=True)
class Convergence:
    """Convergence of inference over all sentences.

    Args:
        converged: share of sentences whose residual fell below the tolerance.
        steps: number of sentences that took 0, 1, 2, ... steps.
        residuals: 10 %, 50 % and 90 % quantiles of the residual after each step; a converged sentence keeps
            its last residual. None where less than half of the sentences have a finite residual.
    """

    converged: float
    steps: list[int]
    residuals: list[tuple[float, float, float] | None]


@dataclass(frozen=True)
class Statistics:
    """Statistics of a tagger's predictions on a dataset.

    Args:
        names: names of the systems: the base model and, if there is a global term, the full model.
        types: entity types of the tagger, then those that occur only in the data.
        documents: number of documents; None if the data do not mark them.
        tokens: number of tokens.
        evaluation: scores, calibration, and the errors that the global term fixed and made.
        intervals: confidence intervals of F1.
        confusions: confusion of entity types by each system.
        related: what each relation of a document term relates; empty if the data mark no documents.
        convergence: convergence of inference; None without a global term.
        curves: learning curves of training; empty if unknown.
    """

    names: list[str]
    types: tuple[str, ...]
    documents: int | None
    tokens: int
    evaluation: Evaluation
    intervals: Intervals
    confusions: list[Confusion]
    related: dict[str, Related]
    convergence: Convergence | None
    curves: list[Curve]

    @property
    def assessments(self) -> list[Assessment]:
        """The assessment of each system."""
        return self.evaluation.assessments

    def scores(self, entity_type: str | None) -> list[Score]:
        """Return the score of each system on a type, or on all types for None."""
        scores = [assessment.score for assessment in self.assessments]
        empty = Score(0.0, 0.0, 0.0, 0)  # neither gold nor predicted entities
        return [s.micro if entity_type is None else s.types.get(entity_type, empty) for s in scores]

    @property
    def has_term(self) -> bool:
        """Whether there is a global term, and therefore two systems to compare."""
        return self.evaluation.full is not None


def measure(
    file: TaggedFile,
    predictions: Sequence[Prediction],
    types: Sequence[str],
    system: str,
    curves: list[Curve],
) -> Statistics:
    """Return the statistics of predictions for a file, by a tagger of these types and this system."""
    sentences = file.sentences
    gold = [sentence.spans for sentence in sentences]
    names = system_names(system)
    systems = [[p.base_spans for p in predictions], [p.spans for p in predictions]][: len(names)]
    documents = [sentence.document for sentence in sentences] if file.has_documents else None
    all_types = tuple(dict.fromkeys([*types, *sorted({span.type for row in gold for span in row})]))
    return Statistics(
        names,
        all_types,
        None if documents is None else len(set(documents)),
        sum(len(sentence.tokens) for sentence in sentences),
        evaluate_predictions(sentences, predictions, len(names) > 1),
        f1_intervals(gold, systems, documents),
        [confusion(gold, rows, all_types) for rows in systems],
        {} if documents is None else related_tokens(sentences),
        convergence(predictions),
        curves,
    )


def read_curves(folder: Path) -> list[Curve]:
    """Read the learning curves of a run from its metrics.jsonl; empty if the folder is not that of a run.

    Raises:
        ValueError: if a line is not an entry of metrics.
    """
    file = folder / METRICS_FILE
    if not file.is_file():
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 text: {error}") from None
    entries = [_entry(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    stages = dict.fromkeys(entry["stage"] for entry in entries)
    return [
        Curve(stage, _points(entries, stage, "eval_f1"), _points(entries, stage, "loss")) for stage in stages
    ]


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, parse_int=float)  # Python refuses to parse integers of too many digits
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("stage"), str):
        raise ValueError(f"{where}: expected an object with a stage, got {line[:80]}")
    for name in ("epoch", "eval_f1", "loss"):
        if not isinstance(entry.get(name, 0), int | float):
            raise ValueError(f"{where}: expected a number as {name}, got {entry[name]!r}")
    return entry


def _points(entries: Sequence[dict[str, Any]], stage: str, name: str) -> list[tuple[float, float]]:
    selected = [entry for entry in entries if entry["stage"] == stage and name in entry and "epoch" in entry]
    points = [(float(entry["epoch"]), float(entry[name])) for entry in selected]
    return [point for point in points if all(map(math.isfinite, point))]  # a loss may be NaN


def convergence(predictions: Sequence[Prediction]) -> Convergence | None:
    """Return the convergence of inference; None if no prediction used inference with a global term."""
    workings = [p.workings for p in predictions if p.workings is not None and p.workings.residuals]
    if not workings:
        return None
    steps = np.array([len(w.residuals) - 1 for w in workings])
    columns = range(int(steps.max()) + 1)
    table = np.array([[w.residuals[min(step, len(w.residuals) - 1)] for step in columns] for w in workings])
    return Convergence(
        float(np.mean([w.converged for w in workings])),
        np.bincount(steps).tolist(),
        [_quantiles(column) for column in table.T],
    )


def _quantiles(residuals: np.ndarray) -> tuple[float, float, float] | None:
    finite = residuals[np.isfinite(residuals)]
    if 2 * len(finite) < len(residuals):
        return None
    low, middle, high = np.quantile(finite, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high
