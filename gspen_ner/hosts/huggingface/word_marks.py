"""Words that are read one by one get the mark of a word's beginning that they have within a text.

    "New York"  ->  "New", "ĠYork"          ["New", "York"]  ->  "ĠNew", "ĠYork"

An encoder knows "ĠYork" and hardly "York". Most tokenizers put the mark there if asked (`add_prefix_space`);
those whose pre-tokenizer is a sequence (Llama 3, Qwen) do not listen, and get a space put before every word.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from tokenizers import normalizers
from transformers import PreTrainedTokenizerBase

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
