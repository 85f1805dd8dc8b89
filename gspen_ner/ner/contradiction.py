"""How often a tagger contradicts itself: the same word of a document, once an entity and once not.

Needs no gold labels. A tagger that rarely does it on words of which it is sure works on text in which a
document's mentions of a word have the same type, and gains from document consistency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from gspen_ner.terms.mentions import is_content

if TYPE_CHECKING:
    from gspen_ner.ner.predictions import SentenceTagger

SURE = 0.9
"""Probability of the type of a word from which on the tagger is sure of it."""


def self_contradiction(
    tagger: SentenceTagger, sentences: Sequence[Sequence[str]], documents: Sequence[int]
) -> float:
    """Return the share of a word's other mentions that a tagger is sure are of another type, or none.

    The mean is over all words of which the tagger is sure and that are an entity somewhere in their document.
    0 if there are none; a document term of the tagger is not used.

    Args:
        tagger: the tagger.
        sentences: tokens of each sentence.
        documents: document number of each sentence.
    """
    types = ["O", *tagger.labels.types]
    of_type = torch.tensor(
        [[name[2:] == type_ or name == type_ for type_ in types] for name in tagger.labels.names]
    )
    counts: defaultdict[tuple[int, str], np.ndarray] = defaultdict(lambda: np.zeros(len(types), dtype=int))
    for scores in tagger.scores(sentences, documents):
        marginals = scores.chain.sums(scores.base, with_edges=False)[1].nodes.cpu()
        probability, number = (marginals @ of_type.to(marginals.dtype)).max(-1)
        sure = (probability > SURE).tolist()
        for row, is_sure, type_numbers in zip(scores.rows, sure, number.tolist(), strict=True):
            for position, token in enumerate(sentences[row]):
                if is_sure[position] and is_content(token):
                    counts[documents[row], token.lower()][type_numbers[position]] += 1
    groups = [group for group in counts.values() if group.sum() > 1 and group[1:].any()]
    others = sum((group * (group.sum() - group)).sum() / (group.sum() - 1) for group in groups)
    return float(others / max(sum(group.sum() for group in groups), 1))
