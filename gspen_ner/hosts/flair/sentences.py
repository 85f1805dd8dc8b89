"""Sentences, corpora and entities of this package as Flair has them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.files import DOCUMENT_MARK, TaggedSentence

TAG_TYPE = "ner"


def as_flair(sentences: Sequence[TaggedSentence]) -> list[Sentence]:
    """Flair sentences with gold spans, each linked to the one before it in its document."""
    last: dict[int, Sentence] = {}
    found = []
    for sentence in sentences:
        made = Sentence(list(sentence.tokens))
        for start, end, kind in spans_of_tags(sentence.tags, "BIO"):
            made[start:end].add_label(TAG_TYPE, kind)
        before = last.get(sentence.document)
        if before is None:
            before = Sentence([DOCUMENT_MARK])
            before.is_document_boundary = True
        made._previous_sentence, made._has_context = before, True
        before._next_sentence = made
        last[sentence.document] = made
        found.append(made)
    return found


def as_corpus(
    train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence], test: Sequence[TaggedSentence] | None
) -> Corpus:
    """A corpus for Flair's trainer."""
    train_data, dev_data = (FlairDatapointDataset(as_flair(split)) for split in (train, dev))
    test_data = None if test is None else FlairDatapointDataset(as_flair(test))
    return Corpus(train=train_data, dev=dev_data, test=test_data, sample_missing_splits=False)


def type_dictionary(types: Iterable[str]) -> Dictionary:
    """What a tagger that is to find entities of these types is made with."""
    dictionary = Dictionary(add_unk=False)
    dictionary.span_labels = True
    for kind in types:
        dictionary.add_item(kind)
    return dictionary


def spans_of(sentence: Sentence, layer: str) -> list[ScoredSpan]:
    """The entities that a layer of labels holds.

    Example:
        >>> sentence = Sentence("Ms. Ann left", use_tokenizer=False)
        >>> label = sentence[0:2].add_label("ner", "PER", 0.5)
        >>> spans_of(sentence, "ner")
        [ScoredSpan(span=Span(start=0, end=2, type='PER'), probability=0.5)]
    """
    labels = sentence.get_labels(layer)
    places = [(label.data_point[0].idx - 1, label.data_point[-1].idx) for label in labels]
    return [
        ScoredSpan(Span(start, end, label.value), label.score)
        for (start, end), label in zip(places, labels, strict=True)
    ]
