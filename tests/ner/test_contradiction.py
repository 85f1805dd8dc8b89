"""How often a tagger contradicts itself, counted by hand."""

import pytest
import torch

from gspen_ner.labels import Labels
from gspen_ner.ner.contradiction import self_contradiction
from gspen_ner.ner.predictions import ChainScores
from gspen_ner.polytopes import Chain

LABELS = Labels.of_types(["PER", "LOC"], "BIOES")
NUMBERS = {"O": "O", "PER": "S-PER", "LOC": "S-LOC"}


class Sure:
    """Is sure of one type of each word; of "?" it is not."""

    labels = LABELS

    def __init__(self, types):
        self.types = types

    def scores(self, sentences, documents):
        for row, types in enumerate(self.types):
            nodes = torch.zeros(1, len(types), len(LABELS.names))
            for at, type_ in enumerate(types):
                if type_ != "?":
                    nodes[0, at, LABELS.names.index(NUMBERS[type_])] = 20.0
            chain = Chain(torch.tensor([len(types)]))
            base = chain.potentials(nodes, torch.zeros(len(LABELS.names), len(LABELS.names)))
            yield ChainScores([row], base, base, chain)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["PER", "PER", "PER"], 0.0),
        (["PER", "PER", "LOC"], 2 / 3),
        (["PER", "O"], 1.0),
        (["PER", "?", "PER"], 0.0),
        (["O", "O"], 0.0),
        (["PER", "?"], 0.0),
    ],
)
def test_mentions_of_a_word(types, expected):
    sentences = [["Lyon"] for _ in types]
    tagger = Sure([[type_] for type_ in types])
    assert self_contradiction(tagger, sentences, [0] * len(types)) == pytest.approx(expected)


def test_documents_are_apart():
    sentences, tagger = [["Lyon"], ["LYON"]], Sure([["PER"], ["LOC"]])
    assert self_contradiction(tagger, sentences, [0, 0]) == 1.0
    assert self_contradiction(tagger, sentences, [0, 1]) == 0.0


def test_short_words_do_not_count():
    assert self_contradiction(Sure([["PER", "O"]]), [["it", "it"]], [0]) == 0.0
