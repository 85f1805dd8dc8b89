"""Flair embeddings of a recipe's entries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from flair.data import Dictionary
from flair.embeddings import (
    CharacterEmbeddings,
    FlairEmbeddings,
    StackedEmbeddings,
    TokenEmbeddings,
    TransformerWordEmbeddings,
    WordEmbeddings,
)

from gspen_ner.ner.files import TaggedSentence
from gspen_ner.recipe.flair import (
    CharacterEntry,
    EmbeddingEntry,
    FlairEntry,
    TransformerEntry,
    WordEntry,
)
from gspen_ner.recipe.loading import expand
from gspen_ner.scorers import WordVectors


def make_embeddings(entries: Sequence[EmbeddingEntry], train: Sequence[TaggedSentence]) -> TokenEmbeddings:
    """Return the embeddings of a tagger, stacked in their order."""
    parts = [_make(entry, train) for entry in entries]
    return parts[0] if len(parts) == 1 else StackedEmbeddings(parts)


def _make(entry: EmbeddingEntry, train: Sequence[TaggedSentence]) -> TokenEmbeddings:
    match entry:
        case WordEntry():
            return word_embeddings(WordVectors.read(expand(entry.file), entry.size), entry.fine_tune)
        case CharacterEntry():
            return CharacterEmbeddings(_characters(train), entry.size, entry.hidden)
        case FlairEntry():
            return FlairEmbeddings(entry.model)
        case TransformerEntry():
            return TransformerWordEmbeddings(
                expand(entry.model), layers=entry.layers, fine_tune=entry.fine_tune, use_context=False
            )


def word_embeddings(vectors: WordVectors, fine_tune: bool = False) -> WordEmbeddings:
    """Return Flair's word embeddings of vectors in memory, without gensim."""
    size = vectors.vectors.shape[1]
    vocabulary = {word: number for number, word in enumerate(vectors.words)}
    embeddings = WordEmbeddings(
        None, fine_tune=fine_tune, vocab=vocabulary, embedding_length=size, name="word vectors"
    )
    with torch.no_grad():  # the last row stays zero: it is the vector of unknown words
        embeddings.embedding.weight[: len(vectors.words)] = torch.from_numpy(vectors.vectors)
    return embeddings


def _characters(train: Sequence[TaggedSentence]) -> Dictionary:
    """Return the characters of the training data."""
    dictionary = Dictionary(add_unk=True)
    for character in sorted({c for sentence in train for token in sentence.tokens for c in token}):
        dictionary.add_item(character)
    return dictionary
