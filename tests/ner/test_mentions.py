"""Entities are scored once each, apart by mentions of their words in their own document."""

import pytest

from gspen_ner.labels import Span
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import f1_by_mentions
from gspen_ner.ner.newswire import generate_newswire


def sentence(words, tags, document=0):
    return TaggedSentence(tuple(words.split()), tuple(tags.split()), document)


def test_mentions_count_the_most_frequent_word_of_an_entity():
    sentences = [
        sentence("Bank of Rome fell", "B-ORG I-ORG I-ORG O"),
        sentence("ROME rose", "B-LOC O"),
        sentence("in Rome of all places", "O B-LOC O O O"),
        sentence("Rome again", "B-LOC O", document=1),
    ]
    predicted = [[Span(0, 3, "ORG")], [Span(0, 1, "ORG")], [], [Span(0, 1, "LOC")]]
    scores = f1_by_mentions(sentences, predicted)
    assert {count: score.support for count, score in scores.items()} == {1: 1, 3: 3}
    assert scores[1].f1 == 1
    assert (scores[3].precision, scores[3].recall) == (1 / 2, 1 / 3)


def test_words_in_lower_case_are_no_mentions():
    sentences = [sentence("the euro", "O B-MISC"), sentence("a euro", "O B-MISC")]
    assert list(f1_by_mentions(sentences, [[], []])) == [1]


@pytest.mark.parametrize("most", [1, 3, 50])
def test_every_entity_is_in_one_group(most):
    sentences = generate_newswire(8, seed=5)
    scores = f1_by_mentions(sentences, [[]] * len(sentences), most)
    entities = sum(tag.startswith("B-") for each in sentences for tag in each.tags)
    assert sum(score.support for score in scores.values()) == entities
    assert max(scores) <= most


def test_without_entities_there_are_no_groups():
    assert f1_by_mentions([], []) == {}
