"""A faster LSTM and faster character embeddings in a Flair tagger, with unchanged results.

Methods are replaced on the module objects, so that weights, their names and saved files stay Flair's.
"""

from __future__ import annotations

from typing import Any

import torch
from flair.embeddings import CharacterEmbeddings
from flair.models import SequenceTagger
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from gspen_ner.hosts.flair.characters import BatchedCharacters
from gspen_ner.hosts.flair.lstm import one_way
from gspen_ner.scorers.bilstm_cnn import mirror


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
