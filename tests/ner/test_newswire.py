"""Made-up newswire: legal, reproducible, and with bare sentences that say nothing about their subject."""

import hashlib
import math
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import groupby
from typing import NamedTuple

import pytest

from gspen_ner.labels import follows, spans_of_tags
from gspen_ner.ner import newswire_texts as texts
from gspen_ner.ner.newswire import generate_newswire

DOCUMENTS = 3000
AMBIGUOUS = {form: name for name in texts.AMBIGUOUS for form in (name, name.upper())}
DATELINE = re.compile(r"[A-Z]+( [A-Z]+)? 20\d\d-\d\d-\d\d")


def as_regex(pattern):
    """Matches what a pattern may become; its group, if any, is the subject."""
    words = [
        "(.+?)" if word == "{S}" else ".+" if word[0] == "{" else re.escape(word) for word in pattern.split()
    ]
    return re.compile(" ".join(words), re.IGNORECASE)


BARE = {pattern: as_regex(pattern) for pattern in texts.BARE + texts.BARE_HEADLINES}


class Mention(NamedTuple):
    words: tuple[str, ...]
    entity_type: str
    name: str | None
    """The ambiguous name in it, if any."""


class Sentence(NamedTuple):
    text: str
    mentions: list[Mention]
    bare: str | None
    """The bare pattern that it was written from, if any."""
    subject: str
    """What this is about."""

    @property
    def ambiguous(self):
        return [mention for mention in self.mentions if mention.name]


def read(sentence):
    mentions = []
    for start, end, entity_type in spans_of_tags(sentence.tags, "BIO"):
        words = sentence.tokens[start:end]
        mentions.append(
            Mention(words, entity_type, next((AMBIGUOUS[word] for word in words if word in AMBIGUOUS), None))
        )
    text = " ".join(sentence.tokens)
    for pattern, regex in BARE.items():
        if match := regex.fullmatch(text):
            return Sentence(text, mentions, pattern, match[1])
    return Sentence(text, mentions, None, "")


@pytest.fixture(scope="module")
def corpus():
    return generate_newswire(DOCUMENTS, seed=1)


@pytest.fixture(scope="module")
def documents(corpus):
    groups = groupby(corpus, key=lambda sentence: sentence.document)
    return [[read(sentence) for sentence in group] for _, group in groups]


@pytest.fixture(scope="module")
def sentences(documents):
    return [sentence for document in documents for sentence in document]


def test_tags_are_strict_bio():
    for sentence in generate_newswire(300, seed=2):
        assert len(sentence.tokens) == len(sentence.tags)
        pairs = zip(("O", *sentence.tags), (*sentence.tags, "O"), strict=True)
        assert all(follows(before, after, "BIO") for before, after in pairs)


def test_tokens_are_words(corpus, sentences):
    for sentence, (text, *_) in zip(corpus, sentences, strict=True):
        assert len(text.split()) == len(sentence.tokens)
        assert not re.search(r"[{}_]", text)
        assert not re.search(r"\b([a-z]+) \1\b", text), text
        assert not re.search(r"[^\s\d],|\w'", text), text


def test_sizes_are_as_documented(documents):
    assert len(documents) == DOCUMENTS
    assert {len(document) for document in documents} == set(range(6, 13))
    for document in documents:
        for number, sentence in enumerate(document):
            if DATELINE.fullmatch(sentence.text):
                assert number < 2
            else:
                assert 6 <= len(sentence.text.split()) <= 30


def test_documents_are_numbered_in_order(corpus):
    numbers = [sentence.document for sentence in corpus]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(DOCUMENTS))


def test_few_documents_are_the_first_of_many(corpus):
    assert generate_newswire(20, seed=1) == [sentence for sentence in corpus if sentence.document < 20]


def test_seeds_differ():
    assert generate_newswire(1, seed=1) != generate_newswire(1, seed=2)


def test_another_process_writes_the_same():
    program = (
        "import hashlib; from gspen_ner.ner.newswire import generate_newswire; "
        "print(hashlib.sha256(repr(generate_newswire(50, seed=4)).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = hashlib.sha256(repr(generate_newswire(50, seed=4)).encode()).hexdigest()
    assert run.stdout.strip() == here


def test_no_documents():
    assert generate_newswire(0) == []


def test_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="must not be negative, got -3"):
        generate_newswire(-3)


def test_all_types_occur_often(sentences):
    types = Counter(mention.entity_type for sentence in sentences for mention in sentence.mentions)
    assert set(types) == {"PER", "LOC", "ORG", "MISC"}
    assert min(types.values()) > 0.03 * types.total()


def test_vocabulary_is_of_reasonable_size(sentences):
    assert 1500 < len({word for sentence in sentences for word in sentence.text.lower().split()}) < 15000


def test_headlines_and_datelines_come_sometimes(sentences):
    datelines = [bool(DATELINE.fullmatch(sentence.text)) for sentence in sentences]
    capitals = [sentence.text.isupper() for sentence in sentences]
    assert 0.45 < sum(datelines) / DOCUMENTS < 0.55
    assert 0.3 < (sum(capitals) - sum(datelines)) / DOCUMENTS < 0.4


def test_every_pattern_is_used(sentences):
    tables = (texts.GENRES, texts.HEADLINES, texts.REVEALING, texts.DOUBLE)
    patterns = [pattern for table in tables for group in table.values() for pattern in group]
    assert len(patterns) == len(set(patterns))
    text = "\n".join(sentence.text for sentence in sentences if not sentence.bare)
    for pattern in patterns:
        assert re.search(f"^{as_regex(pattern).pattern}$", text, re.MULTILINE | re.IGNORECASE), pattern


def test_ambiguous_names_are_nothing_else():
    others = [texts.WORDS[slot] for slot in ("{first}", "{surname}", "{city}", "{country}")]
    others += [forms for _, forms in texts.NAMES.values()]
    words = {word for names in others for name in names for word in name.split()}
    assert not words & set(texts.AMBIGUOUS)
    assert len(set(texts.AMBIGUOUS)) == len(texts.AMBIGUOUS) >= 60


def test_every_subject_is_revealed_and_has_bare_mentions(documents):
    for document in documents:
        bare, revealing = Counter(), Counter()
        for sentence in document:
            counts = bare if sentence.bare else revealing
            counts.update({mention.name for mention in sentence.ambiguous})
        assert 1 <= len(bare) <= 2
        assert bare.keys() == revealing.keys()
        assert all(2 <= count <= 4 for count in bare.values())
        assert all(1 <= count <= 2 for count in revealing.values())


def test_names_of_two_types_are_rare_but_exist(documents):
    mixed = 0
    for document in documents:
        types_by_name, bare_types = defaultdict(set), defaultdict(set)
        for sentence in document:
            for mention in sentence.ambiguous:
                (bare_types if sentence.bare else types_by_name)[mention.name].add(mention.entity_type)
        assert all(len(types) == 1 for types in bare_types.values())
        assert all(bare_types[name] <= types for name, types in types_by_name.items())
        mixed += any(len(types) > 1 for types in types_by_name.values())
    assert 0.035 < mixed / DOCUMENTS < 0.065


def test_types_are_equally_likely_whatever_the_name_and_the_bare_pattern(sentences):
    by_pattern, by_name = defaultdict(Counter), defaultdict(Counter)
    for sentence in sentences:
        if sentence.bare and sentence.ambiguous:
            (mention,) = sentence.ambiguous
            assert mention.words == (sentence.subject,)
            by_pattern[sentence.bare][mention.entity_type] += 1
            by_name[mention.name][mention.entity_type] += 1
    assert set(by_pattern) == set(BARE)
    assert set(by_name) == set(texts.AMBIGUOUS)
    for counts in by_pattern.values():
        tolerance = 4 * math.sqrt(2 / 9 / counts.total())
        assert all(
            abs(counts[entity_type] / counts.total() - 1 / 3) < tolerance
            for entity_type in ("PER", "LOC", "ORG")
        )
    for counts in by_name.values():
        assert max(counts.values()) < 0.6 * counts.total()


def naive_bayes_accuracy(sentences):
    """How well the words around it tell the type of a name: learned on one half, measured on the other."""
    samples = [
        ([word for word in text.split() if word not in AMBIGUOUS], mentions[0].entity_type)
        for text, mentions in ((sentence.text, sentence.ambiguous) for sentence in sentences)
        if len(mentions) == 1
    ]
    counts = {entity_type: Counter() for entity_type in ("PER", "LOC", "ORG")}
    for words, entity_type in samples[::2]:
        counts[entity_type].update(words)
    totals = {entity_type: counted.total() for entity_type, counted in counts.items()}

    def guess(words):
        scores = {
            entity_type: sum(
                math.log((counts[entity_type][word] + 1) / totals[entity_type]) for word in words
            )
            for entity_type in counts
        }
        return max(scores, key=scores.__getitem__)

    held_out = samples[1::2]
    return sum(guess(words) == entity_type for words, entity_type in held_out) / len(held_out)


def test_the_words_of_a_revealing_sentence_tell_the_type(sentences):
    assert naive_bayes_accuracy([sentence for sentence in sentences if not sentence.bare]) > 0.97


def test_the_words_of_a_bare_sentence_do_not(sentences):
    assert abs(naive_bayes_accuracy([sentence for sentence in sentences if sentence.bare]) - 1 / 3) < 0.03


def test_bare_patterns_also_have_plain_names_of_every_type(sentences):
    types_by_pattern = defaultdict(set)
    for sentence in sentences:
        if sentence.bare and not sentence.ambiguous:
            subject = tuple(sentence.subject.split())
            types_by_pattern[sentence.bare].update(
                entity_type for words, entity_type, _ in sentence.mentions if words == subject
            )
    assert set(types_by_pattern) == set(BARE)
    assert all(types == {"PER", "LOC", "ORG"} for types in types_by_pattern.values())
