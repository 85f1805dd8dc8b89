"""Document consistency: mentions of the same name in one document should be labelled alike.

    T(p) = 1/2 sum_i p_i' A (s_i / k_i) + 1/2 sum_i p_i' W (s_i / sqrt(k_i)),
    s_i  = sum of p_j over the k_i other mentions of i's word in its document

A weighs what the other mentions say on average, W how many of them say it. Both are used symmetrised,
since only A + A' matters, and start at zero. The sentences of a document share one score, so they are
inferred together (`groups`); give a sentence that stands alone a document number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.term import Context, GlobalTerm, Noise


class DocumentConsistency(GlobalTerm):
    """Rewards (or punishes) pairs of labels of mentions of one word.

    Args:
        num_labels: labels of each node.

    Example:
        >>> mentions = match_mentions([["Paris", "won"], ["PARIS", "lost"]], [0, 0])
        >>> mentions
        tensor([[ 0, -1],
                [ 0, -1]])
        >>> marginals = Parts(torch.full((2, 2, 3), 1 / 3))
        >>> context = Context(torch.ones(2, 2, dtype=torch.bool), torch.tensor([0, 0]), mentions)
        >>> DocumentConsistency(num_labels=3)(marginals, marginals, context).shape
        torch.Size([2])
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.agreement = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.support = nn.Parameter(torch.zeros(num_labels, num_labels))

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        mentions = self._mentions(context)
        batch, length, _ = marginals.nodes.shape
        flat = mentions.flatten()
        at = (flat >= 0).nonzero().squeeze(1)
        mention = flat[at]
        own = marginals.nodes.flatten(0, 1)[at]
        size = int(mention.max()) + 1 if len(mention) else 0
        others = own.new_zeros(size, own.shape[1]).index_add(0, mention, own)[mention] - own
        count = torch.bincount(mention, minlength=size)[mention][:, None] - 1
        count = count.clamp_min(1).to(own.dtype)  # a single mention has no others, and s_i = 0
        say = others / count @ _symmetric(self.agreement) + others / count.sqrt() @ _symmetric(self.support)
        scores = 0.5 * (own * say).sum(1)
        return own.new_zeros(batch).index_add(0, at // length, scores)

    def groups(self, context: Context) -> Int[Tensor, " B"] | None:
        return context.documents

    def _mentions(self, context: Context) -> Int[Tensor, "B N"]:
        if context.mentions is None:
            raise ValueError("document consistency needs Context.mentions; see match_mentions")
        return context.mentions.masked_fill(~context.mask, -1)


def match_mentions(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> Int[Tensor, "B N"]:
    """Number the mentions of a batch of sentences: equal numbers, same word in the same document.

    A mention is a token with an upper-case letter, and case does not distinguish mentions: "Paris" and
    "PARIS" are one, "paris" is none. Tokens that are no mention, and padding, are -1.

    Example:
        >>> match_mentions([["Paris", "won"], ["PARIS", "Saint-Germain"]], documents=[0, 0])
        tensor([[ 0, -1],
                [ 0,  1]])
    """
    result = torch.full((len(sentences), max(map(len, sentences), default=0)), -1)
    for row, numbers in enumerate(mention_numbers(sentences, documents)):
        result[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
    return result


def mention_numbers(
    sentences: Sequence[Sequence[str]], documents: Sequence[int] | Int[Tensor, " B"]
) -> list[list[int]]:
    """The same for any number of sentences, without padding."""
    if len(sentences) != len(documents):
        raise ValueError(f"{len(sentences)} sentences but {len(documents)} document numbers")
    numbers: dict[tuple[int, str], int] = {}
    return [
        [
            numbers.setdefault((int(document), token.lower()), len(numbers)) if token != token.lower() else -1
            for token in tokens
        ]
        for tokens, document in zip(sentences, documents, strict=True)
    ]


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.mT)
