"""Faster training and prediction for a plain Flair tagger, and true confidences if wanted.

Nothing is learned and nothing is lost: losses agree to rounding, best tags are the same, files that the
tagger saves are Flair's own, and `undo` puts everything back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from flair.models import SequenceTagger

from gspen_ner.hosts.flair.chain_view import ChainView, EmissionScores
from gspen_ner.hosts.flair.decoding import ChainDecoder, ChainLoss, PrefixDecoder
from gspen_ner.hosts.flair.encoder import restore_encoder, speed_up_encoder
from gspen_ner.labels import Scheme


@dataclass
class Acceleration:
    """What was changed in a tagger.

    Args:
        tagger: the tagger.
        changed: in words.
        before: the parts that were replaced.

    Example:
        >>> from flair.data import Dictionary
        >>> from flair.embeddings import OneHotEmbeddings
        >>> words, kinds = Dictionary(), Dictionary(add_unk=False)
        >>> numbers = [words.add_item("Ann"), kinds.add_item("PER")]
        >>> tagger = SequenceTagger(OneHotEmbeddings(words, embedding_length=4), kinds, "ner", hidden_size=4)
        >>> acceleration = accelerate(tagger)
        >>> type(tagger.loss_function).__name__
        'ChainLoss'
        >>> acceleration.undo()
        >>> type(tagger.loss_function).__name__
        'ViterbiLoss'
    """

    tagger: SequenceTagger
    changed: list[str]
    before: dict[str, Any]

    def undo(self) -> None:
        """Put Flair's own parts back."""
        for name, part in self.before.items():
            setattr(self.tagger, name, part)
        vars(self.tagger).pop("predict", None)
        restore_encoder(self.tagger)
        self.before = {}

    def __str__(self) -> str:
        return "\n".join(self.changed)


def accelerate(tagger: SequenceTagger, confidences: Literal["flair", "marginal"] = "flair") -> Acceleration:
    """Swap fast chain inference, and faster LSTMs, into a Flair tagger.

    Args:
        tagger: any `SequenceTagger` with a CRF; changed in place.
        confidences: `"flair"` keeps Flair's confidences, a softmax over scores of prefixes; `"marginal"`
            gives true probabilities: of tokens their marginals, of spans exactly that of the span.

    Returns:
        What was changed; print it, or call its `undo`.

    Example:
        >>> from flair.data import Dictionary
        >>> from flair.embeddings import OneHotEmbeddings
        >>> words, kinds = Dictionary(), Dictionary(add_unk=False)
        >>> numbers = [words.add_item("Ann"), kinds.add_item("PER")]
        >>> tagger = SequenceTagger(OneHotEmbeddings(words, embedding_length=4), kinds, "ner", hidden_size=4)
        >>> print(accelerate(tagger, confidences="marginal").changed[0])
        loss: compiled forward-backward, same values
    """
    if confidences not in ("flair", "marginal"):
        raise ValueError(f'confidences must be "flair" or "marginal", got {confidences!r}')
    if not tagger.use_crf:
        raise ValueError("the tagger has no CRF, so there is nothing to speed up: train it with use_crf=True")
    if isinstance(tagger.crf, EmissionScores):
        raise ValueError("the tagger is fast already")
    view = ChainView(tagger.label_dictionary, cast(Scheme, tagger.tag_format))
    before = {name: getattr(tagger, name) for name in ("loss_function", "viterbi_decoder", "crf")}
    decoder = ChainDecoder(view) if confidences == "marginal" else PrefixDecoder(view, tagger.viterbi_decoder)
    parts = {"loss_function": ChainLoss(view), "viterbi_decoder": decoder, "crf": EmissionScores(tagger.crf)}
    for name, part in parts.items():
        setattr(tagger, name, part)
    if isinstance(decoder, ChainDecoder):
        vars(tagger)["predict"] = _Predict(tagger, decoder)
    same = "same tags; confidences are exact probabilities" if confidences == "marginal" else "same results"
    changed = ["loss: compiled forward-backward, same values", f"decoding: compiled Viterbi, {same}"]
    return Acceleration(tagger, changed + speed_up_encoder(tagger), before)


class _Predict:
    """Flair's `predict`, which also tells the decoder whether spans or tokens are asked for."""

    def __init__(self, tagger: SequenceTagger, decoder: ChainDecoder) -> None:
        self.tagger, self.decoder = tagger, decoder

    def __call__(self, *args: Any, force_token_predictions: bool = False, **kwargs: Any) -> Any:
        self.decoder.scores_of = "tokens" if force_token_predictions else "spans"
        kwargs["force_token_predictions"] = force_token_predictions
        return type(self.tagger).predict(self.tagger, *args, **kwargs)
