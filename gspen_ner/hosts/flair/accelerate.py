"""Faster training and prediction for a plain Flair tagger, and true confidences if wanted.

Nothing is learned and nothing is lost: losses agree to rounding, best tags are the same, files that the
tagger saves are Flair's own, and `undo` puts everything back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from flair.data import Sentence
from flair.models import SequenceTagger
from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder
from torch import Tensor

from gspen_ner.decode import label_lists
from gspen_ner.hosts.flair.chain_view import ChainView, EmissionScores, FlairScores
from gspen_ner.hosts.flair.decoding import ChainDecoder, ChainLoss, Decoded
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


class PrefixDecoder:
    """Best tags by the compiled kernel, with the confidences that Flair gives.

    Args:
        view: the tags.
        original: Flair's decoder, which lays out the scores of all classes.
    """

    def __init__(self, view: ChainView, original: ViterbiDecoder) -> None:
        self.view, self.original = view, original

    def decode(self, scores: FlairScores, all_classes: bool, sentences: list[Sentence]) -> Decoded:
        """As Flair's own."""
        theta, chain = self.view.potentials(scores)
        paths = label_lists(chain.argmax(theta))
        prefixes = torch.softmax(self._prefix_scores(*scores), 2)
        confidences = prefixes.max(2).values.tolist()
        tags = [
            [(self.view.names[number], score) for number, score in zip(path, row, strict=False)]
            for path, row in zip(paths, confidences, strict=True)
        ]
        if not all_classes:
            return tags, []
        padded = torch.zeros(prefixes.shape[:2], dtype=torch.long)
        for row, path in enumerate(paths):
            padded[row, : len(path)] = torch.tensor([self.view.live[number] for number in path])
        return tags, self.original._all_scores_for_token(
            prefixes.cpu(), padded, cast(Any, scores[1]), sentences
        )

    def _prefix_scores(self, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
        """The best score of any path that ends in a tag at a position, START and STOP included."""
        best = emissions[:, 0] + transitions[:, self.view.start]
        steps = [best]
        for place in range(1, emissions.shape[1]):
            best = (best[:, None] + transitions).amax(2) + emissions[:, place]
            steps.append(best)
        return torch.stack(steps, 1)


class _Predict:
    """Flair's `predict`, which also tells the decoder whether spans or tokens are asked for."""

    def __init__(self, tagger: SequenceTagger, decoder: ChainDecoder) -> None:
        self.tagger, self.decoder = tagger, decoder

    def __call__(self, *args: Any, force_token_predictions: bool = False, **kwargs: Any) -> Any:
        self.decoder.scores_of = "tokens" if force_token_predictions else "spans"
        kwargs["force_token_predictions"] = force_token_predictions
        return type(self.tagger).predict(self.tagger, *args, **kwargs)
