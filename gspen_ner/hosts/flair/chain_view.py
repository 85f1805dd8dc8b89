"""Flair's CRF scores as potentials of a chain, and back: the one place that knows about START and STOP.

Flair keeps START and STOP as tags like any other, forbids them by scores of -10,000, and indexes transitions
[to, from]. Here they become start and end scores, which is what they mean; no other tag is touched.
"""

from __future__ import annotations

import torch
from flair.data import Dictionary
from flair.models.sequence_tagger_utils.crf import CRF, START_TAG, STOP_TAG
from jaxtyping import Int
from torch import Tensor, nn

from gspen_ner.labels import Labels, Scheme
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain

FlairScores = tuple[Tensor, Tensor, Tensor]  # features, lengths, transitions: what a tagger's forward returns


class EmissionScores(nn.Module):
    """Takes the place of Flair's CRF module: hands emissions on instead of [B, T, K, K] sums.

    Args:
        crf: the module whose transitions are shared.
    """

    def __init__(self, crf: CRF) -> None:
        super().__init__()
        self.tagset_size, self.transitions = crf.tagset_size, crf.transitions

    def forward(self, features: Tensor) -> Tensor:
        """The features, unchanged."""
        return features


class ChainView:
    """The tags of a Flair dictionary that can be predicted.

    Args:
        dictionary: a tagger's label dictionary, with START and STOP.
        tag_format: `"BIO"` or `"BIOES"`.
        constraints: forbid what the format forbids; Flair itself does not.
    """

    def __init__(self, dictionary: Dictionary, tag_format: Scheme, constraints: bool = False) -> None:
        items = dictionary.get_items()
        self.start, self.stop = items.index(START_TAG), items.index(STOP_TAG)
        self.live = [number for number, item in enumerate(items) if item not in (START_TAG, STOP_TAG)]
        self.names = [items[number] for number in self.live]
        self.number_of = {number: place for place, number in enumerate(self.live)}
        self.labels = _labels(self.names, tag_format)
        self.has_spans = any(name.startswith(("B-", "S-", "I-")) for name in self.names)  # as Flair has it
        if constraints and self.labels is None:
            raise ValueError(f"constraints need tags in {tag_format}, got {', '.join(self.names[:6])}, ...")
        self.legal = self.labels.legal if constraints and self.labels is not None else None

    def potentials(self, scores: FlairScores) -> tuple[Parts, Chain]:
        """Scores as the solvers take them."""
        emissions, lengths, transitions = scores
        if emissions.dim() == 4:  # a plain Flair CRF: emissions + transitions, for every pair
            emissions = emissions[..., self.start] - transitions[:, self.start]
        among = transitions[self.live]
        start, table, end = among[:, self.start], among[:, self.live].mT, transitions[self.stop, self.live]
        if self.legal is not None:
            start, table, end = (
                part.masked_fill(~allowed.to(part.device), -torch.inf)
                for part, allowed in zip((start, table, end), self.legal, strict=True)
            )
        chain = Chain(torch.as_tensor(lengths, device=emissions.device))
        return chain.potentials(emissions[..., self.live], table, start, end), chain

    def numbers(self, prefixes: str, kind: str) -> list[int]:
        """The tags of a type with one of these prefixes."""
        return [n for n, name in enumerate(self.names) if name[:1] in prefixes and name[1:] == f"-{kind}"]

    def gold(self, labels: Int[Tensor, " tokens"], lengths: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
        """Gold tags of all tokens, one behind the other, by sentence and in our numbers."""
        ours = torch.tensor([self.number_of[number] for number in labels.tolist()], device=labels.device)
        rows = torch.zeros(len(lengths), int(max(lengths)), dtype=torch.long, device=labels.device)
        rows[Chain(torch.as_tensor(lengths, device=labels.device)).mask(rows.shape[1])] = ours
        return rows


def _labels(names: list[str], tag_format: Scheme) -> Labels | None:
    """The tags as labels of a scheme; None for tags that are no spans (part of speech, <unk>)."""
    try:
        return Labels(tuple(names), tag_format)
    except ValueError:
        return None
