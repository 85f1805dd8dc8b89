"""How the words of a batch lie among its pieces, where only pieces are known."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gspen_ner.hosts.huggingface.bio_view import BioView
from gspen_ner.hosts.huggingface.word_pieces import find_words
from gspen_ner.polytopes import Chain
from gspen_ner.scorers.bilstm_cnn import padded

IGNORED = -100  # the label of special pieces, later pieces of a word, and padding


class PieceLayout(NamedTuple):
    """Where words begin, and which pieces belong to any."""

    starts: Bool[Tensor, "B S"]
    belongs: Bool[Tensor, "B S"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, kinds: Int[Tensor, "B S"], attention_mask: Tensor, labels: Tensor | None) -> PieceLayout:
        """The layout that labels tell or, without any, the kinds of the pieces."""
        starts, belongs = find_words(kinds, attention_mask)
        if labels is not None:
            starts = labels != IGNORED
        starts[:, 0] |= ~starts.any(1)  # a row without words: a chain needs at least one
        return cls(starts, belongs | starts, starts.sum(1))

    def by_words(self, labels: Int[Tensor, "B S"], bio: BioView) -> Int[Tensor, "B T"]:
        """Labels of the words; what stands for one in a row without words is O."""
        present = Chain(self.lengths).mask(int(self.lengths.max()))
        found = labels[self.starts]
        found = found.masked_fill(found == IGNORED, bio.names.index("O"))
        return padded(found[:, None], present).squeeze(-1)

    def by_pieces(self, marginals: Float[Tensor, "B T K"], bio: BioView) -> Float[Tensor, "B S K"]:
        """Marginals of the pieces, which are those of their words; special ones are O."""
        word = (self.starts.cumsum(1) - 1).clamp_min(0)[..., None].expand(-1, -1, marginals.shape[-1])
        first, later = marginals.gather(1, word), bio.inside(marginals).gather(1, word)
        outside = torch.zeros_like(first)
        outside[..., bio.names.index("O")] = 1.0
        found = torch.where(self.starts[..., None], first, later)
        return torch.where(self.belongs[..., None], found, outside)
