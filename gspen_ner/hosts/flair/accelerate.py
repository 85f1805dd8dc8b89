"""Faster training and prediction for a plain Flair tagger, and exact probabilities if wanted.

Results stay the same: losses agree to rounding, best tags are equal, files that the tagger saves are Flair's
own, and `undo` restores everything. Methods are replaced on the module objects, so that weights and their
names stay Flair's.

Flair reads characters sentence by sentence, and of the backward direction it keeps the output at a word's
last character: one step. Here one LSTM reads the distinct words of a whole batch. Flair also gives a word
that occurs again later in its sentence the vector of another word: the word at the same position in
the sentence's words sorted by length, longest first. Results are kept as they are, so this is kept too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from flair.data import Sentence
from flair.embeddings import CharacterEmbeddings
from flair.models import SequenceTagger
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, pad_sequence

from gspen_ner.hosts.flair.chain import ChainDecoder, ChainLoss, ChainView, EmissionScores, PrefixDecoder
from gspen_ner.scorers.bilstm_cnn import mirror

Spelling = tuple[int, ...]


@dataclass
class Acceleration:
    """Changes of a tagger, which can be undone.

    Args:
        tagger: the tagger.
        changed: a description of each change.
        before: the parts that were replaced, by name.

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
        """Restore Flair's own parts."""
        for name, part in self.before.items():
            setattr(self.tagger, name, part)
        vars(self.tagger).pop("predict", None)
        if self.tagger.use_rnn:
            vars(self.tagger.rnn).pop("forward", None)
        for characters in _character_embeddings(self.tagger):
            vars(characters).pop("_add_embeddings_internal", None)
        self.before = {}

    def __str__(self) -> str:
        return "\n".join(self.changed)


def accelerate(tagger: SequenceTagger, confidences: Literal["flair", "marginal"] = "flair") -> Acceleration:
    """Swap fast chain inference, and faster LSTMs, into a Flair tagger.

    Args:
        tagger: any `SequenceTagger` with a CRF; changed in place.
        confidences: `"flair"` (default) keeps Flair's confidences, a softmax over scores of prefixes;
            `"marginal"` gives marginals of tokens, and exact probabilities of spans under the model.

    Returns:
        The changes; print them, or call their `undo`.

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
    view = ChainView(tagger)
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
    """Flair's `predict`, which also tells the decoder whether spans or tokens are predicted."""

    def __init__(self, tagger: SequenceTagger, decoder: ChainDecoder) -> None:
        self.tagger, self.decoder = tagger, decoder

    def __call__(self, *args: Any, force_token_predictions: bool = False, **kwargs: Any) -> Any:
        self.decoder.scores_of = "tokens" if force_token_predictions else "spans"
        kwargs["force_token_predictions"] = force_token_predictions
        return type(self.tagger).predict(self.tagger, *args, **kwargs)


def speed_up_encoder(tagger: SequenceTagger) -> list[str]:
    """Replace methods by faster ones, and return a description of each change."""
    changed = []
    if tagger.use_rnn and _is_plain(tagger.rnn):
        vars(tagger.rnn)["forward"] = TwoDirections(tagger.rnn)
        changed.append("LSTM: two padded directions instead of packed sequences, same outputs")
    for characters in _character_embeddings(tagger):
        vars(characters)["_add_embeddings_internal"] = BatchedCharacters(characters)
        changed.append("character embeddings: a whole batch at once, same vectors")
    return changed


def _character_embeddings(tagger: SequenceTagger) -> list[CharacterEmbeddings]:
    return [module for module in tagger.embeddings.modules() if type(module) is CharacterEmbeddings]


def _is_plain(rnn: nn.Module) -> bool:
    """Return whether the fast method computes what the module computes."""
    return (
        isinstance(rnn, nn.LSTM)
        and rnn.bidirectional
        and rnn.num_layers == 1
        and rnn.batch_first
        and rnn.bias
        and rnn.proj_size == 0
    )


class TwoDirections:
    """A bidirectional LSTM layer as two that read padded sentences, one of them from their ends."""

    def __init__(self, lstm: Any) -> None:
        self.lstm = lstm

    def __call__(self, packed: PackedSequence, state: Any = None) -> tuple[Any, Any]:
        unusual = not isinstance(packed, PackedSequence) or packed.sorted_indices is not None
        if unusual or state is not None:
            return nn.LSTM.forward(self.lstm, packed, state)
        inputs, lengths = pad_packed_sequence(packed, batch_first=True)
        weights = self.lstm._flat_weights
        lengths = lengths.to(inputs.device)
        size, training = self.lstm.hidden_size, self.lstm.training
        ahead = one_way(inputs, weights[:4], size, training)
        back = mirror(one_way(mirror(inputs, lengths), weights[4:], size, training), lengths)
        outputs = torch.cat([ahead, back], -1)
        return pack_padded_sequence(outputs, lengths.cpu(), batch_first=True), None  # Flair reads no state


class BatchedCharacters:
    """Replaces `CharacterEmbeddings._add_embeddings_internal`, with the same weights."""

    def __init__(self, embeddings: CharacterEmbeddings) -> None:
        self.embeddings = embeddings

    def __call__(self, sentences: list[Sentence]) -> None:
        index = self.embeddings.char_dictionary.get_idx_for_item
        numbers: dict[Spelling, int] = {}
        wanted: list[int] = []
        for sentence in sentences:
            spellings = [tuple(index(character) for character in token.text) for token in sentence.tokens]
            wanted += [numbers.setdefault(s, len(numbers)) for s in as_flair_mixes_them(spellings)]
        vectors = self._read(list(numbers))[wanted].unbind()
        tokens = [token for sentence in sentences for token in sentence.tokens]
        for token, vector in zip(tokens, vectors, strict=True):
            token.set_embedding(self.embeddings.name, vector)

    def _read(self, spellings: Sequence[Spelling]) -> Tensor:
        """Return the vectors of words."""
        weights = self.embeddings.char_rnn._flat_weights
        device = self.embeddings.char_embedding.weight.device
        lengths = torch.tensor([len(spelling) for spelling in spellings], device=device)
        rows = pad_sequence([torch.tensor(spelling) for spelling in spellings], batch_first=True)
        characters = self.embeddings.char_embedding(rows.to(device))
        word, last = torch.arange(len(spellings), device=device), lengths - 1
        size, training = self.embeddings.hidden_size_char, self.embeddings.training
        ahead = one_way(characters, weights[:4], size, training)[word, last]
        back = one_way(characters[word, last][:, None], weights[4:], size, training)[:, 0]
        return torch.cat([ahead, back], 1)


def as_flair_mixes_them(spellings: Sequence[Spelling]) -> list[Spelling]:
    """Return for each word of a sentence the word whose vector Flair gives it.

    Example:
        >>> as_flair_mixes_them([(1,), (2, 3), (1,)])
        [(2, 3), (2, 3), (1,)]
    """
    last = {spelling: position for position, spelling in enumerate(spellings)}
    longest_first = sorted(spellings, key=len, reverse=True)
    return [
        spelling if last[spelling] == position else longest_first[position]
        for position, spelling in enumerate(spellings)
    ]


def one_way(inputs: Tensor, weights: Any, hidden_size: int, training: bool) -> Tensor:
    """Return the outputs `[B, T, hidden_size]` of an LSTM layer that starts from zeros.

    Args:
        inputs: inputs `[B, T, D]`.
        weights: input and hidden weights and biases, four tensors of `nn.LSTM`.
        hidden_size: number of units of the layer.
        training: whether gradients will be computed.
    """
    zeros = inputs.new_zeros(1, len(inputs), hidden_size)
    return torch._VF.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, training, False, True)[0]
