"""Entities as Flair has them: the dictionary of their types, and spans with confidences."""

from __future__ import annotations

from collections.abc import Iterable

from flair.data import Dictionary, Sentence

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span


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
