"""F1 of a base model as its library predicts, and with the pretrained term at several strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gspen_ner.hosts.huggingface import GSPENForTokenClassification
from gspen_ner.hosts.loading import FLAIR_FILE
from gspen_ner.hosts.upgrading import STRENGTH, suited_strength, tagger_of, upgrade
from gspen_ner.labels import Span
from gspen_ner.ner.contradiction import self_contradiction
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import span_f1
from gspen_ner.terms.document import pretrained_weights

STRENGTHS = (STRENGTH, 0.5, 0.75, 1.0, 1.25)


@dataclass(frozen=True)
class Comparison:
    """F1 of a base model before and after the upgrade.

    Args:
        base: F1 of the base model as its library predicts.
        legal: F1 of its best labellings that are legal; differs for a token classifier only.
        contradiction: its `self_contradiction`.
        suited: strength that is suited for it.
        upgraded: F1 with the term, by strength.
    """

    base: float
    legal: float
    contradiction: float
    suited: float
    upgraded: dict[float, float]


def compare(base: Path, sentences: Sequence[TaggedSentence], term: Path | None) -> Comparison:
    """Return the F1 of a base model on sentences before and after the upgrade.

    Args:
        base: folder of the base model.
        sentences: sentences with gold tags.
        term: file of the term; by default the one in the package.
    """
    tokens, documents = [s.tokens for s in sentences], [s.document for s in sentences]
    lengths, gold = [len(sentence) for sentence in tokens], [s.spans for s in sentences]

    def f1(spans: Sequence[Sequence[Span]]) -> float:
        return span_f1(gold, spans, lengths).micro.f1

    upgraded = upgrade(_file(base), strength=1.0)
    tagger, weights = tagger_of(upgraded), list(upgraded.head.term.parameters())
    full = [weight.detach().clone() for weight in weights]
    if term is not None:
        full = list(pretrained_weights(upgraded.head.term.relations, tagger.labels.names, term))
    contradiction = self_contradiction(tagger, tokens, documents)
    suited = round(suited_strength(contradiction), 2)
    scores: dict[float, float] = {}
    for strength in sorted({*STRENGTHS, suited}):
        with torch.no_grad():
            for weight, value in zip(weights, full, strict=True):
                weight.copy_(strength * value)
        predictions = tagger.tag(tokens, documents)
        scores[strength] = f1([prediction.spans for prediction in predictions])
    legal = own = f1([prediction.base_spans for prediction in predictions])
    if _file(base) == base:
        classifier = tagger_of(GSPENForTokenClassification.from_token_classifier(base).eval())
        own = f1([prediction.spans for prediction in classifier.tag(tokens, documents)])
    return Comparison(own, legal, contradiction, suited, scores)


def _file(base: Path) -> Any:
    """Return Flair's file in a folder that its trainer has left, or the folder of a token classifier."""
    flair = [base / name for name in ("best-model.pt", FLAIR_FILE) if (base / name).is_file()]
    return flair[0] if flair else base
