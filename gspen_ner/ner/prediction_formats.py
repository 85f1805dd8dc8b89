"""Predictions as text: CoNLL columns and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gspen_ner.labels import Span
from gspen_ner.ner.files import DOCUMENT_MARK
from gspen_ner.ner.predictions import Prediction


def as_conll(predictions: Sequence[Prediction], documents: Sequence[int]) -> str:
    """Columns: token, probability of its entity (_ outside), tag in BIO."""
    lines: list[str] = []
    marked = len(set(documents)) < len(documents)  # else each sentence stands alone
    for row, prediction in enumerate(predictions):
        if marked and (row == 0 or documents[row] != documents[row - 1]):
            lines += [f"{DOCUMENT_MARK} _ O", ""]
        for token in prediction.tokens:
            if token == DOCUMENT_MARK or not re.fullmatch(r"[^ \t\r\n]+", token):
                raise ValueError(f"sentence {row + 1}: columns cannot hold the token {token!r}; write jsonl")
        tags = prediction.tags
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
        before = {entity.span for entity in prediction.base_entities}
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
