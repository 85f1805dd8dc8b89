"""Words as what a scorer reads: numbers of words and spellings, or the pieces of a tokenizer."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import cached_file

from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.pieces import loses_marks
from gspen_ner.scorers import Vocabulary, spell_out
from gspen_ner.scorers.vocabulary import FILE_NAME as VOCABULARY_FILE

logger = logging.getLogger(__name__)
NO_LIMIT = 10**9  # of a tokenizer: the scorer reads what is too long in windows, so nothing is to be cut off
TOKENIZER_FILE = "tokenizer.json"
HUB_OPTIONS = ("revision", "token", "cache_dir", "subfolder", "local_files_only", "force_download")


class Reader(Protocol):
    """Makes the inputs of a scorer; saved and loaded with its model."""

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        """The sentences of a batch as tensors."""

    def save(self, folder: Path) -> None:
        """Write what `load_reader` needs."""


@dataclass(frozen=True)
class WordReader:
    """For the BiLSTM-CNN: numbers of words, and spellings."""

    vocabulary: Vocabulary

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        spellings, spelling_at = spell_out(sentences, self.vocabulary)
        words = torch.zeros_like(spelling_at)
        for row, tokens in enumerate(sentences):
            words[row, : len(tokens)] = torch.tensor(self.vocabulary.word_numbers(tokens))
        return {"words": words, "spellings": spellings, "spelling_at": spelling_at}

    def sizes(self) -> dict[str, int]:
        """What a `BiLSTMCNN` must be told of the vocabulary."""
        return {
            "trained_words": self.vocabulary.trained,
            "fixed_words": len(self.vocabulary.words) - self.vocabulary.trained,
            "characters": len(self.vocabulary.characters),
        }

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder)


class PieceReader:
    """For transformers: pieces, and which of them begin a word.

    A word of which the tokenizer leaves nothing (a control character, say) is read as an unknown one, so that
    every word has its place in the chain.

    Args:
        tokenizer: a fast one.
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

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        encoded, starts = self._read(sentences)
        if [len(found) for found in starts] != [len(tokens) for tokens in sentences]:
            unknown = self.tokenizer.unk_token or "?"
            sentences = [
                [token if word in found else unknown for word, token in enumerate(tokens)]
                for tokens, found in zip(sentences, starts, strict=True)
            ]
            encoded, starts = self._read(sentences)
        word_starts = torch.zeros_like(encoded["input_ids"], dtype=torch.bool)
        for row, found in enumerate(starts):
            word_starts[row, list(found.values())] = True
        return {**encoded, "word_starts": word_starts}

    def _read(self, sentences: Sequence[Sequence[str]]) -> tuple[dict[str, Tensor], list[dict[int, int]]]:
        """Pieces, and for each sentence where its words begin."""
        encoded = self.tokenizer(
            [list(tokens) for tokens in sentences],
            is_split_into_words=True,
            padding=True,
            truncation=False,
            return_tensors="pt",
            return_attention_mask=True,
        )
        starts = []
        for row in range(len(sentences)):
            found: dict[int, int] = {}
            for position, word in enumerate(encoded.word_ids(row)):
                if word is not None:
                    found.setdefault(word, position)
            starts.append(found)
        return dict(encoded), starts

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)


def load_reader(name: str | Path, config: GSPENConfig, **options: Any) -> Reader:
    """The reader of a model in a folder or, with HUB_OPTIONS such as `revision`, on the hub."""
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
    """The tokenizer that was saved with a model; transformers does not say clearly what is wrong with one."""
    folder = Path(name, options.get("subfolder") or "")
    if folder.is_dir() and not (folder / TOKENIZER_FILE).is_file():
        raise ValueError(f"{folder}: {TOKENIZER_FILE} is missing")
    try:
        return load_tokenizer(name, trust_remote_code=False, **options)
    except OSError:
        raise
    except Exception as error:  # of any kind: tokenizers has none of its own
        raise ValueError(f"{name}: the tokenizer of this model cannot be read: {error}") from error


def load_tokenizer(name: str | Path, **options: Any) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a model, set to read words one by one."""
    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    if getattr(tokenizer, "add_prefix_space", True):
        return tokenizer
    return AutoTokenizer.from_pretrained(name, add_prefix_space=True, **options)
