"""The pretrained document term on top of a trained tagger of any library, without training.

The term knows no entity types and was learned on other corpora. It makes a tagger consistent within a
document: predictions change only where a document, or a sentence by itself, has several mentions of a word.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from gspen_ner.hosts.loading import FLAIR_FILE, find_model, is_flair
from gspen_ner.ner.contradiction import self_contradiction
from gspen_ner.ner.predictions import SentenceTagger
from gspen_ner.terms import DocumentConsistency
from gspen_ner.terms.document import pretrained_relations
from gspen_ner.training.stages import TERM_INFERENCE

logger = logging.getLogger(__name__)
OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"relations": tuple(pretrained_relations()), "matrices": "shared", "start": "pretrained"}
)
"""Options of the document term."""
STRENGTH = 0.25
"""Factor of the pretrained weights if nothing is known of the text that will be tagged."""


class Text(NamedTuple):
    """Text like that which will be tagged; it needs no gold labels.

    Args:
        sentences: tokens of each sentence.
        documents: document number of each sentence.
    """

    sentences: Sequence[Sequence[str]]
    documents: Sequence[int]


def upgrade(
    model: Any, strength: float | None = None, *, text: Text | None = None, tokenizer: Any = None
) -> Any:
    """Return a tagger with the pretrained document term on top; the model itself stays as it is.

    Labels must be BIOES; a BIO token classifier gets BIOES labels with the same scores. Tag whole documents
    to see an effect: `tagger_of(upgraded).tag(sentences, documents)`, or `predict` of a Flair tagger on
    sentences of documents. The term takes the place of other global terms; confidences are not calibrated.

    Args:
        model: a Flair `SequenceTagger` with a CRF, a `GSPENForTokenClassification`, a token classifier of
            transformers, or the folder of any of these (of a classifier also its name on the hub).
        strength: factor of the term's weights; 0 changes nothing. By default `suited_strength` for the text
            or, without text, 0.25.
        text: some documents like those that will be tagged, a hundred are plenty: sentences, and the document
            number of each.
        tokenizer: tokenizer of a token classifier; by default the one that it was loaded with.

    Returns:
        A `GSPENTagger` of a Flair tagger, otherwise a `GSPENForTokenClassification`.

    Example:
        >>> from gspen_ner.hosts.huggingface import GSPENForTokenClassification
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> tagger = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> upgraded = upgrade(tagger)
        >>> upgraded.config.system, upgraded.couples_documents
        ('gspen', True)
    """
    if strength is not None and not 0 <= strength < math.inf:
        raise ValueError(f"strength must be a number of at least 0, got {strength}")
    upgraded = _with_term(model, tokenizer).eval()
    if strength is None:
        strength = STRENGTH
        if text is not None:
            strength = suited_strength(self_contradiction(tagger_of(upgraded), *text))
        logger.info("strength of the document term: %.2f", strength)
    with torch.no_grad():
        for weight in upgraded.head.term.parameters():
            weight.mul_(strength)
    return upgraded


def suited_strength(contradiction: float) -> float:
    """Return the strength for a tagger and text with this `self_contradiction`.

    Chosen on development data of the corpora in `recipes/transfer`.

    Example:
        >>> [round(suited_strength(contradiction), 2) for contradiction in (0.0, 0.1, 0.2, 0.3)]
        [1.25, 1.0, 0.35, 0.19]
    """
    return min(1.25, (0.1 / max(contradiction, 0.01)) ** 1.5)


def tagger_of(model: Any) -> SentenceTagger:
    """Return the tagger of a model that `upgrade` returned."""
    if hasattr(model, "save_pretrained"):
        from gspen_ner.hosts.huggingface import Tagger

        return Tagger(model)
    from gspen_ner.hosts.flair.prediction import FlairTagger

    return FlairTagger(model)


def _with_term(model: Any, tokenizer: Any) -> Any:
    """Return a model with the term at full strength."""
    if isinstance(model, str | Path):
        return _saved_with_term(str(model), tokenizer)
    libraries = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    if "flair" in libraries:
        return _flair_with_term(model)
    if "transformers" not in libraries:
        raise ValueError(
            "expected a Flair SequenceTagger, a model of transformers for token classification, or a folder, "
            f"got a {type(model).__name__}"
        )
    from transformers import AutoTokenizer

    from gspen_ner.hosts.huggingface import GSPENForTokenClassification

    if isinstance(model, GSPENForTokenClassification):
        upgraded: Any = model.with_terms([{"name": "document", **OPTIONS}], TERM_INFERENCE)
        return upgraded.to(model.device)
    if tokenizer is None:
        try:
            tokenizer = AutoTokenizer.from_pretrained(model.name_or_path)
        except (OSError, ValueError) as error:
            message = f"no tokenizer can be loaded from {model.name_or_path!r}: give it by tokenizer="
            raise ValueError(message) from error
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return _saved_with_term(folder, tokenizer).to(model.device)


def _saved_with_term(name: str, tokenizer: Any) -> Any:
    """Return the model of a folder, or a token classifier of the hub, with the term."""
    folder = find_model(name) if Path(name).is_dir() else Path(name)
    if folder.exists() and is_flair(folder):
        from gspen_ner.hosts.flair.prediction import load_flair

        return _flair_with_term(load_flair(folder / FLAIR_FILE if folder.is_dir() else folder))
    from transformers import AutoConfig

    from gspen_ner.hosts.huggingface import GSPENConfig, GSPENForTokenClassification
    from gspen_ner.hosts.huggingface.model import load_model

    if isinstance(AutoConfig.from_pretrained(str(folder)), GSPENConfig):
        return _with_term(load_model(folder), None)
    terms = [{"name": "document", **OPTIONS}]
    return GSPENForTokenClassification.from_token_classifier(
        str(folder), terms=terms, inference=TERM_INFERENCE, scheme="BIOES", tokenizer=tokenizer
    )


def _flair_with_term(tagger: Any) -> Any:
    from gspen_ner.hosts.flair import GSPENTagger

    if isinstance(tagger, GSPENTagger):
        tagger = tagger.to_sequence_tagger()
    term = functools.partial(DocumentConsistency, **OPTIONS)
    return GSPENTagger.from_sequence_tagger(copy.deepcopy(tagger), term, inference=TERM_INFERENCE)
