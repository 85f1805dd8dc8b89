"""The sentences of the report's browser, as compact JSON.

Keys of a sentence: tokens `t`, document `d`, gold entities `g`, entities of the base model `b` and of the
full model `f`, numbers of fixed, new and unchanged errors `x`, marginals `m`; of inference, residuals `r`,
number of steps `s`, and whether it converged `c`. Without a global term, `f`, `r`, `s` and `c` are missing.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from gspen_ner.decode import ScoredSpan
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import compare_errors
from gspen_ner.ner.predictions import Prediction, Workings


def sentence_entries(
    sentences: Sequence[TaggedSentence],
    predictions: Sequence[Prediction],
    types: Sequence[str],
    has_term: bool,
) -> list[dict[str, Any]]:
    """Return the entry of each sentence, with types by index; predictions must have their workings."""
    index = {name: number for number, name in enumerate(types)}
    return [
        _entry(sentence, prediction, index, has_term)
        for sentence, prediction in zip(sentences, predictions, strict=True)
    ]


def _entry(
    sentence: TaggedSentence, prediction: Prediction, index: dict[str, int], has_term: bool
) -> dict[str, Any]:
    changes = compare_errors([sentence.spans], [prediction.base_spans], [prediction.spans])
    entry: dict[str, Any] = {
        "t": sentence.tokens,
        "d": sentence.document,
        "g": [[start, end, index[entity_type]] for start, end, entity_type in sentence.spans],
        "b": _entities(prediction.base_entities, index),
        "x": [changes.fixed, changes.broken, changes.same],
    }
    if has_term:
        entry["f"] = _entities(prediction.entities, index)
    if prediction.workings is not None:
        entry |= _workings(prediction.workings, has_term)
    return entry


def _entities(entities: Sequence[ScoredSpan], index: dict[str, int]) -> list[list[float]]:
    return [[span.start, span.end, index[span.type], round(p, 3)] for span, p in entities]


def _workings(workings: Workings, has_term: bool) -> dict[str, Any]:
    tables = [workings.base_marginals, *([workings.marginals] if has_term else [])]
    entry: dict[str, Any] = {"m": [packed(table) for table in tables]}
    if workings.residuals:
        finite = [float(f"{value:.3g}") for value in workings.residuals if np.isfinite(value)]
        entry |= {"r": finite, "s": len(workings.residuals) - 1, "c": int(workings.converged)}
    return entry


def packed(marginals: Float[np.ndarray, "T L"]) -> str:
    """Return marginals in steps of 1/255, without those that round to zero.

    Returns:
        Base64 of 16-bit numbers, the low byte first: the number of remaining labels of each token, then the
        indices of these labels, then their probabilities times 255.

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
    """Return the marginals that `packed` encoded, decoded as on the page."""
    words = np.frombuffer(base64.b64decode(text), "<u2")
    counts, (numbers, values) = words[:tokens], words[tokens:].reshape(2, -1)
    table = np.zeros((tokens, labels))
    table[np.repeat(np.arange(tokens), counts), numbers] = values / 255
    return table
