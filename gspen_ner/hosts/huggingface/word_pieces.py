"""Which pieces of a tokenizer begin a word, where nobody says so.

The token-classification pipeline passes pieces without their words. A piece then begins a word unless its
tokenizer marks it as the continuation of one ("##ing"; with byte-level and SentencePiece tokenizers, a piece
that lacks the mark of a word's beginning and follows a piece of letters or digits). Punctuation is always a
word of its own, as in the corpora that taggers learn from.
"""

from __future__ import annotations

import unicodedata
from enum import IntEnum

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from gspen_ner.hosts.huggingface.word_marks import mark_of


class PieceKind(IntEnum):
    """What a piece is, as a tagger needs to know it."""

    SPECIAL = 0
    BEGINS = 1
    CONTINUES = 2
    PUNCTUATION = 3
    MARK = 4
    """The mark of a word's beginning without anything of the word."""


def piece_kinds(tokenizer: PreTrainedTokenizerBase) -> Int[Tensor, " V"]:
    """The kind of every piece of a vocabulary."""
    size = max(tokenizer.get_vocab().values()) + 1  # some vocabularies have gaps
    pieces = tokenizer.convert_ids_to_tokens(list(range(size)))
    begins = mark_of(pieces)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    kinds = torch.full((size,), PieceKind.BEGINS, dtype=torch.int8)
    for number, piece in enumerate(pieces):
        if number in special or piece is None:
            kinds[number] = PieceKind.SPECIAL
        elif piece.startswith("##") and begins is None:
            kinds[number] = PieceKind.CONTINUES
        elif begins is not None and not piece.strip(begins):
            kinds[number] = PieceKind.MARK
        elif not _has_letters(_text(piece, begins, tokenizer)) and number != tokenizer.unk_token_id:
            kinds[number] = PieceKind.PUNCTUATION
        elif begins is not None and not piece.startswith(begins):
            kinds[number] = PieceKind.CONTINUES
    return kinds


def _text(piece: str, begins: str | None, tokenizer: PreTrainedTokenizerBase) -> str:
    """What a piece stands for: those of byte-level tokenizers spell bytes, not characters."""
    return tokenizer.convert_tokens_to_string([piece]) if begins == "Ġ" else piece


def _has_letters(text: str) -> bool:
    """Whether there are letters, digits, or vowel signs; part of a character's bytes counts as a letter."""
    return any(char == "\ufffd" or unicodedata.category(char)[0] in "LMN" for char in text)


def find_words(
    kinds: Int[Tensor, "B S"], attention_mask: Tensor
) -> tuple[Bool[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Where words begin, and which pieces belong to any word.

    Args:
        kinds: of the pieces of a batch.
        attention_mask: 0 for padding.
    """
    belongs = (kinds != PieceKind.SPECIAL) & attention_mask.bool()
    before = torch.cat([torch.zeros_like(kinds[:, :1]), kinds.where(belongs, 0)[:, :-1]], 1)
    after_mark = before == PieceKind.MARK
    after_letters = after_mark | (before == PieceKind.BEGINS) | (before == PieceKind.CONTINUES)
    continues = (kinds == PieceKind.CONTINUES) & after_letters
    return belongs & ~(continues | ((kinds == PieceKind.PUNCTUATION) & after_mark)), belongs
