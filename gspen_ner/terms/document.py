"""Document consistency: tokens of a document that have to do with each other should be labelled alike.

    T(p) = 1/2 sum_r sum_i p_i' A_r (s_ri / k_ri) + 1/2 sum_r sum_i p_i' W_r (s_ri / sqrt(k_ri)),
    s_ri = sum of p_j over the k_ri other tokens that relation r ties to i, such as mentions of i's word

A weighs what the others say on average, W how many of them say it. Both are used symmetrised, since only
A + A' matters, and start at zero. The sentences of a document share one score, so they are inferred together
(`groups`); give a sentence that stands alone a document number of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.mentions import RELATIONS, Relation
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("document", given=["num_labels"])
class DocumentConsistency(GlobalTerm):
    """Rewards (or punishes) pairs of labels of related tokens.

    Args:
        num_labels: number of labels of each node.
        relations: the relations that tie tokens of a document, each with its own weights; see RELATIONS.

    Example:
        >>> from gspen_ner import match_mentions
        >>> sentences, documents = [["Paris", "won"], ["PARIS", "lost"]], [0, 0]
        >>> marginals, here = Parts(torch.full((2, 2, 3), 1 / 3)), torch.ones(2, 2, dtype=torch.bool)
        >>> context = Context(here, torch.tensor(documents), match_mentions(sentences, documents))
        >>> DocumentConsistency(num_labels=3, relations=["word"])(marginals, marginals, context).shape
        torch.Size([2])
    """

    def __init__(self, num_labels: int, relations: Sequence[Relation] = tuple(RELATIONS)) -> None:
        super().__init__()
        self.relations = tuple(relations)
        self.agreement = nn.Parameter(torch.zeros(len(self.relations), num_labels, num_labels))
        self.support = nn.Parameter(torch.zeros(len(self.relations), num_labels, num_labels))

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        """Refuse no relation, and a relation that is named twice."""
        relations = options["relations"]
        if not relations or len(set(relations)) < len(relations):
            raise ValueError(f"relations must be at least one relation, each once, got {list(relations)}")

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        return self._scores(marginals, self._ties(context))[0]

    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """In closed form: the weights being symmetric, what the others say of a token is its gradient."""
        with torch.inference_mode(False), torch.no_grad():
            ties = self._ties(context)
            value, said = self._scores(marginals, ties)
            grad = marginals.nodes.new_zeros(marginals.nodes.flatten(0, 1).shape).index_add(0, ties.at, said)
            return value, Parts(grad.view_as(marginals.nodes))

    def groups(self, context: Context) -> Int[Tensor, " B"] | None:
        return context.documents

    def _scores(
        self, marginals: Parts, ties: Ties
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, "ties labels"]]:
        """The score of each sentence, and what the others say at each end of a tie."""
        batch, length, _ = marginals.nodes.shape
        own = marginals.nodes.flatten(0, 1)[ties.at]
        others = own.new_zeros(ties.size, own.shape[1]).index_add(0, ties.group, own)[ties.group] - own
        count = torch.bincount(ties.group, minlength=ties.size)[ties.group][:, None] - 1
        count = count.clamp_min(1).to(own.dtype)  # a single mention has no others, and s_i = 0
        mean, total = (others / weight for weight in (count, count.sqrt()))
        weights = zip(_symmetric(self.agreement), _symmetric(self.support), strict=True)
        parts = zip(mean.split(ties.rows), total.split(ties.rows), weights, strict=True)
        said = torch.cat([one @ agreement + all_ @ support for one, all_, (agreement, support) in parts])
        scores = 0.5 * (own * said).sum(1)
        return own.new_zeros(batch).index_add(0, ties.at // length, scores), said

    def _ties(self, context: Context) -> Ties:
        if context.mentions is None:
            raise ValueError("document consistency needs Context.mentions; see match_mentions")
        columns = [list(RELATIONS).index(name) for name in self.relations]
        numbers = context.mentions[..., columns].masked_fill(~context.mask[..., None], -1)
        numbers = numbers.flatten(0, 1).mT
        relation, at = (numbers >= 0).nonzero(as_tuple=True)
        size = int(numbers.max()) + 1 if len(at) else 0
        rows = torch.bincount(relation, minlength=len(columns)).tolist()
        return Ties(at, relation * size + numbers[relation, at], len(columns) * size, rows)


class Ties(NamedTuple):
    """Tokens with what ties them, relation by relation."""

    at: Int[Tensor, " ties"]
    """Place of the token in the batch, sentences one behind the other."""
    group: Int[Tensor, " ties"]
    """Equal for tokens that are tied."""
    size: int
    """Groups there may be."""
    rows: list[int]
    """How many belong to each relation."""


def _symmetric(matrices: Float[Tensor, "R L L"]) -> Float[Tensor, "R L L"]:
    return 0.5 * (matrices + matrices.mT)
