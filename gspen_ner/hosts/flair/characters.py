"""Flair's character embeddings for a whole batch at once: one LSTM over its distinct words.

Flair reads sentence by sentence, and of the backward direction it keeps the output at a word's last
character: one step. It also gives a word that occurs again later in its sentence the vector of another word
(that of the sentence's words, longest first, at its place). Results are kept as they are, so this is too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from flair.data import Sentence
from flair.embeddings import CharacterEmbeddings
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gspen_ner.hosts.flair.lstm import one_way

Spelling = tuple[int, ...]


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
