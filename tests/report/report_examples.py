"""Synthetic predictions for generated news, and pages of them, without a model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Labels, Span, spans_of_tags
from gspen_ner.ner.files import TaggedFile, TaggedSentence
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.ner.predictions import Prediction, Workings
from gspen_ner.report.page import report_page
from gspen_ner.report.statistics import Curve, Statistics, measure

LABELS = Labels.of_types(["LOC", "MISC", "ORG", "PER"], "BIOES")
CURVES = [
    Curve("base", [(1.0, 0.7), (2.0, 0.8)], [(1.0, 3.0), (2.0, 1.5)]),
    Curve("term", [(1.0, 0.85), (2.0, 0.9)], [(1.0, 0.4), (2.0, 0.3)]),
]
ONTONOTES = [
    "CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY", "NORP", "ORDINAL", "ORG",
    "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK",
]  # fmt: skip
EVIL = [
    "<script>window.evil = 1</script>",
    '"><img src=x onerror="window.evil = 1">',
    "</script>",
    "&lt;",
    "$title",
]


@dataclass(frozen=True)
class Example:
    """What a page is made of."""

    file: TaggedFile
    predictions: list[Prediction]
    statistics: Statistics
    page: str


def make_example(
    sentences, labels=LABELS, system="gspen", curves=CURVES, model="runs/model", data="data.txt"
):
    """A page on sentences, whose entities two imagined systems mostly find."""
    file = TaggedFile(Path(data), sentences, "BIO", has_documents=True)
    random = np.random.default_rng(4)
    predictions = [_prediction(sentence, labels, system, random) for sentence in sentences]
    statistics = measure(file, predictions, labels.types, system, curves)
    page = report_page(model, data, labels, statistics, sentences, predictions)
    return Example(file, predictions, statistics, page)


def news(documents=12, **options):
    return make_example(generate_newswire(documents, seed=5), **options)


def many_types():
    """More types than colours, some with long names, and a long stage of training before a short one."""
    types = [f"{name}{'_OF_SOMETHING' * (number % 3 > 1)}" for number, name in enumerate(ONTONOTES)]
    random = np.random.default_rng(3)
    sentences = [
        TaggedSentence(sentence.tokens, _retyped(sentence.tags, types, random), sentence.document)
        for sentence in generate_newswire(12, seed=5)
    ]
    epochs = [float(epoch) for epoch in range(1, 61)]
    f1 = [(epoch, 0.9 - 0.4 * 0.9**epoch) for epoch in epochs]
    loss = [(epoch, 300 / epoch) for epoch in epochs]
    curves = [Curve("base", f1, loss), CURVES[1]]
    return make_example(sentences, Labels.of_types(types, "BIOES"), curves=curves)


def _retyped(tags, types, random):
    retyped, entity_type = [], ""
    for tag in tags:
        if tag.startswith("B-"):
            entity_type = types[int(random.integers(len(types)))]
        retyped.append(tag if tag == "O" else f"{tag[:2]}{entity_type}")
    return tuple(retyped)


def evil_news(system="gspen"):
    """Words and types that would do harm if a browser took them for more than text."""
    types = ["LOC", EVIL[0]]
    sentences = [TaggedSentence(tuple(EVIL), (f"B-{EVIL[0]}", "O", "B-LOC", "O", "O"), 0)]
    labels = Labels.of_types(types, "BIO")
    return make_example(sentences * 3, labels, system, model=EVIL[0], data=EVIL[1])


def _prediction(sentence, labels, system, random):
    gold = spans_of_tags(sentence.tags, "BIO")
    base = _found(gold, labels, random, 0.35)
    full = _found(gold, labels, random, 0.15) if system == "gspen" else base
    tables = random.dirichlet(np.full(len(labels.names), 0.05), (2, len(sentence.tokens))).astype(np.float32)
    if system != "gspen":
        return Prediction(sentence.tokens, full, base, [], Workings(tables[0], tables[0]))
    steps = int(random.integers(0, 6))
    residuals = tuple(float(4.0 * 0.1**step) for step in range(steps + 1))
    return Prediction(sentence.tokens, full, base, [], Workings(*tables, residuals, steps < 5))


def _found(gold, labels, random, mistakes):
    entities = []
    for start, end, entity_type in gold:
        chance = random.random()
        if chance < mistakes / 3:
            continue
        if chance < mistakes:
            entity_type = labels.types[int(random.integers(len(labels.types)))]
        entities.append(ScoredSpan(Span(start, end, entity_type), float(random.uniform(0.3, 1.0))))
    return entities
