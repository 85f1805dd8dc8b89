"""What a tagger says of sentences, and the formats it is written in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from gspen_ner.decode import ScoredSpan, label_lists, span_probabilities
from gspen_ner.labels import Labels, Span, tags_of_spans
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain
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

    @property
    def tags(self) -> list[str]:
        """The entities as BIO tags."""
        return tags_of_spans([entity.span for entity in self.entities], len(self.tokens), "BIO")


class SentenceTagger(Protocol):
    """A trained model in use, whatever host it lives in."""

    labels: Labels
    system: str
    """`"unary"`, `"struct"`, `"spen"` or `"gspen"`."""

    def tag(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int] | None = None, k_best: int = 0
    ) -> list[Prediction]:
        """Entities of sentences.

        Args:
            sentences: tokens of each.
            documents: equal numbers for sentences of one document; None if each stands alone.
            k_best: how many labellings to give besides.
        """


def predictions_of(
    sentences: Sequence[Sequence[str]], base: Parts, theta: Parts, chain: Chain, labels: Labels, k_best: int
) -> list[Prediction]:
    """What the scores of a batch say of its sentences.

    Args:
        sentences: tokens of each.
        base: scores of the base model alone.
        theta: scores with the global term; `base` itself if there is none.
        chain: of both.
        labels: of both.
        k_best: labellings to give besides.
    """
    full = _entities(theta, chain, labels)
    alone = full if theta is base else _entities(base, chain, labels)
    best = _labellings(theta, chain, labels, k_best) if k_best else [[] for _ in sentences]
    return [
        Prediction(tuple(tokens), entities, base_entities, labellings)
        for tokens, entities, base_entities, labellings in zip(sentences, full, alone, best, strict=True)
    ]


def _entities(theta: Parts, chain: Chain, labels: Labels) -> list[list[ScoredSpan]]:
    spans = [labels.spans_of_indices(path) for path in label_lists(chain.argmax(theta))]
    probabilities = span_probabilities(theta, chain, labels, spans)
    return [
        [ScoredSpan(span, probability) for span, probability in zip(*row, strict=True)]
        for row in zip(spans, probabilities, strict=True)
    ]


def _labellings(theta: Parts, chain: Chain, labels: Labels, k: int) -> list[list[Labelling]]:
    scores, paths = chain.k_best(theta, k)
    probabilities = (scores - chain.log_partition(theta)[:, None]).exp()
    return [
        [
            Labelling(labels.spans_of_indices(path), probability)
            for path, probability in zip(label_lists(row), chances, strict=True)
            if path
        ]
        for row, chances in zip(paths, probabilities.tolist(), strict=True)
    ]


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
