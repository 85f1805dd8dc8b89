"""Generated newswire-like documents with gold entities: data for demos and tests, without a download.

Each document has one or two subjects with an ambiguous name, such as "Halden", which in this document is a
person, a place or an organisation. Some sentences reveal which; the others ("bare" sentences) read the same
for all three types, so only a model that uses the whole document can do better than guess there.
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
"""The text and the entity type ("" for none) of each slot of a pattern."""
Tagged = tuple[tuple[str, ...], tuple[str, ...]]
"""The tokens and the tags of a sentence."""

CAST_SIZE = 3
"""Number of people, of cities, of companies, ... that a document mentions repeatedly."""
TWO_TYPES = 0.05
"""Probability that a document uses its first ambiguous name with two types."""


def generate_newswire(documents: int, seed: int = 0) -> list[TaggedSentence]:
    """Return generated documents about sports, business, politics, disasters and culture.

    A document has 6 to 12 sentences of 6 to 30 tokens (a dateline has 2 or 3), and one or two subjects with
    an ambiguous name, each with a type drawn from PER, LOC and ORG. One or two sentences reveal the type of
    each subject, and two to four bare ones mention it. In about 5 % of the documents, such a name is also
    used once with another type, in a sentence that reveals it.

    Args:
        documents: number of documents; with the same seed, a smaller number gives the first of them.
        seed: random seed, default 0; equal seeds give equal documents on every machine.

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
    """Return the sentences of a document: perhaps a headline, perhaps a dateline, the others in any order."""
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


def _subject(writer: _Writer, genre: str, name: str, entity_type: str) -> Slots:
    """Return the slots of an ambiguous name with this type: its long form, its noun and its title."""
    title = ""
    if entity_type == "PER":
        title, first_names = writer.pick((("Ms.", texts.WOMEN), ("Mr.", texts.MEN)))
        long, noun = f"{writer.pick(first_names)} {name}", writer.pick(texts.ROLES[genre])
    elif entity_type == "LOC":
        long, noun = writer.pick(texts.PLACE_FORMS).format(name), writer.pick(texts.PLACE_KINDS)
    else:
        noun, ending = writer.pick(texts.ORGANISATIONS[genre])
        long = f"{name} {ending}"
    typed = {"name": (name, entity_type), "long": (long, entity_type)}
    forms = typed | {"noun": (noun, ""), "title": (title, "")}
    return {"{S}": (name, entity_type)} | {f"{{{entity_type}.{form}}}": text for form, text in forms.items()}


def _revealing(writer: _Writer, genre: str, subject: Slots, two_types: bool) -> list[tuple[str, Slots]]:
    """Return one or two patterns that reveal a subject's type; with two types, the last reveals both."""
    name, entity_type = subject["{S}"]
    patterns = writer.shuffled(texts.REVEALING[entity_type])
    if not two_types:
        return [(pattern, subject) for pattern in patterns[: writer.pick((1, 2))]]
    other = writer.pick([each for each in texts.REVEALING if each != entity_type])
    both = writer.pick(texts.DOUBLE[min(entity_type, other), max(entity_type, other)])
    return [(patterns[0], subject), (both, _subject(writer, genre, name, other) | subject)]


def _headline(writer: _Writer, genre: str, subject: Slots) -> Tagged:
    """Return a headline of the genre, or a bare one about the subject or another name; half in capitals."""
    if writer.chance(0.4):
        pattern, slots = writer.pick(texts.HEADLINES[genre]), {}
    else:
        pattern, slots = writer.pick(texts.BARE_HEADLINES), subject if writer.chance(0.7) else {}
    return writer.sentence(pattern, slots, capitals=writer.chance(0.5))


class _Writer:
    """Fills the patterns of one document by random choices, with a cast of recurring names."""

    def __init__(self, random: Random) -> None:
        self._random = random.random  # the only method whose results are the same in all Python versions
        self._cast: dict[str, list[str]] = {}
        self._introduced: set[str] = set()

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return sorted(items, key=lambda _: self._random())

    def sentence(self, pattern: str, slots: Slots, *, capitals: bool = False) -> Tagged:
        """Fill a pattern; slots without a given text are drawn, all different from each other."""
        tokens: list[str] = []
        spans: list[Span] = []
        used: set[str] = set()
        for word in pattern.split():
            text, entity_type = slots.get(word) or self._fill(word, used)
            start = len(tokens)
            tokens += (text.upper() if capitals else text).split()
            if entity_type:
                spans.append(Span(start, len(tokens), entity_type))
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
        """Return a name of the cast: of people the full name first, later mostly the surname."""
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
