"""Batches that keep the examples of a document together."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence

MOST_TOKENS = 8192
"""Number of tokens of a batch in prediction, at most."""


def rows_of_documents(documents: Sequence[Hashable]) -> list[list[int]]:
    """Return the numbers of the examples of each document, documents in order of appearance.

    Example:
        >>> rows_of_documents(["a", "b", "a"])
        [[0, 2], [1]]
    """
    rows: dict[Hashable, list[int]] = {}
    for row, document in enumerate(documents):
        rows.setdefault(document, []).append(row)
    return list(rows.values())


def balanced_batches(documents: Sequence[list[int]], order: Iterable[int], count: int) -> list[list[int]]:
    """Return `count` batches of about equal size; each document goes to the smallest batch so far.

    Args:
        documents: numbers of the examples of each document.
        order: numbers of all documents in the order in which they are dealt, usually random.
        count: number of batches.

    Example:
        >>> balanced_batches([[0, 1, 2], [3], [4], [5]], order=[0, 3, 2, 1], count=2)
        [[0, 1, 2], [5, 4, 3]]
    """
    batches: list[list[int]] = [[] for _ in range(count)]
    smallest = [(0, number) for number in range(count)]
    for rows in (documents[document] for document in order):
        size, number = heapq.heappop(smallest)
        batches[number] += rows
        heapq.heappush(smallest, (size + len(rows), number))
    return batches


def batches_of_documents(
    documents: Sequence[list[int]], lengths: Sequence[int], most_rows: int, most_tokens: int = MOST_TOKENS
) -> list[list[int]]:
    """Return batches of whole documents in their order, as large as they may be.

    Args:
        documents: numbers of the sentences of each document.
        lengths: number of tokens of each sentence.
        most_rows: number of sentences of a batch of several documents, at most.
        most_tokens: number of tokens of such a batch, padding included, at most.

    Example:
        >>> batches_of_documents([[0, 1], [2], [3]], lengths=[1, 1, 1, 1], most_rows=3)
        [[0, 1, 2], [3]]
    """
    batches: list[list[int]] = []
    for rows in documents:
        together = (batches[-1] if batches else []) + rows
        longest = max(lengths[row] for row in together)
        if not batches or len(together) > most_rows or len(together) * longest > most_tokens:
            batches.append([])
        batches[-1] += rows
    return batches


def prediction_batches(
    documents: Sequence[Hashable] | None,
    lengths: Sequence[int],
    most_rows: int,
    longest_first: bool = False,
) -> list[list[int]]:
    """Return batches for prediction: whole documents in their order, or sentences of similar length.

    Args:
        documents: document of each sentence; None if sentences need not stay together.
        lengths: number of tokens of each sentence.
        most_rows: number of sentences of a batch, at most; a longer document is a batch by itself.
        longest_first: whether sentences of similar length come longest first; default False.

    Example:
        >>> prediction_batches(None, lengths=[3, 1, 2], most_rows=2)
        [[1, 2], [0]]
        >>> prediction_batches(None, lengths=[3, 1, 2], most_rows=2, longest_first=True)
        [[0, 2], [1]]
    """
    if documents is not None:
        return batches_of_documents(rows_of_documents(documents), lengths, most_rows)
    by_length = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=longest_first)
    return batches_of_documents([[row] for row in by_length], lengths, most_rows)
