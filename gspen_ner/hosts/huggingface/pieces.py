"""Pieces of words: which of a tokenizer's pieces begin a word, and how words lie among the pieces of a batch.

Words are given to a tokenizer one by one, and should get the mark of a word's beginning as in a text:

    "New York"  ->  "New", "ĠYork"          ["New", "York"]  ->  "ĠNew", "ĠYork"

An encoder knows "ĠYork" and hardly "York". Most tokenizers add the mark on demand (`add_prefix_space`); those
whose pre-tokenizer is a sequence (Llama 3, Qwen) ignore this option, and get a space in front of every word.

The token-classification pipeline passes pieces without their words. A piece then begins a word unless its
tokenizer marks it as the continuation of one ("##ing"; with byte-level and SentencePiece tokenizers, a piece
without the mark of a word's beginning that follows letters or digits). Punctuation is always a word of its
own, as in the corpora that taggers are trained on.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import normalizers
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from gspen_ner.hosts.huggingface.bio_view import BioView
from gspen_ner.polytopes import Chain
from gspen_ner.scorers.bilstm_cnn import padded

IGNORED = -100  # label of special pieces, of later pieces of a word, and of padding
MARKS = ("▁", "Ġ")  # of SentencePiece and of byte-level tokenizers
PROBE = ("a", "a")


def mark_of(pieces: Iterable[str | None]) -> str | None:
    """What the pieces of a vocabulary that begin a word begin with; None if nothing does.

    Many must do so: in some vocabularies a mark is a letter among others.
    """
    known = [piece for piece in pieces if piece is not None]
    return next((mark for mark in MARKS if sum(piece.startswith(mark) for piece in known) > 10), None)


def loses_marks(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether words have fewer marks by themselves than within a text."""
    mark = mark_of(tokenizer.get_vocab())
    if mark is None:
        return False
    text = tokenizer(" ".join(PROBE), add_special_tokens=False)["input_ids"]
    words = tokenizer(list(PROBE), is_split_into_words=True, add_special_tokens=False)["input_ids"]
    within, alone = ("".join(tokenizer.convert_ids_to_tokens(ids)).count(mark) for ids in (text, words))
    return alone < within


def with_marks(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer or, if it loses marks, a copy that puts a space before every word, and before a text."""
    if not loses_marks(tokenizer):
        return tokenizer
    mended = copy.deepcopy(tokenizer)
    backend = mended.backend_tokenizer
    before = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *before])
    return mended


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


class PieceLayout(NamedTuple):
    """Where words begin, and which pieces belong to any."""

    starts: Bool[Tensor, "B S"]
    belongs: Bool[Tensor, "B S"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, kinds: Int[Tensor, "B S"], attention_mask: Tensor, labels: Tensor | None) -> PieceLayout:
        """The layout that labels tell or, without any, the kinds of the pieces."""
        starts, belongs = find_words(kinds, attention_mask)
        if labels is not None:
            starts = labels != IGNORED
        starts[:, 0] |= ~starts.any(1)  # a row without words: a chain needs at least one
        return cls(starts, belongs | starts, starts.sum(1))

    def by_words(self, labels: Int[Tensor, "B S"], bio: BioView) -> Int[Tensor, "B T"]:
        """Labels of the words; what stands for one in a row without words is O."""
        present = Chain(self.lengths).mask(int(self.lengths.max()))
        found = labels[self.starts]
        found = found.masked_fill(found == IGNORED, bio.names.index("O"))
        return padded(found[:, None], present).squeeze(-1)

    def by_pieces(self, marginals: Float[Tensor, "B T K"], bio: BioView) -> Float[Tensor, "B S K"]:
        """Marginals of the pieces, which are those of their words; special ones are O."""
        word = (self.starts.cumsum(1) - 1).clamp_min(0)[..., None].expand(-1, -1, marginals.shape[-1])
        first, later = marginals.gather(1, word), bio.inside(marginals).gather(1, word)
        outside = torch.zeros_like(first)
        outside[..., bio.names.index("O")] = 1.0
        found = torch.where(self.starts[..., None], first, later)
        return torch.where(self.belongs[..., None], found, outside)
