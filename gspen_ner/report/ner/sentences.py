"""The sentences that the page's browser shows, as compact JSON.

Of a sentence: tokens `t`, document `d`, gold entities `g`, those of the base model `b` and of the whole `f`,
errors fixed, broken and still there `x`, marginals `m`, and residuals of inference `r` with whether it
converged `c`. What only a global term brings is left out without one.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import compare_errors
from gspen_ner.ner.predictions import Prediction, Workings


def sentence_entries(
    sentences: Sequence[TaggedSentence],
    predictions: Sequence[Prediction],
    types: Sequence[str],
    has_term: bool,
) -> list[dict[str, Any]]:
    """An entry a sentence.

    Args:
        sentences: with gold tags.
        predictions: of these, with their workings.
        types: all that occur; entities hold their numbers.
        has_term: whether there is a prediction with a global term beside that of the base model.
    """
    place = {kind: number for number, kind in enumerate(types)}
    return [
        _entry(sentence, prediction, place, has_term)
        for sentence, prediction in zip(sentences, predictions, strict=True)
    ]


def _entry(
    sentence: TaggedSentence, prediction: Prediction, place: dict[str, int], has_term: bool
) -> dict[str, Any]:
    gold = spans_of_tags(sentence.tags, "BIO")
    before = [entity.span for entity in prediction.base_entities]
    after = [entity.span for entity in prediction.entities]
    changes = compare_errors([gold], [before], [after])
    entry: dict[str, Any] = {
        "t": sentence.tokens,
        "d": sentence.document,
        "g": [[start, end, place[kind]] for start, end, kind in gold],
        "b": _entities(prediction.base_entities, place),
        "x": [changes.fixed, changes.broken, changes.same],
    }
    if has_term:
        entry["f"] = _entities(prediction.entities, place)
    if prediction.workings is not None:
        entry |= _workings(prediction.workings, has_term)
    return entry


def _entities(entities: Sequence[ScoredSpan], place: dict[str, int]) -> list[list[float]]:
    return [[span.start, span.end, place[span.type], round(p, 3)] for span, p in entities]


def _workings(workings: Workings, has_term: bool) -> dict[str, Any]:
    tables = [workings.base_marginals, *([workings.marginals] if has_term else [])]
    found: dict[str, Any] = {"m": [packed(table) for table in tables]}
    if workings.residuals:
        finite = [float(f"{value:.3g}") for value in workings.residuals if np.isfinite(value)]
        found |= {"r": finite, "s": len(workings.residuals) - 1, "c": int(workings.converged)}
    return found


def packed(marginals: Float[np.ndarray, "T L"]) -> str:
    """Probabilities in steps of 1/255, without those that are nearest to zero.

    Returns:
        Base64 of 16-bit numbers, the low byte first: how many labels each token has left, then these labels,
        then their probabilities times 255.

    Example:
        >>> unpacked(packed(np.array([[0.0, 1.0], [0.2, 0.8]])), 2, 2).tolist()
        [[0.0, 1.0], [0.2, 0.8]]
    """
    bytes_ = np.rint(255 * np.asarray(marginals)).astype("<u2")
    tokens, labels = bytes_.nonzero()
    counts = np.bincount(tokens, minlength=len(bytes_))
    words = np.concatenate([counts, labels, bytes_[tokens, labels]]).astype("<u2")
    return base64.b64encode(words.tobytes()).decode("ascii")


def unpacked(text: str, tokens: int, labels: int) -> Float[np.ndarray, "T L"]:
    """What `packed` wrote, as the page reads it."""
    words = np.frombuffer(base64.b64decode(text), "<u2")
    counts, (numbers, values) = words[:tokens], words[tokens:].reshape(2, -1)
    table = np.zeros((tokens, labels))
    table[np.repeat(np.arange(tokens), counts), numbers] = values / 255
    return table
