"""F1 by the number of mentions in a document: more mentions give a document term more evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gspen_ner.labels import Span, spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import Score, Spans, span_f1
from gspen_ner.terms.mentions import RELATIONS, mention_numbers

_WORD = list(RELATIONS).index("word")


def f1_by_mentions(sentences: Sequence[TaggedSentence], predicted: Spans, most: int = 6) -> dict[int, Score]:
    """Score entities grouped by their mentions: the count of their most frequent word in their document.

    Words with an upper-case letter are counted, ignoring the case of their other letters; see
    `match_mentions`.

    Args:
        sentences: sentences with gold tags.
        predicted: predicted entities of each sentence.
        most: largest group; entities with more mentions belong to it. Default 6.

    Example:
        >>> tagged = [("Rome won", "B-ORG O"), ("ROME lost", "B-ORG O"), ("Ann Lee left", "B-PER I-PER O")]
        >>> sentences = [TaggedSentence(words.split(), tags.split(), 0) for words, tags in tagged]
        >>> scores = f1_by_mentions(sentences, [[Span(0, 1, "ORG")], [], [Span(0, 2, "PER")]])
        >>> {mentions: (score.recall, score.support) for mentions, score in scores.items()}
        {1: (1.0, 1), 2: (0.5, 2)}
    """
    numbered = mention_numbers([s.tokens for s in sentences], [s.document for s in sentences])
    words = [[numbers[_WORD] for numbers in row] for row in numbered]
    counts = Counter(number for row in words for number in row)
    counts[-1] = 1  # words without an upper-case letter count as a single mention

    def mentions(row: int, span: Span) -> int:
        return min(most, max(counts[number] for number in words[row][span.start : span.end]))

    def select(rows: Spans, group: int) -> list[list[Span]]:
        return [[span for span in spans if mentions(row, span) == group] for row, spans in enumerate(rows)]

    gold = [spans_of_tags(sentence.tags, "BIO") for sentence in sentences]
    lengths = [len(sentence.tokens) for sentence in sentences]
    groups = sorted({mentions(row, span) for row, spans in enumerate(gold) for span in spans})
    return {group: span_f1(select(gold, group), select(predicted, group), lengths).micro for group in groups}
