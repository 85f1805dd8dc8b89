"""Calibration of a tagger: its confidences, and the threshold of its decoder, fitted on held-out sentences.

What is fitted are a few numbers; see `Confidences`. With the decoder `viterbi`, entities stay exactly as they
are; with `spans`, the threshold with the best F1 is chosen, so that entities may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from gspen_ner.decode import (
    DECODER,
    THRESHOLD,
    Decoder,
    best_non_overlapping,
    likely_spans,
    scored_entities,
    span_probabilities,
)
from gspen_ner.labels import Labels, Span, bio_name
from gspen_ner.ner.confidence import Confidence, Confidences
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import TERM_SYSTEMS, reliability
from gspen_ner.ner.predictions import ChainScores, SentenceTagger
from gspen_ner.parts import Parts

THRESHOLDS = tuple(number / 20 for number in range(2, 17))
"""Thresholds of the decoder `spans` that are tried, from 0.1 to 0.8."""
EXPONENTS = (0.05, 5.0)
"""Limits of the exponent of tokens."""
SMALLEST = 1e-12  # smaller probabilities of labels are counted as this


class CalibrationErrors(NamedTuple):
    """Expected calibration errors (ECE) of one system on the sentences that it was calibrated on.

    Args:
        uncalibrated: error of the exact probabilities under the model.
        held_out: error of confidences that were fitted on the one half of the documents, and measured on
            the other; both halves together.
    """

    uncalibrated: float
    held_out: float


def calibrate(tagger: SentenceTagger, sentences: Sequence[TaggedSentence]) -> list[CalibrationErrors]:
    """Fit the confidences of a tagger on tagged sentences that it was not trained on, such as dev.

    Call `tagger.save` afterwards to keep them with the model; `tagger.confidences = None` undoes it.

    Args:
        tagger: the tagger; its confidences are replaced.
        sentences: sentences with gold tags.

    Returns:
        The errors of the base model and, if there is a global term, of the full model.

    Example:
        >>> from gspen_ner.hosts.huggingface import GSPENForTokenClassification, Tagger
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> tagger = Tagger(GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4))
        >>> errors = calibrate(tagger, [TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0)] * 9)
        >>> tagger.confidences.full == tagger.confidences.base  # there is no global term
        True
    """
    systems: list[list[_Sentence]] = [[], []] if tagger.system in TERM_SYSTEMS else [[]]
    tokens, decoder = [], DECODER
    documents = [sentence.document for sentence in sentences]
    for batch in tagger.scores([sentence.tokens for sentence in sentences], documents):
        decoder, rows = batch.decoder, [sentences[row] for row in batch.rows]
        for scored, theta in zip(systems, (batch.base, batch.theta), strict=False):
            scored += _candidates(batch, theta, rows, tagger.labels)
        tokens.append(_tokens(batch, rows, tagger.labels))
    fitted = [_fit(scored, decoder) for scored in systems]
    tagger.confidences = Confidences(full=fitted[-1], base=fitted[0], tokens=_exponent(tokens))
    return [
        CalibrationErrors(
            reliability((c.probability, c.right) for c in _predicted(scored, decoder, fit.threshold)).ece,
            reliability(_held_out(scored, decoder)).ece,
        )
        for scored, fit in zip(systems, fitted, strict=True)
    ]


class _Candidate(NamedTuple):
    """An entity that a system may predict; `base` is its probability without the global term."""

    span: Span
    probability: float
    base: float
    right: bool


class _Sentence(NamedTuple):
    """The document of a sentence, the number of its gold entities, and candidates, which may overlap."""

    document: int
    gold: int
    candidates: list[_Candidate]


def _candidates(
    batch: ChainScores, theta: Parts, sentences: Sequence[TaggedSentence], labels: Labels
) -> list[_Sentence]:
    """Return what a system may predict in the sentences of a batch, by its scores."""
    if batch.decoder == "spans":
        entities = likely_spans(theta, batch.chain, labels, THRESHOLDS[0])
    else:
        entities = scored_entities(theta, batch.chain, labels, batch.decoder)
    base = span_probabilities(
        batch.base, batch.chain, labels, [[span for span, _ in row] for row in entities]
    )
    return [
        _Sentence(
            sentence.document,
            len(sentence.spans),
            [
                _Candidate(span, probability, before, span in sentence.spans)
                for (span, probability), before in zip(row, row_base, strict=True)
            ],
        )
        for sentence, row, row_base in zip(sentences, entities, base, strict=True)
    ]


def _predicted(sentences: Iterable[_Sentence], decoder: Decoder, threshold: float) -> list[_Candidate]:
    """Return the entities that a decoder predicts."""
    lowest = threshold if decoder == "spans" else 0.0  # the likeliest labelling has no overlaps
    return [entity for s in sentences for entity in best_non_overlapping(s.candidates, lowest)]


def _fit(sentences: Sequence[_Sentence], decoder: Decoder) -> Confidence:
    threshold = _best_threshold(sentences) if decoder == "spans" else THRESHOLD
    predicted = _predicted(sentences, decoder, threshold)
    probabilities, base = [c.probability for c in predicted], [c.base for c in predicted]
    return Confidence.fit(probabilities, base, [c.right for c in predicted], threshold)


def _best_threshold(sentences: Sequence[_Sentence]) -> float:
    """Return the threshold with the best F1; of equally good ones, the nearest to the default."""
    gold = sum(sentence.gold for sentence in sentences)

    def merit(threshold: float) -> tuple[float, float]:
        predicted = _predicted(sentences, "spans", threshold)
        return sum(c.right for c in predicted) / max(len(predicted) + gold, 1), -abs(threshold - THRESHOLD)

    return max(THRESHOLDS, key=merit)


def _held_out(sentences: Sequence[_Sentence], decoder: Decoder) -> Iterator[tuple[float, bool]]:
    """Yield confidences that the other half of the documents calibrates, and whether entities are right."""
    order = {document: n for n, document in enumerate(sorted({s.document for s in sentences}))}
    halves = [[s for s in sentences if order[s.document] % 2 == half] for half in (0, 1)]
    for half, other in (halves, halves[::-1]):
        confidence = _fit(other, decoder)
        for c in _predicted(half, decoder, confidence.threshold):
            yield float(confidence(c.probability, c.base)), c.right


def _tokens(
    batch: ChainScores, sentences: Sequence[TaggedSentence], labels: Labels
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log probabilities of the BIO labels of all tokens of a batch, and the gold labels."""
    names = Labels.of_types(labels.types, "BIO").names
    number = {name: number for number, name in enumerate(names)}
    in_bio = np.eye(len(names))[[number[bio_name(name)] for name in labels.names]]
    nodes = batch.chain.sums(batch.theta, with_edges=False)[1].nodes.double().cpu().numpy()
    tables = [nodes[row, : len(sentence.tokens)] @ in_bio for row, sentence in enumerate(sentences)]
    gold = [number.get(tag, number["O"]) for sentence in sentences for tag in sentence.tags]
    return np.log(np.concatenate(tables).clip(SMALLEST)), np.array(gold)


def _exponent(tokens: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the exponent of tokens' probabilities under which gold labels are the likeliest."""

    def loss(exponent: float) -> float:
        gold = sum(exponent * table[np.arange(len(labels)), labels].sum() for table, labels in tokens)
        total = sum(logsumexp(exponent * table, 1).sum() for table, _ in tokens)
        return total - gold + (exponent - 1) ** 2 / 2

    return float(minimize_scalar(loss, bounds=EXPONENTS, method="bounded").x)
