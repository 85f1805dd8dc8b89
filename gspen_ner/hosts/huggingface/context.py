"""The words around a sentence that a transformer reads along with it, as FLERT does.

    a document   ->   words before | the sentence | words after   ->   pieces, scored in the middle

The neighbours come from the sentences of the same document in their order, whole words up to `context_tokens`
pieces on each side. They are cut short where sentence and context would not fit in the encoder's window; a
sentence is never cut, and one that fills the window alone is read alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import datasets

from gspen_ner.hosts.huggingface.encoder import PieceScorer
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.pieces import CONTEXT_COLUMNS, Neighbours, PieceReader
from gspen_ner.training.documents import rows_of_documents


def add_context(dataset: datasets.Dataset, model: GSPENForTokenClassification) -> datasets.Dataset:
    """Return rows with the neighbouring words that the model reads, as columns that `Collator` expects.

    Rows are returned as they are if the model reads sentences alone, or if they have these columns already.
    Add the context before rows are shuffled or selected: it is taken from the rows of the same `document`, in
    their order. Without a column `document`, no sentence has a context.

    Args:
        dataset: rows with `tokens` and `document`.
        model: the model that will read them.

    Example:
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> rows = datasets.Dataset.from_dict({"tokens": [["Ann", "left"]], "document": [0]})
        >>> add_context(rows, model).column_names  # a BiLSTM-CNN reads sentences alone
        ['tokens', 'document']
    """
    names = dataset.column_names
    if not model.context_tokens or "tokens" not in names or CONTEXT_COLUMNS[0] in names:
        return dataset
    documents = dataset[:]["document"] if "document" in names else range(len(dataset))
    strings = datasets.List(datasets.Value("string"))
    around = neighbours(model, dataset[:]["tokens"], documents)
    for side, name in enumerate(CONTEXT_COLUMNS):
        words = [list(context[side]) for context in around]
        dataset = dataset.add_column(name, words, feature=strings)
    return dataset


def neighbours(
    model: GSPENForTokenClassification, sentences: Sequence[Sequence[str]], documents: Sequence[int]
) -> list[Neighbours]:
    """Return the words around each sentence that a model with a context reads.

    Args:
        model: a model whose `context_tokens` are not 0.
        sentences: tokens of each sentence.
        documents: document of each sentence; sentences of a document are in the order of its text.
    """
    reader, scorer = model.reader, model.scorer
    assert isinstance(reader, PieceReader)
    assert isinstance(scorer, PieceScorer)
    result = [Neighbours()] * len(sentences)
    for rows in rows_of_documents(documents):
        words = [word for row in rows for word in sentences[row]]
        pieces = [0, *accumulate(reader.piece_counts(words))]  # number of pieces before each word
        bounds = pairwise(accumulate((len(sentences[row]) for row in rows), initial=0))
        for row, (start, end) in zip(rows, bounds, strict=True):
            room = scorer.frame.room - (pieces[end] - pieces[start])
            most = min(model.context_tokens, max(room, 0) // 2)
            first = bisect_left(pieces, pieces[start] - most)
            last = bisect_right(pieces, pieces[end] + most) - 1
            result[row] = Neighbours(words[first:start], words[end:last])
    return result
