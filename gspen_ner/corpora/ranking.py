"""The sentences of a corpus that a tagger is least sure of: what to annotate next."""

from __future__ import annotations

import csv
import heapq
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gspen_ner.corpora.plan import Part
from gspen_ner.corpora.rows import CorpusFile, RowSentence, Words, sentences_of
from gspen_ner.ner.predictions import Prediction, SentenceTagger, predictions_of
from gspen_ner.ner.uncertainty import Measure, uncertainties


class Doubt(NamedTuple):
    """A sentence, where it stands, and how unsure the tagger is of it."""

    uncertainty: float
    file: str
    line: int
    sentence: RowSentence
    words: Words
    prediction: Prediction

    def entry(self, rank: int) -> dict[str, Any]:
        """As an annotation tool may read it: entities by their characters in `text`."""
        tokens, starts = self.sentence.tokens, self.sentence.starts
        if starts is None:
            text = " ".join(tokens)
            starts = tuple(len(" ".join(tokens[:n])) + (n > 0) for n in range(len(tokens)))
        else:
            first, last = starts[0], starts[-1] + len(tokens[-1])
            text, starts = str(self.words)[first:last], tuple(start - first for start in starts)
        alone = self.sentence._replace(starts=starts)
        return {
            "rank": rank,
            "uncertainty": round(self.uncertainty, 6),
            "file": self.file,
            "line": self.line,
            "text": text,
            "tokens": list(tokens),
            "tags": self.prediction.tags,
            "entities": [alone.entity(text, scored) for scored in self.prediction.entities],
        }


def doubts(
    tagger: SentenceTagger,
    files: Sequence[CorpusFile],
    part: Part,
    measure: Measure,
    per_token: bool,
    longest: int,
) -> Iterator[Doubt]:
    """The sentences of a part of a corpus; see `uncertainties`."""
    file = files[part.file]
    rows = file.read(part.start, part.stop)
    sentences, _ = sentences_of(rows, longest)
    tokens = [sentence.tokens for sentence in sentences]
    for scored in tagger.scores(tokens, [sentence.document for sentence in sentences]):
        some = [tokens[row] for row in scored.rows]
        found = predictions_of(some, scored.without_base(), tagger.labels, 0)
        unsure = uncertainties(scored, found, measure, per_token)
        for row, prediction, uncertainty in zip(scored.rows, found, unsure, strict=True):
            sentence = sentences[row]
            line, words = rows.places[sentence.row].line, rows.words[sentence.row]
            yield Doubt(uncertainty, file.path.name, line, sentence, words, prediction)


class Ranking:
    """The most uncertain sentences of those it was given.

    Args:
        top: how many to keep; None keeps all.
    """

    def __init__(self, top: int | None) -> None:
        self.top, self.given = top, 0
        self._heap: list[tuple[float, int, Doubt]] = []

    def add(self, doubt: Doubt) -> None:
        """Keep a sentence if it is among them; of equals the first."""
        self.given += 1
        entry = (doubt.uncertainty, -self.given, doubt)
        if self.top is None or len(self._heap) < self.top:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def entries(self) -> list[dict[str, Any]]:
        """What was kept, most uncertain first."""
        ordered = sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        return [doubt.entry(rank) for rank, (_, _, doubt) in enumerate(ordered, 1)]


def as_csv(entries: Sequence[dict[str, Any]]) -> str:
    """A table; what is a list is written as JSON."""
    names = ("rank", "uncertainty", "file", "line", "text", "tokens", "tags", "entities")
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        lists = {k: json.dumps(v, ensure_ascii=False) for k, v in entry.items() if isinstance(v, list)}
        writer.writerow(entry | lists)
    return out.getvalue()


def as_json_lines(entries: Sequence[dict[str, Any]]) -> str:
    """An object a line."""
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries)
