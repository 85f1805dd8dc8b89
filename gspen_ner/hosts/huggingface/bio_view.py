"""How the outside sees a chain's labels: in BIO, whatever scheme the chain has.

Gold labels come in as BIO numbers, log marginals go out in BIO: that is what datasets hold and what the
token-classification pipeline joins into entities (it would cut "new | york" in two at an E- label).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gspen_ner.labels import Labels


class BioView:
    """Converts between the labels of a chain and BIO.

    Args:
        chain: the labels of the chain.
        names: the BIO labels in the order wanted; if not given and the chain's are BIO, theirs.

    Example:
        >>> view = BioView(Labels.of_types(["LOC"], "BIOES"))
        >>> view.names
        ('O', 'B-LOC', 'I-LOC')
        >>> numbers = view.to_chain(torch.tensor([[1, 2, 0, 1]]), torch.tensor([4]))
        >>> [view.chain.names[number] for number in numbers[0]]
        ['B-LOC', 'E-LOC', 'O', 'S-LOC']
    """

    def __init__(self, chain: Labels, names: Sequence[str] | None = None) -> None:
        if "O" not in chain.names:
            raise ValueError(f"labels need an 'O', got {list(chain.names)}")
        self.chain = chain
        bio = chain if chain.scheme == "BIO" else Labels.of_types(chain.types, "BIO")
        self.names = bio.names if names is None else tuple(names)
        if sorted(self.names) != sorted(bio.names):
            raise ValueError(f"expected the labels {list(bio.names)} in any order, got {list(self.names)}")
        # Plain lists: a model may be made on the meta device, where new tensors would hold nothing.
        self._types = [-1 if name == "O" else chain.types.index(name[2:]) for name in self.names]
        self._begins = [name[0] == "B" for name in self.names]
        self._seen_as = [self.names.index(_in_bio(name)) for name in chain.names]
        self._inside = [
            self.names.index(inside) if (inside := f"I-{name[2:]}") in self.names else number
            for number, name in enumerate(self.names)
        ]

    def to_chain(self, labels: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
        """Gold labels of the chain. What BIO does not allow is repaired: an I- that continues nothing opens.

        Raises:
            ValueError: for a number that is no label, or a label that the chain does not have.
        """
        device = labels.device
        present = torch.arange(labels.shape[1], device=device) < lengths[:, None]
        wrong = labels[present & ((labels < 0) | (labels >= len(self.names)))]
        if len(wrong):
            raise ValueError(f"labels must be numbers from 0 to {len(self.names) - 1}, got {int(wrong[0])}")
        labels = labels.masked_fill(~present, self.names.index("O"))
        kinds = torch.tensor(self._types, device=device)[labels]
        outside = kinds.new_full((len(kinds), 1), -1)
        before, after = torch.cat([outside, kinds[:, :-1]], 1), torch.cat([kinds[:, 1:], outside], 1)
        opens = torch.tensor(self._begins, device=device)[labels] | (kinds != before)
        goes_on = (after == kinds) & ~torch.cat([opens[:, 1:], torch.ones_like(opens[:, :1])], 1)
        # Indexing by -1, the type of "O", takes the last row.
        numbers = torch.tensor(self._table(), device=device)[kinds, opens.long(), goes_on.long()]
        if (numbers < 0).any():
            row, position = (numbers < 0).nonzero()[0].tolist()
            kind = self.chain.types[int(kinds[row, position])]
            raise ValueError(f"gold labels of {kind} need a label that is not among {list(self.chain.names)}")
        return numbers

    def _table(self) -> list[list[list[int]]]:
        """Numbers of the chain's labels by type, whether they open a span, and whether it goes on."""
        prefixes = ["IB", "IB"] if self.chain.scheme == "BIO" else ["ES", "IB"]
        table = [[[-1, -1], [-1, -1]] for _ in self.chain.types]
        for (number, kind), opens, goes_on in product(enumerate(self.chain.types), (0, 1), (0, 1)):
            found = self.chain.index(prefixes[goes_on][opens], kind)
            table[number][opens][goes_on] = -1 if found is None else found
        return [*table, [[self.chain.names.index("O")] * 2] * 2]

    def marginals(self, nodes: Float[Tensor, "B T L"]) -> Float[Tensor, "B T K"]:
        """Probabilities of the BIO labels from those of the chain's."""
        return self._moved(nodes, self._seen_as)

    def inside(self, marginals: Float[Tensor, "B T K"]) -> Float[Tensor, "B T K"]:
        """The same for later pieces of a word: what opens an entity there only continues it.

        Only the mass of the likeliest label's type is moved, so that all pieces of a word agree on the type.
        """
        kinds = torch.tensor(self._types, device=marginals.device)
        likeliest = kinds[marginals.argmax(-1)]
        return torch.where(kinds == likeliest[..., None], self._moved(marginals, self._inside), marginals)

    def _moved(self, values: Tensor, to: list[int]) -> Tensor:
        result = values.new_zeros(*values.shape[:-1], len(self.names))
        return result.index_add(-1, torch.tensor(to, device=values.device), values)


def _in_bio(name: str) -> str:
    return name if name == "O" else f"{'B' if name[0] in 'BS' else 'I'}-{name[2:]}"
