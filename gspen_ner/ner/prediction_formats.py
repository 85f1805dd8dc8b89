"""Writing predictions as text: CoNLL columns and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gspen_ner.labels import Span
from gspen_ner.ner.files import DOCUMENT_MARK
from gspen_ner.ner.predictions import Prediction


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
