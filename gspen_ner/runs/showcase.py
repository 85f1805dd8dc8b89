"""A document that the global term corrected, shown after training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from gspen_ner.decode import ScoredSpan
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import compare_errors
from gspen_ner.ner.predictions import Prediction
from gspen_ner.recipe import Experiment
from gspen_ner.runs.run import Corpus

MOST_DOCUMENTS = 200


def showcase(recipe: Experiment, folder: Path) -> Iterator[Text]:
    """Yield the document with most errors fixed and no new one, before and after, if there is one."""
    tagger = load_tagger(folder)
    if tagger.system not in ("spen", "gspen"):
        return
    corpus = Corpus.read(recipe)
    documents: dict[int, list[TaggedSentence]] = {}
    for sentence in corpus.test or corpus.dev:
        documents.setdefault(sentence.document, []).append(sentence)
    some = list(documents.values())[:MOST_DOCUMENTS]
    sentences = [sentence for document in some for sentence in document]
    predictions = tagger.tag([s.tokens for s in sentences], [s.document for s in sentences])
    by_document: dict[int, list[tuple[TaggedSentence, Prediction]]] = {}
    for sentence, prediction in zip(sentences, predictions, strict=True):
        by_document.setdefault(sentence.document, []).append((sentence, prediction))
    corrected = max(by_document.values(), key=_fixed)
    if _fixed(corrected) > 0:
        yield Text("\nA document that the global term corrected (✗ marks predictions of its base model):\n")
        for sentence, prediction in corrected:
            yield _line(sentence, prediction)


def _fixed(document: list[tuple[TaggedSentence, Prediction]]) -> int:
    """Return the number of errors fixed; 0 if there is a new one."""
    gold = [spans_of_tags(sentence.tags, "BIO") for sentence, _ in document]
    before, after = (
        [[entity.span for entity in row] for row in rows]
        for rows in ([p.base_entities for _, p in document], [p.entities for _, p in document])
    )
    changes = compare_errors(gold, before, after)
    return changes.fixed if not changes.broken and not changes.same else 0


def _line(sentence: TaggedSentence, prediction: Prediction) -> Text:
    """Return a sentence with its entities, and those of the base model where they differ."""
    after = {entity.span.start: entity for entity in prediction.entities}
    wrong = {e.span.start: e for e in prediction.base_entities if e.span not in _spans(prediction.entities)}
    line = Text("  ")
    position = 0
    while position < len(sentence.tokens):
        entity = after.get(position)
        end = position + 1 if entity is None else entity.span.end
        line.append(" ".join(sentence.tokens[position:end]), style="" if entity is None else "bold")
        if position in wrong:
            line.append(f" ✗{wrong[position].span.type}", style="red")
        if entity is not None:
            is_new = position in wrong or entity.span not in _spans(prediction.base_entities)
            style = "green" if is_new else "cyan"
            line.append(f" {entity.span.type} {entity.probability:.2f}", style=style)
        line.append(" ")
        position = end
    return line


def _spans(entities: list[ScoredSpan]) -> set[Span]:
    return {entity.span for entity in entities}
