"""Document consistency: related tokens of a document should have the same labels.

    T(p) = 1/2 sum_r sum_i p_i' A_r (s_ri / k_ri) + 1/2 sum_r sum_i p_i' W_r (s_ri / sqrt(k_ri)),
    s_ri = sum of p_j over the k_ri other tokens that relation r connects with i, such as mentions of i's word

A is the weight of the average of the others, W that of their number too. Both are used symmetrised, since
only A + A' matters, and start at zero. Their numbers are free, or *shared* by pairs of labels that have the
same in common, whatever their types are called:

    both O | O beside an entity, by its prefix | the same type, or two types, by both prefixes

That is 25 numbers instead of one for each pair, and they serve any set of types. The sentences of a document
share one score, so their inference is coupled (`groups`); a sentence outside any document needs a document
number of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor, nn

from gspen_ner.parts import Parts
from gspen_ner.terms.mentions import DEFAULT_RELATIONS, RELATIONS, Relation
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("document", given=["labels"])
class DocumentConsistency(GlobalTerm):
    """Reward (or punish) pairs of labels of related tokens.

    Args:
        labels: names of the labels of each node; for free matrices their number is enough.
        relations: relations between tokens of a document, each with its own weights; see `RELATIONS`.
        matrices: free weights of each pair of labels, or shared ones, which know no types.
        start: first weights: zero, or pretrained ones, which need BIOES labels; see `pretrained_weights`.

    Example:
        >>> from gspen_ner import match_mentions
        >>> sentences, documents = [["Paris", "won"], ["PARIS", "lost"]], [0, 0]
        >>> marginals, mask = Parts(torch.full((2, 2, 3), 1 / 3)), torch.ones(2, 2, dtype=torch.bool)
        >>> context = Context(mask, torch.tensor(documents), match_mentions(sentences, documents))
        >>> DocumentConsistency(3, relations=["word"])(marginals, marginals, context).shape
        torch.Size([2])
    """

    def __init__(
        self,
        labels: Sequence[str] | int,
        relations: Sequence[Relation] = DEFAULT_RELATIONS,  # type: ignore[valid-type]
        matrices: Literal["free", "shared"] = "free",
        start: Literal["zero", "pretrained"] = "zero",
    ) -> None:
        super().__init__()
        self.relations = tuple(relations)
        self.shared_by: list[list[int]] | None = None
        if isinstance(labels, int):
            for option in (matrices, start):
                if option not in ("free", "zero"):
                    raise ValueError(f"{option} matrices need the names of the labels, got {labels}")
            weights = torch.zeros(2, len(self.relations), labels, labels)
        else:
            classes = pair_classes(labels)
            if start == "pretrained":
                weights = pretrained_weights(self.relations, labels)
            else:
                weights = torch.zeros(2, len(self.relations), NUM_PAIR_CLASSES)
            if matrices == "shared":
                self.shared_by = classes
            else:
                weights = by_pairs(weights, classes)
        self.agreement, self.support = (nn.Parameter(part.clone()) for part in weights)

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        """Raise a ValueError unless there are relations, each named once."""
        relations = options["relations"]
        if not relations or len(set(relations)) < len(relations):
            raise ValueError(f"relations must be at least one relation, each once, got {list(relations)}")

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        return self._scores(marginals, self._memberships(context))[0]

    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        """Return both in closed form: as the weights are symmetric, a token's evidence is its gradient."""
        with torch.inference_mode(False), torch.no_grad():
            members = self._memberships(context)
            value, evidence = self._scores(marginals, members)
            grad = torch.zeros_like(marginals.nodes).flatten(0, 1).index_add(0, members.token, evidence)
            return value, Parts(grad.view_as(marginals.nodes))

    def groups(self, context: Context) -> Int[Tensor, " B"] | None:
        return context.documents

    def _scores(
        self, marginals: Parts, members: _Memberships
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, "M L"]]:
        """Return the score of each sentence, and for each membership the evidence of the other members."""
        batch, length, _ = marginals.nodes.shape
        token, group, groups, sizes = members
        own = marginals.nodes.flatten(0, 1)[token]
        others = own.new_zeros(groups, own.shape[1]).index_add(0, group, own)[group] - own
        count = torch.bincount(group, minlength=groups)[group][:, None] - 1
        count = count.clamp_min(1).to(own.dtype)  # a single mention has no others, and s_i = 0
        means, sums = ((others / weight).split(sizes) for weight in (count, count.sqrt()))
        weights = (self._matrices(weights) for weights in (self.agreement, self.support))
        parts = zip(means, sums, *weights, strict=True)
        evidence = torch.cat(
            [mean @ agreement + total @ support for mean, total, agreement, support in parts]
        )
        scores = 0.5 * (own * evidence).sum(1)
        return own.new_zeros(batch).index_add(0, token // length, scores), evidence

    def _matrices(self, weights: nn.Parameter) -> Float[Tensor, "R L L"]:
        """Return the symmetric matrices of weights."""
        if self.shared_by is None:
            return 0.5 * (weights + weights.mT)
        return by_pairs(weights, self.shared_by)

    def _memberships(self, context: Context) -> _Memberships:
        if context.mentions is None:
            raise ValueError("document consistency needs Context.mentions; see match_mentions")
        columns = [list(RELATIONS).index(name) for name in self.relations]
        numbers = context.mentions[..., columns].masked_fill(~context.mask[..., None], -1)
        numbers = numbers.flatten(0, 1).mT
        relation, token = (numbers >= 0).nonzero(as_tuple=True)
        size = int(numbers.max()) + 1 if len(token) else 0
        sizes = torch.bincount(relation, minlength=len(columns)).tolist()
        return _Memberships(token, relation * size + numbers[relation, token], len(columns) * size, sizes)


class _Memberships(NamedTuple):
    """Tokens and the groups of related tokens that they belong to, one relation after another."""

    token: Int[Tensor, " M"]
    """Index of the token among all positions of the batch."""
    group: Int[Tensor, " M"]
    """Number of the group."""
    groups: int
    """Upper bound of the group numbers."""
    sizes: list[int]
    """Number of memberships of each relation."""


_PREFIXES = "BIES"
_PAIR_CLASSES = [
    ("O", "O"),
    *(("O", prefix) for prefix in _PREFIXES),
    *((same, *pair) for same in (True, False) for pair in combinations_with_replacement(_PREFIXES, 2)),
]
NUM_PAIR_CLASSES = len(_PAIR_CLASSES)


def pair_classes(labels: Sequence[str]) -> list[list[int]]:
    """Return the number of the class of each pair of labels; NUM_PAIR_CLASSES if one is no tag, as <unk>.

    Example:
        >>> pair_classes(["O", "B-PER", "B-LOC"])
        [[0, 1, 1], [1, 5, 15], [1, 15, 5]]
    """
    numbers = {pair: number for number, pair in enumerate(_PAIR_CLASSES)}

    def number(one: str, other: str) -> int:
        first, second = sorted((one, other), key=lambda name: (name != "O", _PREFIXES.find(name[0])))
        pair: tuple[Any, ...] = (first[2:] == second[2:], first[0], second[0])
        if first == "O":
            pair = ("O", second[0])
        is_tag = all(name == "O" or name[1:2] == "-" for name in (one, other))
        return numbers.get(pair, NUM_PAIR_CLASSES) if is_tag else NUM_PAIR_CLASSES

    return [[number(one, other) for other in labels] for one in labels]


def by_pairs(weights: Float[Tensor, "*R C"], classes: list[list[int]]) -> Float[Tensor, "*R L L"]:
    """Return the weight of each pair of labels, given those of the classes of pairs; 0 without a class."""
    return nn.functional.pad(weights, (0, 1))[..., torch.tensor(classes, device=weights.device)]


PRETRAINED_FILE = Path(__file__).with_suffix(".safetensors")
"""Shared weights of some relations, learned on the corpora that its metadata names."""


def pretrained_relations(file: Path = PRETRAINED_FILE) -> list[str]:
    """Return the relations that have pretrained weights."""
    with safe_open(file, "pt") as saved:
        return saved.metadata()["relations"].split()


def pretrained_weights(
    relations: Sequence[str], labels: Sequence[str], file: Path = PRETRAINED_FILE
) -> Float[Tensor, "2 R C"]:
    """Return the pretrained weights of relations, of averages and of sums; zeros for relations without.

    Raises:
        ValueError: for labels that are not BIOES.
    """
    if not any(label[:2] in ("E-", "S-") for label in labels):
        raise ValueError(f"pretrained matrices need BIOES labels, got {', '.join(labels[:5])}, ...")
    known = {name: number for number, name in enumerate(pretrained_relations(file))}
    with safe_open(file, "pt") as saved:
        weights = torch.stack([saved.get_tensor("agreement"), saved.get_tensor("support")])
    weights = nn.functional.pad(weights, (0, 0, 0, 1))
    return weights[:, [known.get(name, -1) for name in relations]]
