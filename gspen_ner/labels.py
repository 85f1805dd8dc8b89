"""Tag schemes: the labels of a tagger, the legal transitions, and the conversion between spans and tags.

    BIO     B-X I-X I-X            BIOES   B-X I-X E-X,  S-X for a span of one token

Spans are read strictly: a tag that the scheme does not allow at its position does not open a span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

Scheme = Literal["BIO", "BIOES"]
SCHEME: Scheme = "BIOES"
"""The default scheme of a tagger's labels."""

_OPENS = {"BIO": "B", "BIOES": "BS"}  # prefixes of the first token of a span
_CONTINUES = "BI"  # prefixes after which the span may continue
_INSIDE = {"BIO": "I", "BIOES": "IE"}  # prefixes that need a token of the same span before them
_MUST_CONTINUE = {"BIO": "", "BIOES": "BI"}  # prefixes after which the span must continue


class Span(NamedTuple):
    """An entity: the tokens start, ..., end - 1, and their type.

    Example:
        >>> Span(0, 2, "PER")
        Span(start=0, end=2, type='PER')
    """

    start: int
    end: int
    type: str


class LegalTransitions(NamedTuple):
    """The labels that are allowed first and last, and the allowed transitions [from, to]."""

    start: Bool[Tensor, " L"]
    table: Bool[Tensor, "L L"]
    end: Bool[Tensor, " L"]


@dataclass(frozen=True)
class Labels:
    """The labels of a tagger, in the order of its scores.

    Args:
        names: distinct labels, such as `"O"` and `"B-PER"`.
        scheme: tag scheme of the labels, `"BIO"` or `"BIOES"`.

    Example:
        >>> labels = Labels(("O", "B-PER", "I-PER"), "BIO")
        >>> labels.spans(["B-PER", "I-PER", "O", "I-PER"])
        [Span(start=0, end=2, type='PER')]
        >>> labels.legal.start
        tensor([ True,  True, False])
    """

    names: tuple[str, ...]
    scheme: Scheme

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"labels must be distinct, and at least one, got {list(self.names)}")
        for name in self.names:
            check_tag(name, self.scheme)

    @classmethod
    def of_types(cls, types: Iterable[str], scheme: Scheme) -> Labels:
        """Return all labels of a scheme for some entity types, with "O" first.

        Example:
            >>> Labels.of_types(["PER"], "BIOES").names
            ('O', 'B-PER', 'I-PER', 'E-PER', 'S-PER')
        """
        prefixes = "BI" if scheme == "BIO" else "BIES"
        return cls(("O", *(f"{prefix}-{type_}" for type_ in types for prefix in prefixes)), scheme)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The entity types, in the order of their first label."""
        return tuple(dict.fromkeys(name[2:] for name in self.names if name != "O"))

    def index(self, prefix: str, type: str) -> int | None:
        """Return the number of a label such as ("B", "PER"), or None if there is no such label."""
        name = f"{prefix}-{type}"
        return self.names.index(name) if name in self.names else None

    @cached_property
    def legal(self) -> LegalTransitions:
        """The labels and transitions that the scheme allows."""
        table = [[follows(before, after, self.scheme) for after in self.names] for before in self.names]
        start = [follows("O", name, self.scheme) for name in self.names]
        end = [follows(name, "O", self.scheme) for name in self.names]
        return LegalTransitions(torch.tensor(start), torch.tensor(table), torch.tensor(end))

    def spans(self, tags: Sequence[str]) -> list[Span]:
        """Return the entities of a tagged sentence."""
        return spans_of_tags(tags, self.scheme)

    def spans_of_indices(self, indices: Iterable[int]) -> list[Span]:
        """Return the entities of a sentence that is given by label numbers."""
        return self.spans([self.names[index] for index in indices])


def follows(before: str, after: str, scheme: Scheme) -> bool:
    """Return whether a tag may follow another; "O" also stands for the beginning or end of a sentence."""
    if after[0] in _INSIDE[scheme]:
        return before[0] in _CONTINUES and before[2:] == after[2:]
    return before[0] not in _MUST_CONTINUE[scheme]


def spans_of_tags(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Return the entities of a tagged sentence, read strictly.

    Example:
        >>> spans_of_tags(["B-LOC", "I-LOC", "O", "I-LOC"], "BIO")  # the last tag is not in a span
        [Span(start=0, end=2, type='LOC')]
    """
    for tag in tags:
        check_tag(tag, scheme)
    spans = []
    start: int | None = None
    for position, tag in enumerate([*tags, "O"]):
        before = tags[position - 1] if position else "O"
        if start is not None and not (tag[0] in _INSIDE[scheme] and follows(before, tag, scheme)):
            if before[0] not in _MUST_CONTINUE[scheme]:
                spans.append(Span(start, position, before[2:]))
            start = None
        if tag[0] in _OPENS[scheme]:
            start = position
    return spans


def check_tag(tag: str, scheme: Scheme) -> None:
    """Raise a ValueError unless the tag belongs to the scheme."""
    if scheme not in _OPENS:
        raise ValueError(f"scheme must be one of {sorted(_OPENS)}, got {scheme!r}")
    allowed = _OPENS[scheme] + _INSIDE[scheme]
    if tag != "O" and not (tag[:1] in allowed and tag[1:2] == "-" and len(tag) > 2):
        raise ValueError(
            f"label {tag!r} does not fit {scheme}: expected 'O' or "
            f"one of {sorted(allowed)} with a type, as in 'B-PER'"
        )


def bio_name(name: str) -> str:
    """Return the BIO label of a label of any scheme.

    Example:
        >>> bio_name("S-LOC"), bio_name("E-LOC"), bio_name("O")
        ('B-LOC', 'I-LOC', 'O')
    """
    return name if name == "O" else f"{'B' if name[0] in 'BS' else 'I'}-{name[2:]}"


def tags_of_spans(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Return the tags of a sentence with these entities.

    Example:
        >>> tags_of_spans([Span(0, 2, "LOC"), Span(3, 4, "PER")], 4, "BIOES")
        ['B-LOC', 'E-LOC', 'O', 'S-PER']
    """
    tags = ["O"] * length
    for span in spans:
        if not 0 <= span.start < span.end <= length:
            raise ValueError(f"{span} does not fit into a sentence of {length} tokens")
        if any(tag != "O" for tag in tags[span.start : span.end]):
            raise ValueError(f"{span} overlaps another span")
        prefixes = ["B"] + ["I"] * (span.end - span.start - 1)
        if scheme == "BIOES":
            prefixes[-1] = "S" if len(prefixes) == 1 else "E"
        tags[span.start : span.end] = [f"{prefix}-{span.type}" for prefix in prefixes]
        check_tag(tags[span.start], scheme)
    return tags
