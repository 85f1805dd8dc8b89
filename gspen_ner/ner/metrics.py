"""Evaluation of NER: CoNLL F1 by seqeval, errors that a global term fixed and made, and calibration.

F1 always uses seqeval's strict mode with a scheme: without both, seqeval accepts invalid tag sequences
without a warning.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Scheme, Span, check_tag, tags_of_spans
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.predictions import Prediction, SentenceTagger
from gspen_ner.terms.mentions import RELATIONS, mention_numbers

Spans = Sequence[Sequence[Span]]
TERM_SYSTEMS = ("spen", "gspen")
"""The systems that have a global term."""


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 between 0 and 1, and the number of gold entities (support)."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ConllScore:
    """The micro-averaged score, and the score of each entity type."""

    micro: Score
    types: dict[str, Score]

    @property
    def f1(self) -> float:
        """The micro-averaged F1."""
        return self.micro.f1


def conll_f1(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme = "BIO"
) -> ConllScore:
    """Return CoNLL precision, recall and F1 of whole entities, by seqeval in strict mode.

    Args:
        gold: gold tags of each sentence.
        predicted: predicted tags of each sentence.
        scheme: tagging scheme of both; default `"BIO"`.

    Example:
        >>> score = conll_f1([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]], "BIO")
        >>> score.micro
        Score(precision=0.5, recall=1.0, f1=0.6666666666666666, support=1)
    """
    from seqeval.metrics import classification_report
    from seqeval.scheme import IOB2, IOBES

    if scheme not in get_args(Scheme):
        raise ValueError(f"scheme must be one of {', '.join(get_args(Scheme))}, got {scheme!r}")
    if [len(row) for row in gold] != [len(row) for row in predicted]:
        raise ValueError(
            f"gold and predicted tags differ in shape: {len(gold)} and {len(predicted)} sentences, "
            f"{sum(map(len, gold))} and {sum(map(len, predicted))} tags"
        )
    for tag in {tag for rows in (gold, predicted) for row in rows for tag in row}:
        check_tag(tag, scheme)
    if all(tag == "O" for rows in (gold, predicted) for row in rows for tag in row):
        return ConllScore(Score(0.0, 0.0, 0.0, 0), {})  # seqeval fails without any entity
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns about types without predictions
        report = classification_report(
            [list(row) for row in gold],
            [list(row) for row in predicted],
            mode="strict",
            scheme=IOB2 if scheme == "BIO" else IOBES,
            output_dict=True,
            zero_division=0,
        )
    scores = {
        name: Score(
            float(row["precision"]), float(row["recall"]), float(row["f1-score"]), int(row["support"])
        )
        for name, row in report.items()
    }
    micro, _, _ = (scores.pop(f"{average} avg") for average in ("micro", "macro", "weighted"))
    return ConllScore(micro, scores)


def span_f1(gold: Spans, predicted: Spans, lengths: Sequence[int]) -> ConllScore:
    """Return the CoNLL score of entities given as spans, in sentences of these lengths; see `conll_f1`."""

    def tags(rows: Spans) -> list[list[str]]:
        return [tags_of_spans(spans, length, "BIO") for spans, length in zip(rows, lengths, strict=True)]

    return conll_f1(tags(gold), tags(predicted), "BIO")


@dataclass(frozen=True)
class Changes:
    """Errors (missed or invented entities) that were fixed, newly made (broken), and remain (same)."""

    fixed: int
    broken: int
    same: int


def compare_errors(gold: Spans, before: Spans, after: Spans) -> Changes:
    """Count the errors that differ between two predictions of the same sentences.

    Example:
        >>> gold = [[Span(0, 1, "LOC")]]
        >>> compare_errors(gold, [[Span(0, 1, "PER")]], gold)  # one missed and one invented entity fixed
        Changes(fixed=2, broken=0, same=0)
    """
    fixed = broken = same = 0
    for gold_row, first, second in zip(gold, before, after, strict=True):
        old, new = set(gold_row) ^ set(first), set(gold_row) ^ set(second)
        fixed, broken, same = fixed + len(old - new), broken + len(new - old), same + len(old & new)
    return Changes(fixed, broken, same)


@dataclass(frozen=True)
class Calibration:
    """How well the confidences of predicted entities match their accuracy.

    Args:
        ece: expected calibration error: the mean distance between a bin's confidence and its accuracy,
            weighted by the number of entities.
        bins: mean confidence, accuracy and number of entities of each bin that is not empty.
    """

    ece: float
    bins: list[tuple[float, float, int]]


def calibration(gold: Spans, predicted: Sequence[Sequence[ScoredSpan]], bins: int = 10) -> Calibration:
    """Return the calibration of predicted entities, in `bins` (default 10) bins of equal width."""
    pairs = (
        (probability, span in gold_row)
        for gold_row, row in zip(gold, predicted, strict=True)
        for span, probability in row
    )
    return reliability(pairs, bins)


def reliability(confidences: Iterable[tuple[float, bool]], bins: int = 10) -> Calibration:
    """Return the calibration of confidences, given with whether they were right; see `calibration`."""
    entries: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, right in confidences:
        entries[min(int(confidence * bins), bins - 1)].append((confidence, right))
    filled = [
        (sum(p for p, _ in bin) / len(bin), sum(correct for _, correct in bin) / len(bin), len(bin))
        for bin in entries
        if bin
    ]
    total = sum(size for _, _, size in filled)
    ece = sum(abs(confidence - accuracy) * size for confidence, accuracy, size in filled)
    return Calibration(ece / max(total, 1), filled)


@dataclass(frozen=True)
class Assessment:
    """The scores of one system on a dataset.

    Args:
        score: precision, recall and F1.
        exact_match: share of sentences without an error.
        calibration: calibration of the confidences.
        uncalibrated: calibration of the model's exact probabilities; None if these are the confidences.
    """

    score: ConllScore
    exact_match: float
    calibration: Calibration
    uncalibrated: Calibration | None = None


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model: of its base model and, if it has a global term, of the full model (`full`)."""

    sentences: int
    base: Assessment
    full: Assessment | None = None
    changes: Changes | None = None

    @property
    def assessments(self) -> list[Assessment]:
        """The scores of the base model and, if it has a global term, of the full model."""
        return [self.base] if self.full is None else [self.base, self.full]


def evaluate(tagger: SentenceTagger, sentences: Sequence[TaggedSentence]) -> Evaluation:
    """Score a tagger against gold tags and, if it has a global term, its base model too."""
    return evaluate_predictions(sentences, tagger.tag_sentences(sentences), tagger.system in TERM_SYSTEMS)


def evaluate_predictions(
    sentences: Sequence[TaggedSentence], predictions: Sequence[Prediction], has_term: bool
) -> Evaluation:
    """Score predictions of a tagger against gold tags; see `evaluate`.

    Args:
        sentences: sentences with gold tags.
        predictions: predictions for these sentences.
        has_term: whether the tagger has a global term.
    """
    gold = [sentence.spans for sentence in sentences]
    lengths = [len(sentence.tokens) for sentence in sentences]
    exact, exact_base = None, None
    if any(prediction.uncalibrated for prediction in predictions):
        pairs = [prediction.uncalibrated or ([], []) for prediction in predictions]
        exact, exact_base = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    base = assess(gold, [prediction.base_entities for prediction in predictions], lengths, exact_base)
    if not has_term:
        return Evaluation(len(sentences), base)
    full = assess(gold, [prediction.entities for prediction in predictions], lengths, exact)
    changes = compare_errors(gold, [p.base_spans for p in predictions], [p.spans for p in predictions])
    return Evaluation(len(sentences), base, full, changes)


def assess(
    gold: Spans,
    predicted: Sequence[Sequence[ScoredSpan]],
    lengths: Sequence[int],
    uncalibrated: Sequence[Sequence[ScoredSpan]] | None = None,
) -> Assessment:
    """Return F1, exact match and calibration of entities, and their calibration without confidences."""
    spans = [[entity.span for entity in row] for row in predicted]
    exact = sum(set(gold_row) == set(row) for gold_row, row in zip(gold, spans, strict=True))
    score = span_f1(gold, spans, lengths)
    before = None if uncalibrated is None else calibration(gold, uncalibrated)
    return Assessment(score, exact / max(len(gold), 1), calibration(gold, predicted), before)


def f1_by_mentions(sentences: Sequence[TaggedSentence], predicted: Spans, most: int = 6) -> dict[int, Score]:
    """Score entities grouped by their mentions: the count of their most frequent word in their document.

    More mentions give a document term more evidence.
    Words with an upper-case letter are counted, ignoring the case of their other letters; see
    `match_mentions`.

    Args:
        sentences: sentences with gold tags.
        predicted: predicted entities of each sentence.
        most: largest group; entities with more mentions belong to it. Default 6.

    Example:
        >>> tagged = [("Rome won", "B-ORG O"), ("ROME lost", "B-ORG O"), ("Ann Lee left", "B-PER I-PER O")]
        >>> sentences = [TaggedSentence(words.split(), tags.split(), 0) for words, tags in tagged]
        >>> scores = f1_by_mentions(sentences, [[Span(0, 1, "ORG")], [], [Span(0, 2, "PER")]])
        >>> {mentions: (score.recall, score.support) for mentions, score in scores.items()}
        {1: (1.0, 1), 2: (0.5, 2)}
    """
    numbered = mention_numbers([s.tokens for s in sentences], [s.document for s in sentences])
    word = list(RELATIONS).index("word")
    words = [[numbers[word] for numbers in row] for row in numbered]
    counts = Counter(number for row in words for number in row)
    counts[-1] = 1  # words without an upper-case letter count as a single mention

    def mentions(row: int, span: Span) -> int:
        return min(most, max(counts[number] for number in words[row][span.start : span.end]))

    def select(rows: Spans, group: int) -> list[list[Span]]:
        return [[span for span in spans if mentions(row, span) == group] for row, spans in enumerate(rows)]

    gold = [sentence.spans for sentence in sentences]
    lengths = [len(sentence.tokens) for sentence in sentences]
    groups = sorted({mentions(row, span) for row, spans in enumerate(gold) for span in spans})
    return {group: span_f1(select(gold, group), select(predicted, group), lengths).micro for group in groups}
