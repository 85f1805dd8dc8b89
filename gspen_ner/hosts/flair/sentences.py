"""Conversion of sentences, corpora, entities and documents between Flair's classes and this package's.

Flair marks the sentence that separates documents (`ColumnCorpus(document_separator_token="-DOCSTART-")`) and
links each sentence to the one before it. A sentence belongs to the separator that its links lead back to; a
sentence after no separator is a document of its own, whatever the order of the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset
from torch import Tensor

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span, spans_of_tags, tags_of_spans
from gspen_ner.ner.files import DOCUMENT_MARK, TaggedSentence
from gspen_ner.terms import Context, match_mentions
from gspen_ner.training.documents import prediction_batches

TAG_TYPE = "ner"


def as_flair(sentences: Sequence[TaggedSentence]) -> list[Sentence]:
    """Return Flair sentences with gold spans, each linked to the one before it in its document."""
    last: dict[int, Sentence] = {}
    converted = []
    for sentence in sentences:
        new = Sentence(list(sentence.tokens))
        for start, end, type_ in spans_of_tags(sentence.tags, "BIO"):
            new[start:end].add_label(TAG_TYPE, type_)
        before = last.get(sentence.document)
        if before is None:
            before = Sentence([DOCUMENT_MARK])
            before.is_document_boundary = True
        new._previous_sentence, new._has_context = before, True
        before._next_sentence = new
        last[sentence.document] = new
        converted.append(new)
    return converted


def as_corpus(
    train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], test: Sequence[TaggedSentence] | None
) -> Corpus:
    """Return a corpus for Flair's trainer."""
    train_data, dev_data = (FlairDatapointDataset(as_flair(split)) for split in (train, dev))
    test_data = None if test is None else FlairDatapointDataset(as_flair(test))
    return Corpus(train=train_data, dev=dev_data, test=test_data, sample_missing_splits=False)


def type_dictionary(types: Iterable[str]) -> Dictionary:
    """Return the tag dictionary of a new tagger for entities of these types."""
    dictionary = Dictionary(add_unk=False)
    dictionary.span_labels = True
    for type_ in types:
        dictionary.add_item(type_)
    return dictionary


def spans_of(sentence: Sentence, layer: str) -> list[ScoredSpan]:
    """Return the entities of a layer of labels.

    Example:
        >>> sentence = Sentence("Ms. Ann left", use_tokenizer=False)
        >>> label = sentence[0:2].add_label("ner", "PER", 0.5)
        >>> spans_of(sentence, "ner")
        [ScoredSpan(span=Span(start=0, end=2, type='PER'), probability=0.5)]
    """
    return [
        ScoredSpan(Span(label.data_point[0].idx - 1, label.data_point[-1].idx, label.value), label.score)
        for label in sentence.get_labels(layer)
    ]


def as_tagged(sentences: Sequence[Sentence], layer: str) -> list[TaggedSentence]:
    """Return sentences with the entities of a layer of labels as tags."""
    return [
        TaggedSentence(
            tuple(token.text for token in sentence),
            tuple(tags_of_spans([span for span, _ in spans_of(sentence, layer)], len(sentence), "BIO")),
            document,
        )
        for sentence, document in zip(sentences, document_numbers(sentences), strict=True)
    ]


def document_numbers(sentences: Sequence[Sentence]) -> list[int]:
    """Return numbers that are equal for sentences of one document."""
    known: dict[int, Sentence | None] = {}
    separators = [_separator(sentence, known) for sentence in sentences]
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(id(sentence if separator is None else separator), len(numbers))
        for sentence, separator in zip(sentences, separators, strict=True)
    ]


def _separator(sentence: Sentence, known: dict[int, Sentence | None]) -> Sentence | None:
    """Return the separator before a sentence, or None; `known` caches it for each visited sentence."""
    passed: list[int] = []
    at: Sentence | None = sentence
    while at is not None and id(at) not in known and not at.is_document_boundary:
        passed.append(id(at))
        at = at._previous_sentence
    separator = None if at is None else known.get(id(at), at)
    known.update(dict.fromkeys(passed, separator))
    return separator


def context_of(sentences: Sequence[Sentence], mask: Tensor) -> Context:
    """Return the documents and mentions of a batch, for a term."""
    documents = document_numbers(sentences)
    mentions = match_mentions([[token.text for token in sentence] for sentence in sentences], documents)
    return Context(mask, torch.tensor(documents, device=mask.device), mentions.to(mask.device))


def batches_of(sentences: Sequence[Sentence], size: int, by_document: bool) -> list[list[Sentence]]:
    """Return batches for prediction: whole documents in their order, or sentences of similar length.

    Args:
        sentences: sentences.
        size: number of sentences of a batch, at most; a longer document is a batch by itself.
        by_document: whether the sentences of a document stay together.
    """
    documents = document_numbers(sentences) if by_document else None
    batches = prediction_batches(documents, [len(sentence) for sentence in sentences], size)
    return [[sentences[row] for row in rows] for rows in batches]
