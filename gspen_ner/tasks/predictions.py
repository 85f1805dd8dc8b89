"""What a tagger says of sentences, and the formats it is written in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span, tags_of_spans
from gspen_ner.tasks.ner_files import DOCUMENT_MARK


class Labelling(NamedTuple):
    """One of the k best labellings of a sentence: its entities and its probability."""

    entities: list[Span]
    probability: float


@dataclass(frozen=True)
class Prediction:
    """What a model says of one sentence.

    Args:
        tokens: the sentence.
        entities: with their exact marginal probabilities.
        base_entities: what the model says without its global term.
        k_best: the best labellings, best first; empty if they were not asked for.
    """

    tokens: tuple[str, ...]
    entities: list[ScoredSpan]
    base_entities: list[ScoredSpan]
    k_best: list[Labelling]


def as_conll(predictions: Sequence[Prediction], documents: Sequence[int]) -> str:
    """Columns: token, probability of its entity (_ outside), tag in BIO."""
    lines: list[str] = []
    for row, prediction in enumerate(predictions):
        if row == 0 or documents[row] != documents[row - 1]:
            lines += [f"{DOCUMENT_MARK} _ O", ""]
        for token in prediction.tokens:
            if token == DOCUMENT_MARK or not re.fullmatch(r"[^ \t\r\n]+", token):
                raise ValueError(f"sentence {row + 1}: columns cannot hold the token {token!r}; write jsonl")
        tags = tags_of_spans([entity.span for entity in prediction.entities], len(prediction.tokens), "BIO")
        chances = ["_"] * len(tags)
        for span, probability in prediction.entities:
            chances[span.start : span.end] = [f"{probability:.4f}"] * (span.end - span.start)
        lines += [" ".join(columns) for columns in zip(prediction.tokens, chances, tags, strict=True)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def as_json_lines(predictions: Sequence[Prediction], documents: Sequence[int]) -> str:
    """One object a sentence: tokens, tags, document, entities, and k_best if there are any."""
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in _entries(predictions, documents))


def _entries(predictions: Sequence[Prediction], documents: Sequence[int]) -> Iterator[dict[str, Any]]:
    for prediction, document in zip(predictions, documents, strict=True):
        spans = [entity.span for entity in prediction.entities]
        before = {entity.span for entity in prediction.base_entities}
        entry: dict[str, Any] = {
            "tokens": list(prediction.tokens),
            "tags": tags_of_spans(spans, len(prediction.tokens), "BIO"),
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
