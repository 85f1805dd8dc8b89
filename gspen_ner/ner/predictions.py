"""Predictions of a tagger: the interface of all taggers, predictions from scores, and their text formats."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm.auto import tqdm

from gspen_ner.decode import (
    DECODER,
    Decoder,
    ScoredSpan,
    label_lists,
    scored_entities,
    span_probabilities,
)
from gspen_ner.labels import Labels, Span, tags_of_spans
from gspen_ner.ner.confidence import Confidences
from gspen_ner.ner.files import DOCUMENT_MARK, TaggedSentence
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain
from gspen_ner.solvers import Solution

Entities = list[list[ScoredSpan]]
"""Entities of each sentence."""


class Labelling(NamedTuple):
    """One of the k best labellings of a sentence: the entities and the probability of the labelling."""

    entities: list[Span]
    probability: float


@dataclass(frozen=True)
class Workings:
    """Label probabilities and convergence of inference behind a prediction.

    Args:
        base_marginals: probability of each label of each token, without the global term.
        marginals: the same with the global term; `base_marginals` itself if there is none.
        residuals: residual of inference before the first step and after each step; empty without a global
            term.
        converged: whether the last residual is below the tolerance.
    """

    base_marginals: Float[np.ndarray, "T L"]
    marginals: Float[np.ndarray, "T L"]
    residuals: tuple[float, ...] = ()
    converged: bool = True


@dataclass(frozen=True)
class Prediction:
    """Predicted entities of one sentence.

    Args:
        tokens: tokens of the sentence.
        entities: predicted entities with their confidences; see `Confidence`. Of a tagger that is not
            calibrated, these are the model's exact probabilities.
        base_entities: the entities that the base model predicts, without the global term.
        k_best: the k best labellings, best first; empty if not requested.
        workings: label probabilities and convergence; None if not requested or if there are no tokens.
        uncalibrated: entities and base entities with the model's exact probabilities; None if the tagger is
            not calibrated.
    """

    tokens: tuple[str, ...]
    entities: list[ScoredSpan]
    base_entities: list[ScoredSpan]
    k_best: list[Labelling]
    workings: Workings | None = None
    uncalibrated: tuple[list[ScoredSpan], list[ScoredSpan]] | None = None

    @property
    def spans(self) -> list[Span]:
        """The predicted entities without their probabilities."""
        return [entity.span for entity in self.entities]

    @property
    def base_spans(self) -> list[Span]:
        """The entities that the base model predicts, without their probabilities."""
        return [entity.span for entity in self.base_entities]

    @property
    def tags(self) -> list[str]:
        """The predicted entities as BIO tags."""
        return tags_of_spans(self.spans, len(self.tokens), "BIO")


class ChainScores(NamedTuple):
    """Chain scores of a batch of sentences, ready to decode.

    Args:
        rows: indices of the sentences.
        base: scores of the base model.
        theta: scores with the global term; `base` itself if there is none.
        chain: polytope of both.
        solution: result of inference with the global term; None if there is none.
        decoder: how entities are decoded from the scores; see `scored_entities`.
        confidences: how sure the tagger is of its entities; None if it is not calibrated.
        decodes_base: whether the entities of the base model are decoded, too.
    """

    rows: list[int]
    base: Parts
    theta: Parts
    chain: Chain
    solution: Solution | None = None
    decoder: Decoder = DECODER
    confidences: Confidences | None = None
    decodes_base: bool = True

    def without_base(self) -> ChainScores:
        """Return the scores such that the entities of the base model are not decoded, which takes time."""
        return self._replace(decodes_base=False)


class SentenceTagger(ABC):
    """A trained model that tags sentences; each host library implements how sentences are scored."""

    labels: Labels
    system: str
    """The system: `"unary"`, `"struct"`, `"spen"` or `"gspen"`."""
    confidences: Confidences | None = None
    """How sure it is of its entities, by `calibrate`. None gives the model's exact probabilities instead."""

    @property
    @abstractmethod
    def couples_documents(self) -> bool:
        """Whether the sentences of a document are inferred jointly."""

    @property
    def uses_documents(self) -> bool:
        """Whether the other sentences of its document matter to a sentence."""
        return self.couples_documents

    @abstractmethod
    def scores(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        record_trace: bool = False,
    ) -> Iterator[ChainScores]:
        """Yield the scores of all sentences that have tokens, in batches, in any order.

        Args:
            sentences: tokens of each sentence.
            documents: document number of each sentence; None if each sentence is a document of its own.
            record_trace: whether solutions record the residual of every step of inference; default False.
        """

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write the model with its confidences into a folder, as `load_tagger` reads it."""

    def tag(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        k_best: int = 0,
        workings: bool = False,
    ) -> list[Prediction]:
        """Return the predictions for sentences; shows a progress bar on a terminal if it takes long.

        Args:
            sentences: tokens of each sentence.
            documents: document number of each sentence; None if each sentence is a document of its own.
            k_best: number of best labellings to return for each sentence; default 0.
            workings: whether to return label probabilities and convergence, too; default False.
        """
        scored = watched(self.scores(sentences, documents, workings), len(sentences))
        return predict_all(sentences, scored, self.labels, k_best, workings)

    def tag_sentences(
        self, sentences: Sequence[TaggedSentence], k_best: int = 0, workings: bool = False
    ) -> list[Prediction]:
        """Return the predictions for tagged sentences, whose tags are ignored; see `tag`."""
        tokens, documents = [s.tokens for s in sentences], [s.document for s in sentences]
        return self.tag(tokens, documents, k_best, workings)


def watched(scored: Iterable[ChainScores], sentences: int) -> Iterator[ChainScores]:
    """Yield batches of scores with a progress bar, shown on a terminal after two seconds."""
    with tqdm(total=sentences, desc="tagging", delay=2, leave=False, disable=None) as bar:
        for batch in scored:
            yield batch
            bar.update(len(batch.rows))


def predict_all(
    sentences: Sequence[Sequence[str]],
    scored: Iterable[ChainScores],
    labels: Labels,
    k_best: int = 0,
    workings: bool = False,
) -> list[Prediction]:
    """Return the predictions for all sentences; those without tokens have no entities.

    Args:
        sentences: tokens of each sentence.
        scored: batches of the tagger's scores; with their traces if `workings` is True.
        labels: labels of the tagger.
        k_best: number of best labellings to return for each sentence; default 0.
        workings: whether to return label probabilities and convergence, too; default False.
    """
    predictions = [Prediction(tuple(tokens), [], [], []) for tokens in sentences]
    for batch in scored:
        tokens = [sentences[row] for row in batch.rows]
        batch_predictions = predictions_of(tokens, batch, labels, k_best, workings)
        for row, prediction in zip(batch.rows, batch_predictions, strict=True):
            predictions[row] = prediction
    return predictions


def predictions_of(
    sentences: Sequence[Sequence[str]],
    scored: ChainScores,
    labels: Labels,
    k_best: int,
    workings: bool = False,
) -> list[Prediction]:
    """Return the predictions for the sentences of one batch; see `predict_all`."""
    base, theta, chain, solution = scored.base, scored.theta, scored.chain, scored.solution
    entities, base_entities, uncalibrated = _entities_of(scored, labels)
    best = _labellings(theta, chain, labels, k_best) if k_best else [[] for _ in sentences]
    details = _workings(base, theta, chain, solution) if workings else [None] * len(sentences)
    rows = zip(map(tuple, sentences), entities, base_entities, best, details, uncalibrated, strict=True)
    return [Prediction(*row) for row in rows]


def _entities_of(scored: ChainScores, labels: Labels) -> tuple[Entities, Entities, list[Any]]:
    """Return entities, base entities and, of a calibrated tagger, both with their exact probabilities."""
    base, theta, chain, decoder = scored.base, scored.theta, scored.chain, scored.decoder
    confidences = scored.confidences or Confidences()
    exact = scored_entities(theta, chain, labels, decoder, confidences.full.threshold)
    if theta is base:
        exact_base = exact
    elif scored.decodes_base:
        exact_base = scored_entities(base, chain, labels, decoder, confidences.base.threshold)
    else:
        exact_base = [[] for _ in exact]
    if scored.confidences is None:
        return exact, exact_base, [None] * len(exact)
    spans = [[entity.span for entity in row] for row in exact]
    before = None if theta is base else span_probabilities(base, chain, labels, spans)
    entities, base_entities = confidences.full.of(exact, before), confidences.base.of(exact_base)
    return entities, base_entities, list(zip(exact, exact_base, strict=True))


def _workings(base: Parts, theta: Parts, chain: Chain, solution: Solution | None) -> list[Workings]:
    """Return the label probabilities and the convergence of each sentence of a batch."""
    before = _node_marginals(base, chain)
    after = before if theta is base else _node_marginals(theta, chain)
    if solution is None or solution.trace is None:
        return [Workings(*tables) for tables in zip(before, after, strict=True)]
    traces = zip(solution.trace.residual.T.tolist(), solution.steps.tolist(), strict=True)
    residuals = [tuple(row[: steps + 1]) for row, steps in traces]
    rows = zip(before, after, residuals, solution.converged.tolist(), strict=True)
    return [Workings(*row) for row in rows]


def _node_marginals(theta: Parts, chain: Chain) -> list[np.ndarray]:
    nodes = chain.sums(theta, with_edges=False)[1].nodes.float().cpu().numpy()
    return [table[:length] for table, length in zip(nodes, chain.lengths.tolist(), strict=True)]


def _labellings(theta: Parts, chain: Chain, labels: Labels, k: int) -> list[list[Labelling]]:
    scores, paths = chain.k_best(theta, k)
    probabilities = (scores - chain.log_partition(theta)[:, None]).exp()
    return [
        [
            Labelling(labels.spans_of_indices(path), probability)
            for path, probability in zip(label_lists(row), row_probabilities, strict=True)
            if path
        ]
        for row, row_probabilities in zip(paths, probabilities.tolist(), strict=True)
    ]


def as_conll(predictions: Sequence[Prediction], documents: Sequence[int]) -> str:
    """Return CoNLL columns: the token, the probability of its entity (_ outside entities), the BIO tag."""
    lines: list[str] = []
    mark_documents = len(set(documents)) < len(documents)  # otherwise each sentence is a document
    for row, prediction in enumerate(predictions):
        if mark_documents and (row == 0 or documents[row] != documents[row - 1]):
            lines += [f"{DOCUMENT_MARK} _ O", ""]
        for token in prediction.tokens:
            if token == DOCUMENT_MARK or not re.fullmatch(r"[^ \t\r\n]+", token):
                raise ValueError(
                    f"sentence {row + 1}: CoNLL columns cannot hold the token {token!r}: write JSON lines "
                    "instead (jsonl)"
                )
        tags = prediction.tags
        probabilities = ["_"] * len(tags)
        for span, probability in prediction.entities:
            probabilities[span.start : span.end] = [f"{probability:.4f}"] * (span.end - span.start)
        lines += [" ".join(columns) for columns in zip(prediction.tokens, probabilities, tags, strict=True)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def as_json_lines(predictions: Sequence[Prediction], documents: Sequence[int]) -> str:
    """Return one JSON object per line and sentence: tokens, tags, document, entities, k_best if requested."""
    return json_lines(_entries(predictions, documents))


def json_lines(entries: Iterable[object]) -> str:
    """Return entries as JSON, each in a line."""
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries)


def _entries(predictions: Sequence[Prediction], documents: Sequence[int]) -> Iterator[dict[str, Any]]:
    for prediction, document in zip(predictions, documents, strict=True):
        before = prediction.base_spans
        entry: dict[str, Any] = {
            "tokens": list(prediction.tokens),
            "tags": prediction.tags,
            "document": document,
            "entities": [
                _entity(prediction.tokens, span) | {"probability": probability, "changed": span not in before}
                for span, probability in prediction.entities
            ],
        }
        if prediction.k_best:
            entry["k_best"] = [
                {
                    "probability": labelling.probability,
                    "entities": [_entity(prediction.tokens, span) for span in labelling.entities],
                }
                for labelling in prediction.k_best
            ]
        yield entry


def _entity(tokens: Sequence[str], span: Span) -> dict[str, Any]:
    return {**span._asdict(), "text": " ".join(tokens[span.start : span.end])}
