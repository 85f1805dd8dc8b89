"""Which pieces of a tokenizer begin a word, where nobody says so.

The token-classification pipeline passes pieces without their words. A piece then begins a word unless its
tokenizer marks it as the continuation of one ("##ing"; with byte-level and SentencePiece tokenizers, a piece
that lacks the mark of a word's beginning and follows a piece of letters or digits). Punctuation is always a
word of its own, as in the corpora that taggers learn from.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase


class PieceKind(IntEnum):
    """What a piece is, as a tagger needs to know it."""

    SPECIAL = 0
    BEGINS = 1
    CONTINUES = 2
    PUNCTUATION = 3


def piece_kinds(tokenizer: PreTrainedTokenizerBase) -> Int[Tensor, " V"]:
    """The kind of every piece of a vocabulary."""
    size = max(tokenizer.get_vocab().values()) + 1  # some vocabularies have gaps
    pieces = tokenizer.convert_ids_to_tokens(list(range(size)))
    begins = next((mark for mark in ("▁", "Ġ") if _occurs(mark, pieces)), None)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    kinds = torch.full((size,), PieceKind.BEGINS, dtype=torch.int8)
    for number, piece in enumerate(pieces):
        if number in special or piece is None:
            kinds[number] = PieceKind.SPECIAL
        elif piece.startswith("##") and begins is None:
            kinds[number] = PieceKind.CONTINUES
        elif not any(map(str.isalnum, piece.strip("▁Ġ"))) and number != tokenizer.unk_token_id:
            kinds[number] = PieceKind.PUNCTUATION
        elif begins is not None and not piece.startswith(begins):
            kinds[number] = PieceKind.CONTINUES
    return kinds


def _occurs(mark: str, pieces: Iterable[str | None]) -> bool:
    """Whether many pieces begin with a mark: in some vocabularies it is a letter among others."""
    return sum(piece is not None and piece.startswith(mark) for piece in pieces) > 10


def find_words(
    kinds: Int[Tensor, "B S"], attention_mask: Tensor
) -> tuple[Bool[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Where words begin, and which pieces belong to any word.

    Args:
        kinds: of the pieces of a batch.
        attention_mask: 0 for padding.
    """
    belongs = (kinds != PieceKind.SPECIAL) & attention_mask.bool()
    letters = (kinds == PieceKind.BEGINS) | (kinds == PieceKind.CONTINUES)
    after_letters = torch.cat([torch.zeros_like(letters[:, :1]), letters[:, :-1] & belongs[:, :-1]], 1)
    return belongs & ~((kinds == PieceKind.CONTINUES) & after_letters), belongs
