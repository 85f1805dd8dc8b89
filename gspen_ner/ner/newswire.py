"""Newswire-like documents with gold entities, made up on the spot: data for demos and tests, no download.

Every document has one or two subjects with an ambiguous name, "Halden", which in this document is a person,
a place or an organisation. Some sentences reveal which; others, the bare ones, read the same for all three,
so that only a model that looks at the whole document can do better there than guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from gspen_ner.labels import Span, tags_of_spans
from gspen_ner.ner import newswire_texts as texts
from gspen_ner.ner.files import TaggedSentence

Item = TypeVar("Item")
Slots = dict[str, tuple[str, str]]
"""What stands for the slots of a pattern: a text and its entity type, "" if it is none."""
Tagged = tuple[tuple[str, ...], tuple[str, ...]]
"""Tokens and tags."""

CAST_SIZE = 3
"""How many people, cities, companies, ... a document keeps returning to."""
TWO_TYPES = 0.05
"""The share of documents in which an ambiguous name is used with two types."""


def generate_newswire(documents: int, seed: int = 0) -> list[TaggedSentence]:
    """Write documents about sports, business, politics, disasters and culture.

    A document has 6 to 12 sentences of 6 to 30 tokens (a dateline has 2 or 3), and one or two subjects with
    an ambiguous name, each of a type drawn at random from PER, LOC and ORG. About each there are one or two
    sentences that reveal its type and two to four bare ones. In about 5 % of the documents such a name also
    stands once for something of another type, in a sentence that makes this plain.

    Args:
        documents: how many; fewer with the same seed are the first of more.
        seed: equal seeds give equal documents, on every machine.

    Example:
        >>> about = [sentence for sentence in generate_newswire(1) if "Camden" in sentence.tokens]
        >>> for sentence in about:
        ...     print(*sentence.tokens)
        Camden hopes for a quieter year
        Camden Lines employs 22,800 people and has offices in Graz and Accra .
        Nobody at Belcanto would comment on Camden .
        Camden stands to lose most if the plan fails .
        >>> about[0].tags
        ('B-ORG', 'O', 'O', 'O', 'O', 'O')
    """
    if documents < 0:
        raise ValueError(f"the number of documents must not be negative, got {documents}")
    return [
        TaggedSentence(tokens, tags, number)
        for number in range(documents)
        for tokens, tags in _document(_Writer(Random(f"{seed}/{number}")))
    ]


def _document(writer: _Writer) -> list[Tagged]:
    """A headline and a dateline, each perhaps, and then the other sentences in any order."""
    genre = writer.pick(tuple(texts.GENRES))
    bare, common = writer.shuffled(texts.BARE), writer.shuffled(texts.GENRES[genre])
    names = writer.shuffled(texts.AMBIGUOUS)[: writer.pick((1, 2))]
    subjects = [_subject(writer, genre, name, writer.pick(tuple(texts.REVEALING))) for name in names]
    plan: list[tuple[str, Slots]] = []
    for subject in subjects:
        plan += [(bare.pop(), subject) for _ in range(writer.pick((2, 3)))]
        two_types = subject is subjects[0] and writer.chance(TWO_TYPES)
        plan += _revealing(writer, genre, subject, two_types)
    for _ in range(writer.pick((6, 7, 8, 9, 10)) - len(plan)):
        plan.append((bare.pop() if writer.chance(0.25) else common.pop(), {}))

    sentences = []
    if writer.chance(0.7):
        sentences.append(_headline(writer, genre, subjects[0]))
    if writer.chance(0.5):
        sentences.append(writer.sentence("{CITY} {date}", {}, capitals=True))
    return sentences + [writer.sentence(pattern, slots) for pattern, slots in writer.shuffled(plan)]


def _subject(writer: _Writer, genre: str, name: str, kind: str) -> Slots:
    """What an ambiguous name is in a document: the forms in which it is used, and what it is called."""
    title = ""
    if kind == "PER":
        title, first_names = writer.pick((("Ms.", texts.WOMEN), ("Mr.", texts.MEN)))
        long, noun = f"{writer.pick(first_names)} {name}", writer.pick(texts.ROLES[genre])
    elif kind == "LOC":
        long, noun = writer.pick(texts.PLACE_FORMS).format(name), writer.pick(texts.PLACE_KINDS)
    else:
        noun, ending = writer.pick(texts.ORGANISATIONS[genre])
        long = f"{name} {ending}"
    forms = {"name": (name, kind), "long": (long, kind), "noun": (noun, ""), "title": (title, "")}
    return {"{S}": (name, kind)} | {f"{{{kind}.{form}}}": text for form, text in forms.items()}


def _revealing(writer: _Writer, genre: str, subject: Slots, two_types: bool) -> list[tuple[str, Slots]]:
    """One or two sentences that tell a subject's type; of two types, the last names both."""
    name, kind = subject["{S}"]
    patterns = writer.shuffled(texts.REVEALING[kind])
    if not two_types:
        return [(pattern, subject) for pattern in patterns[: writer.pick((1, 2))]]
    other = writer.pick([each for each in texts.REVEALING if each != kind])
    both = writer.pick(texts.DOUBLE[min(kind, other), max(kind, other)])
    return [(patterns[0], subject), (both, _subject(writer, genre, name, other) | subject)]


def _headline(writer: _Writer, genre: str, subject: Slots) -> Tagged:
    """A headline of the genre, or a bare one about the subject or another name; half are in capitals."""
    if writer.chance(0.4):
        pattern, slots = writer.pick(texts.HEADLINES[genre]), {}
    else:
        pattern, slots = writer.pick(texts.BARE_HEADLINES), subject if writer.chance(0.7) else {}
    return writer.sentence(pattern, slots, capitals=writer.chance(0.5))


class _Writer:
    """The random choices of one document, and the cast of names that it keeps returning to."""

    def __init__(self, random: Random) -> None:
        self._random = random.random  # the one method whose results Python promises never to change
        self._cast: dict[str, list[str]] = {}
        self._introduced: set[str] = set()

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return sorted(items, key=lambda _: self._random())

    def sentence(self, pattern: str, slots: Slots, *, capitals: bool = False) -> Tagged:
        """Fill a pattern; slots that are not given are drawn, and no two of them alike."""
        tokens: list[str] = []
        spans: list[Span] = []
        used: set[str] = set()
        for word in pattern.split():
            text, kind = slots.get(word) or self._fill(word, used)
            start = len(tokens)
            tokens += (text.upper() if capitals else text).split()
            if kind:
                spans.append(Span(start, len(tokens), kind))
        return tuple(tokens), tuple(tags_of_spans(spans, len(tokens), "BIO"))

    def _fill(self, word: str, used: set[str]) -> tuple[str, str]:
        if word[0] != "{":
            return word, ""
        if word not in texts.WORDS:
            return self._name(word, used)
        while (text := self.pick(texts.WORDS[word])) in used:
            pass
        used.add(text)
        return text, ""

    def _name(self, slot: str, used: set[str]) -> tuple[str, str]:
        """A name of the cast; people have their full name first, later mostly the surname."""
        if slot in ("{S}", "{ANY}"):
            slot = self.pick(self.pick(texts.ANY))
        if slot == "{NAT}":
            return texts.DEMONYMS[self._name("{COUNTRY}", used)[0]], "MISC"
        group = "{PER}" if slot == "{LAST}" else slot
        if group not in self._cast:
            self._cast[group] = self._new_cast(group)
        name = self.pick([name for name in self._cast[group] if _last(name) not in used])
        used.add(_last(name))
        if slot == "{LAST}" or (group == "{PER}" and name in self._introduced and self.chance(0.7)):
            return _last(name), "PER"
        self._introduced.add(name)
        return name, texts.NAMES[group][0]

    def _new_cast(self, group: str) -> list[str]:
        forms = self.shuffled(texts.NAMES[group][1])
        used: set[str] = set()
        chosen = [forms[k % len(forms)] for k in range(CAST_SIZE)]
        return [" ".join(self._fill(word, used)[0] for word in form.split()) for form in chosen]


def _last(text: str) -> str:
    return text.split()[-1]
