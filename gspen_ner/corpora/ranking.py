"""Ranking the sentences of a corpus by how uncertain a tagger is about them: what to annotate next.

The uncertainty is that of the distribution `p(y) ~ exp <theta, y>` over the labellings of a sentence, where
theta includes the global term. Entropy and margin are exact:

    entropy   H(p); optionally per token, so that long sentences do not rank high for their length alone
    margin    1 - (p(best) - p(second best))
    span      1 - the confidence in the least certain predicted entity; without entities, 1 - p(best)
"""

from __future__ import annotations

import csv
import heapq
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from gspen_ner.corpora.plan import Part
from gspen_ner.corpora.rows import CorpusFile, RowSentence, Words, sentences_of
from gspen_ner.ner.predictions import ChainScores, Prediction, SentenceTagger, predictions_of

Measure = Literal["entropy", "margin", "span"]


def uncertainties(
    scored: ChainScores, predictions: list[Prediction], measure: Measure, per_token: bool = False
) -> list[float]:
    """Return the uncertainty of each sentence of a batch.

    Args:
        scored: scores of the batch.
        predictions: predictions from these scores.
        measure: `"entropy"`, `"margin"` or `"span"`; see the header of this module.
        per_token: divide the entropy by the number of tokens; default False.
    """
    theta, chain = scored.theta, scored.chain
    if measure not in get_args(Measure):
        raise ValueError(f"measure must be one of {', '.join(get_args(Measure))}, got {measure!r}")
    if per_token and measure != "entropy":
        raise ValueError(f"per_token needs the measure entropy, got {measure}")
    if measure == "entropy":
        entropy = chain.distribution_entropy(theta).clamp_min(0.0)
        return (entropy / chain.lengths if per_token else entropy).tolist()
    scores, _ = chain.k_best(theta, 2)
    best, second = (scores - chain.log_partition(theta)[:, None]).exp().clamp(0.0, 1.0).T.tolist()
    if measure == "margin":
        return [1 - (first - other) for first, other in zip(best, second, strict=True)]
    least = [min((entity.probability for entity in p.entities), default=None) for p in predictions]
    return [1 - (whole if lowest is None else lowest) for whole, lowest in zip(best, least, strict=True)]


class RatedSentence(NamedTuple):
    """A sentence with its uncertainty.

    Args:
        uncertainty: uncertainty of the tagger.
        file: name of the file.
        line: line number of the row.
        sentence: the sentence.
        words: content of its row.
        prediction: predicted entities.
    """

    uncertainty: float
    file: str
    line: int
    sentence: RowSentence
    words: Words
    prediction: Prediction

    def entry(self, rank: int) -> dict[str, Any]:
        """Return an object for annotation tools; entities have their character positions in `text`."""
        tokens, starts = self.sentence.tokens, self.sentence.starts
        if starts is None:
            text = " ".join(tokens)
            starts = tuple(len(" ".join(tokens[:n])) + (n > 0) for n in range(len(tokens)))
        else:
            first, last = starts[0], starts[-1] + len(tokens[-1])
            text, starts = str(self.words)[first:last], tuple(start - first for start in starts)
        sentence = self.sentence._replace(starts=starts)
        return {
            "rank": rank,
            "uncertainty": round(self.uncertainty, 6),
            "file": self.file,
            "line": self.line,
            "text": text,
            "tokens": list(tokens),
            "tags": self.prediction.tags,
            "entities": [sentence.entity(text, scored) for scored in self.prediction.entities],
        }


def rate(
    tagger: SentenceTagger,
    files: Sequence[CorpusFile],
    part: Part,
    measure: Measure,
    per_token: bool,
    longest: int,
) -> Iterator[RatedSentence]:
    """Yield the sentences of a part of a corpus with their uncertainties; see `uncertainties`."""
    file = files[part.file]
    rows = file.read(part.start, part.stop)
    sentences, _ = sentences_of(rows, longest)
    tokens = [sentence.tokens for sentence in sentences]
    for scored in tagger.scores(tokens, [sentence.document for sentence in sentences]):
        batch = [tokens[row] for row in scored.rows]
        predictions = predictions_of(batch, scored.without_base(), tagger.labels, 0)
        values = uncertainties(scored, predictions, measure, per_token)
        for row, prediction, uncertainty in zip(scored.rows, predictions, values, strict=True):
            sentence = sentences[row]
            line, words = rows.positions[sentence.row].line, rows.words[sentence.row]
            yield RatedSentence(uncertainty, file.path.name, line, sentence, words, prediction)


def most_uncertain(sentences: Iterable[RatedSentence], top: int | None) -> list[dict[str, Any]]:
    """Return the entries of the most uncertain sentences, the most uncertain first.

    Args:
        sentences: rated sentences; of equally uncertain ones, the first rank higher.
        top: number of sentences to keep in memory; None keeps all.
    """
    uncertainty = attrgetter("uncertainty")
    if top is None:
        ranked = sorted(sentences, key=uncertainty, reverse=True)
    else:
        ranked = heapq.nlargest(top, sentences, key=uncertainty)
    return [sentence.entry(rank) for rank, sentence in enumerate(ranked, 1)]


def as_csv(entries: Sequence[dict[str, Any]]) -> str:
    """Return a CSV table of entries; lists are written as JSON."""
    names = ("rank", "uncertainty", "file", "line", "text", "tokens", "tags", "entities")
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        lists = {k: json.dumps(v, ensure_ascii=False) for k, v in entry.items() if isinstance(v, list)}
        writer.writerow(entry | lists)
    return out.getvalue()
