"""A faster LSTM and faster character embeddings in a Flair tagger, with unchanged results.

Methods are replaced on the module objects, so that weights, their names and saved files stay Flair's.

Flair reads characters sentence by sentence, and of the backward direction it keeps the output at a word's
last character: one step. Here one LSTM reads the distinct words of a whole batch. Flair also gives a word
that occurs again later in its sentence the vector of another word (that of the sentence's words, longest
first, at its position). Results are kept as they are, so this is kept too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from flair.data import Sentence
from flair.embeddings import CharacterEmbeddings
from flair.models import SequenceTagger
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, pad_sequence

from gspen_ner.scorers.bilstm_cnn import mirror

Spelling = tuple[int, ...]


def speed_up_encoder(tagger: SequenceTagger) -> list[str]:
    """Swap the faster methods in; says what was done."""
    changed = []
    if tagger.use_rnn and _is_plain(tagger.rnn):
        vars(tagger.rnn)["forward"] = TwoDirections(tagger.rnn)
        changed.append("LSTM: two padded directions instead of packed sequences, same outputs")
    for characters in _character_embeddings(tagger):
        vars(characters)["_add_embeddings_internal"] = BatchedCharacters(characters)
        changed.append("character embeddings: a whole batch at once, same vectors")
    return changed


def restore_encoder(tagger: SequenceTagger) -> None:
    """Flair's own methods again."""
    if tagger.use_rnn:
        vars(tagger.rnn).pop("forward", None)
    for characters in _character_embeddings(tagger):
        vars(characters).pop("_add_embeddings_internal", None)


def _character_embeddings(tagger: SequenceTagger) -> list[CharacterEmbeddings]:
    return [module for module in tagger.embeddings.modules() if type(module) is CharacterEmbeddings]


def _is_plain(rnn: nn.Module) -> bool:
    """Whether the fast path computes what the module computes."""
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
    """In place of `CharacterEmbeddings._add_embeddings_internal`.

    Args:
        embeddings: whose weights are used.
    """

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
        """The vectors of words."""
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
    """Whose vector each word of a sentence gets.

    Example:
        >>> as_flair_mixes_them([(1,), (2, 3), (1,)])
        [(2, 3), (2, 3), (1,)]
    """
    last = {spelling: place for place, spelling in enumerate(spellings)}
    longest_first = sorted(spellings, key=len, reverse=True)
    return [
        spelling if last[spelling] == place else longest_first[place]
        for place, spelling in enumerate(spellings)
    ]


def one_way(inputs: Tensor, weights: Any, hidden_size: int, training: bool) -> Tensor:
    """Outputs `[B, T, hidden_size]` of a layer that starts from zeros.

    Args:
        inputs: `[B, T, D]`.
        weights: input and hidden weights and biases, four tensors of `nn.LSTM`.
        hidden_size: of the layer.
        training: whether gradients will be wanted.
    """
    zeros = inputs.new_zeros(1, len(inputs), hidden_size)
    return torch._VF.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, training, False, True)[0]
