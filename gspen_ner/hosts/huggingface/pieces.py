"""Tokenisation: words as what a scorer reads, and where words begin among a tokenizer's pieces.

The BiLSTM-CNN reads numbers of words and spellings, a transformer the pieces of its tokenizer. Words are
given to a tokenizer one by one, and should get the mark of a word's beginning as in a text:

    "New York"  ->  "New", "ĠYork"          ["New", "York"]  ->  "ĠNew", "ĠYork"

An encoder knows "ĠYork" and hardly "York". Most tokenizers add the mark on demand (`add_prefix_space`); those
whose pre-tokenizer is a sequence (Llama 3, Qwen) ignore this option, and get a space before every word.

The token-classification pipeline passes pieces without their words. A piece then begins a word unless its
tokenizer marks it as the continuation of one ("##ing"; with byte-level and SentencePiece tokenizers, a piece
without the mark of a word's beginning that follows letters or digits). Punctuation is always a word of its
own, as in the corpora that taggers are trained on.
"""

from __future__ import annotations

import copy
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import normalizers
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import cached_file

from gspen_ner.hosts.huggingface.config import BioView, GSPENConfig
from gspen_ner.polytopes import Chain
from gspen_ner.scorers import Vocabulary, spell_out
from gspen_ner.scorers.bilstm_cnn import padded
from gspen_ner.scorers.vocabulary import FILE_NAME as VOCABULARY_FILE

logger = logging.getLogger(__name__)
IGNORED = -100  # label of special pieces, of later pieces of a word, and of padding
MARKS = ("▁", "Ġ")  # of SentencePiece and of byte-level tokenizers
PROBE = ("a", "a")
NO_LIMIT = 10**9  # pieces of a sentence; the scorer reads long sentences in windows, so nothing is cut off
CONTEXT_COLUMNS = ("context_before", "context_after")  # columns of a dataset; see `Neighbours`
TOKENIZER_FILE = "tokenizer.json"
HUB_OPTIONS = ("revision", "token", "cache_dir", "subfolder", "local_files_only", "force_download")


class Neighbours(NamedTuple):
    """Words before and after a sentence, which a transformer reads along with it."""

    before: Sequence[str] = ()
    after: Sequence[str] = ()


class Reader(Protocol):
    """Makes the inputs of a scorer; saved and loaded with its model."""

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        """Return the sentences of a batch as tensors."""

    def save(self, folder: Path) -> None:
        """Write what `load_reader` needs."""


@dataclass(frozen=True)
class WordReader:
    """Reads words and spellings by their numbers in a vocabulary, for the BiLSTM-CNN."""

    vocabulary: Vocabulary

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        spellings, spelling_at = spell_out(sentences, self.vocabulary)
        words = torch.zeros_like(spelling_at)
        for row, tokens in enumerate(sentences):
            words[row, : len(tokens)] = torch.tensor(self.vocabulary.word_numbers(tokens))
        return {"words": words, "spellings": spellings, "spelling_at": spelling_at}

    def sizes(self) -> dict[str, int]:
        """Return the options of `BiLSTMCNN` that depend on the vocabulary."""
        return {
            "trained_words": self.vocabulary.trained,
            "fixed_words": len(self.vocabulary.words) - self.vocabulary.trained,
            "characters": len(self.vocabulary.characters),
        }

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder)


class PieceReader:
    """Reads words as pieces, and tells which pieces begin a word, for transformers.

    A word of which the tokenizer leaves nothing (a control character, say) is read as an unknown one, so that
    every word has a node in the chain.

    Args:
        tokenizer: a fast tokenizer; a copy of it is used.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if not tokenizer.is_fast:
            raise ValueError(
                f"{type(tokenizer).__name__} is a slow tokenizer, which does not tell words from pieces; "
                "a fast one is needed"
            )
        self.tokenizer = copy.deepcopy(tokenizer)
        self.tokenizer.model_max_length = NO_LIMIT
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token or self.tokenizer.unk_token
        if loses_marks(self.tokenizer):
            logger.warning(
                "%s reads words one by one without the mark of a word's beginning that they have within a "
                "text, so that the encoder hardly knows them: give it add_prefix_space=True, or take another",
                type(tokenizer).__name__,
            )

    def inputs(
        self, sentences: Sequence[Sequence[str]], context: Sequence[Neighbours] | None = None
    ) -> dict[str, Tensor]:
        """Return the pieces of sentences and their context; word starts are those of the sentences alone."""
        if context is None:
            context = [Neighbours()] * len(sentences)
        texts: list[Sequence[str]] = [
            [*before, *tokens, *after] for tokens, (before, after) in zip(sentences, context, strict=True)
        ]
        encoded, starts = self._read(texts)
        if [len(row) for row in starts] != [len(words) for words in texts]:
            unknown = self.tokenizer.unk_token or "?"
            texts = [
                [word if number in row else unknown for number, word in enumerate(words)]
                for words, row in zip(texts, starts, strict=True)
            ]
            encoded, starts = self._read(texts)
        word_starts = torch.zeros_like(encoded["input_ids"], dtype=torch.bool)
        for number, row in enumerate(starts):
            first = len(context[number].before)
            own = list(row.values())[first : first + len(sentences[number])]
            word_starts[number, own] = True
        return {**encoded, "word_starts": word_starts}

    def piece_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of pieces of each word; one that the tokenizer leaves out is read as unknown."""
        encoded = self.tokenizer([list(words)], is_split_into_words=True, add_special_tokens=False)
        counts = Counter(encoded.word_ids(0))
        return [max(counts[number], 1) for number in range(len(words))]

    def _read(self, sentences: Sequence[Sequence[str]]) -> tuple[dict[str, Tensor], list[dict[int, int]]]:
        """Return the pieces and, for each sentence, the position of the first piece of each word."""
        encoded = self.tokenizer(
            [list(tokens) for tokens in sentences],
            is_split_into_words=True,
            padding=True,
            truncation=False,
            return_tensors="pt",
            return_attention_mask=True,
        )
        starts: list[dict[int, int]] = [{} for _ in sentences]
        for row, first in enumerate(starts):
            for position, word in enumerate(encoded.word_ids(row)):
                if word is not None:
                    first.setdefault(word, position)
        return dict(encoded), starts

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)


def load_reader(name: str | Path, config: GSPENConfig, **options: Any) -> Reader:
    """Return the reader of a model in a folder or, with HUB_OPTIONS such as `revision`, on the hub."""
    if config.encoder is not None:
        tokenizer = _own_tokenizer(name, options)
        largest, pieces = max(tokenizer.get_vocab().values(), default=0), config.scorer.get("pieces")
        if pieces is not None and largest >= pieces:
            raise ValueError(f"{name}: expected a tokenizer of {pieces} pieces, got one with piece {largest}")
        return PieceReader(tokenizer)
    folder = Path(name)
    if not folder.is_dir():
        folder = Path(str(cached_file(name, VOCABULARY_FILE, **options))).parent
    reader = WordReader(Vocabulary.load(folder))
    for what, size in reader.sizes().items():
        expected = config.scorer.get(what)
        if expected != size:
            file = folder / VOCABULARY_FILE
            raise ValueError(f"{file}: expected {expected} {what}, as config.json says, got {size}")
    return reader


def _own_tokenizer(name: str | Path, options: Mapping[str, Any]) -> PreTrainedTokenizerBase:
    """Return the tokenizer saved with a model; transformers gives no clear error for a broken one."""
    folder = Path(name, options.get("subfolder") or "")
    if folder.is_dir() and not (folder / TOKENIZER_FILE).is_file():
        raise ValueError(f"{folder}: {TOKENIZER_FILE} is missing")
    try:
        return load_tokenizer(name, trust_remote_code=False, **options)
    except OSError:
        raise
    except Exception as error:  # of any class: tokenizers has none of its own
        raise ValueError(f"{name}: the tokenizer of this model cannot be read: {error}") from error


def load_tokenizer(name: str | Path, **options: Any) -> PreTrainedTokenizerBase:
    """Return the fast tokenizer of a model, set to read words one by one."""
    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    if getattr(tokenizer, "add_prefix_space", True):
        return tokenizer
    return AutoTokenizer.from_pretrained(name, add_prefix_space=True, **options)


def mark_of(pieces: Iterable[str | None]) -> str | None:
    """Return the mark with which a vocabulary's pieces begin a word; None if it has no mark.

    Many must have it: in some vocabularies a mark is a letter among others.
    """
    known = [piece for piece in pieces if piece is not None]
    return next((mark for mark in MARKS if sum(piece.startswith(mark) for piece in known) > 10), None)


def loses_marks(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether words have fewer marks by themselves than within a text."""
    mark = mark_of(tokenizer.get_vocab())
    if mark is None:
        return False
    text = tokenizer(" ".join(PROBE), add_special_tokens=False)["input_ids"]
    words = tokenizer(list(PROBE), is_split_into_words=True, add_special_tokens=False)["input_ids"]
    within, alone = ("".join(tokenizer.convert_ids_to_tokens(ids)).count(mark) for ids in (text, words))
    return alone < within


def with_marks(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer or, if it loses marks, a copy that puts a space before every word and text."""
    if not loses_marks(tokenizer):
        return tokenizer
    mended = copy.deepcopy(tokenizer)
    backend = mended.backend_tokenizer
    before = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *before])
    return mended


class PieceKind(IntEnum):
    """Class of a piece; MARK is the mark of a word's beginning without anything of the word."""

    SPECIAL = 0
    BEGINS = 1
    CONTINUES = 2
    PUNCTUATION = 3
    MARK = 4


def piece_kinds(tokenizer: PreTrainedTokenizerBase) -> Int[Tensor, " V"]:
    """Return the `PieceKind` of every piece of a vocabulary."""
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
    """Return the text of a piece; pieces of byte-level tokenizers consist of bytes, not of characters."""
    return tokenizer.convert_tokens_to_string([piece]) if begins == "Ġ" else piece


def _has_letters(text: str) -> bool:
    """Return whether there are letters, digits or vowel signs; parts of a character's bytes are letters."""
    return any(char == "\ufffd" or unicodedata.category(char)[0] in "LMN" for char in text)


def find_words(
    kinds: Int[Tensor, "B S"], attention_mask: Tensor
) -> tuple[Bool[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return where words begin, and which pieces belong to any word.

    Args:
        kinds: `PieceKind` of each piece of a batch.
        attention_mask: 0 for padding.
    """
    belongs = (kinds != PieceKind.SPECIAL) & attention_mask.bool()
    before = torch.cat([torch.zeros_like(kinds[:, :1]), kinds.where(belongs, 0)[:, :-1]], 1)
    after_mark = before == PieceKind.MARK
    after_letters = after_mark | (before == PieceKind.BEGINS) | (before == PieceKind.CONTINUES)
    continues = (kinds == PieceKind.CONTINUES) & after_letters
    return belongs & ~(continues | ((kinds == PieceKind.PUNCTUATION) & after_mark)), belongs


class PieceLayout(NamedTuple):
    """Where words begin among the pieces of a batch, which pieces belong to any, and the number of words."""

    starts: Bool[Tensor, "B S"]
    belongs: Bool[Tensor, "B S"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, kinds: Int[Tensor, "B S"], attention_mask: Tensor, labels: Tensor | None) -> PieceLayout:
        """Return the layout that labels show or, without labels, the kinds of the pieces."""
        starts, belongs = find_words(kinds, attention_mask)
        if labels is not None:
            starts = labels != IGNORED
        starts[:, 0] |= ~starts.any(1)  # a row without words: a chain needs at least one
        return cls(starts, belongs | starts, starts.sum(1))

    def by_words(self, labels: Int[Tensor, "B S"], bio: BioView) -> Int[Tensor, "B T"]:
        """Return the labels of the words; the stand-in for a word in a row without words is O."""
        present = Chain(self.lengths).mask(int(self.lengths.max()))
        of_words = labels[self.starts]
        of_words = of_words.masked_fill(of_words == IGNORED, bio.outside)
        return padded(of_words[:, None], present).squeeze(-1)

    def by_pieces(self, marginals: Float[Tensor, "B T K"], bio: BioView) -> Float[Tensor, "B S K"]:
        """Return the marginals of the pieces: each has the marginals of its word; special pieces are O."""
        word = (self.starts.cumsum(1) - 1).clamp_min(0)[..., None].expand(-1, -1, marginals.shape[-1])
        first, later = marginals.gather(1, word), bio.inside(marginals).gather(1, word)
        outside = torch.zeros_like(first)
        outside[..., bio.outside] = 1.0
        of_words = torch.where(self.starts[..., None], first, later)
        return torch.where(self.belongs[..., None], of_words, outside)
