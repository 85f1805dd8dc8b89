"""The configuration of a model, as config.json holds it, and its labels as users see them.

The chain may use BIOES inside; gold labels and logits are always BIO. That is what datasets hold and what the
token-classification pipeline joins into entities (it would split "new | york" at an E- label).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PretrainedConfig

from gspen_ner.decode import DECODER, Decoder
from gspen_ner.labels import SCHEME, Labels, Scheme, bio_name
from gspen_ner.ner.confidence import Confidences
from gspen_ner.training.system import SystemName

LAYOUT = 2
"""Format version of config.json; increment on incompatible changes."""
RELATIONS_OF_LAYOUT_1 = ["word", "word_and_next", "previous_and_word", "slot", "wide_slot", "shape"]
"""The relations of a document term whose entry names none; files of layout 1 leave out defaults."""
Terms = Sequence[str | Mapping[str, Any]]
"""Global terms, by name or as entries with options, such as `{"name": "convolution", "width": 3}`."""


class GSPENConfig(PretrainedConfig):
    """Configuration of `GSPENForTokenClassification`.

    Args:
        chain_labels: labels of the chain, in the order of its scores. `id2label`, which numbers logits and
            gold labels, has the BIO labels in an order of its own; see `BioView`.
        scheme: tagging scheme of the chain's labels.
        system: `"unary"`, `"struct"`, `"spen"` or `"gspen"`.
        scorer: options of the scorer: of `PieceScorer` with an encoder, else of `BiLSTMCNN`.
        encoder: configuration of a transformer, as a dictionary with its `model_type`; None for the
            BiLSTM-CNN.
        terms: an entry for each global term: its name and options; a model writes all of its options.
        inference: options of `GSPENHead`, of which `solver` is an entry; a model writes all of them.
        decoder: how `Tagger` predicts entities; see `scored_entities`.
        confidences: how sure the tagger is of its entities, as `Confidences`; None (default) if it is not
            calibrated.
        results: data and scores for the model card; see `model_card`.
        layout: format version of the file that the configuration comes from; see `LAYOUT`.

    Example:
        >>> config = GSPENConfig(["O", "B-PER", "I-PER", "E-PER", "S-PER"], "BIOES", system="gspen")
        >>> config.id2label, config.has_term
        ({0: 'O', 1: 'B-PER', 2: 'I-PER'}, True)
    """

    model_type = "gspen_ner"
    # Trainer's predictions are then the logits alone.
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["negative", "steps"]

    def __init__(
        self,
        chain_labels: Sequence[str] = (),
        scheme: Scheme = SCHEME,
        system: SystemName = "struct",
        scorer: dict[str, Any] | None = None,
        encoder: dict[str, Any] | None = None,
        terms: list[dict[str, Any]] | None = None,
        inference: dict[str, Any] | None = None,
        decoder: Decoder = DECODER,
        confidences: dict[str, Any] | None = None,
        results: dict[str, Any] | None = None,
        layout: int = LAYOUT,
        **kwargs: Any,
    ) -> None:
        for name, value, known in (("system", system, SystemName), ("decoder", decoder, Decoder)):
            if value not in get_args(known):
                raise ValueError(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}")
        self.decoder: Decoder = decoder
        self.set_confidences(None if confidences is None else Confidences.read(confidences))
        self.system: SystemName = system
        self.chain_labels, self.scheme = list(chain_labels), scheme
        self.scorer, self.encoder, self.layout = scorer or {}, encoder, layout
        self.terms, self.inference, self.results = terms or [], inference or {}, results or {}
        if layout == 1:
            self.terms = [_entry_of_layout_1(entry) for entry in self.terms]
            self.layout = LAYOUT
        if chain_labels:
            given = kwargs.pop("id2label", None)
            ordered = None if given is None else [given[key] for key in sorted(given, key=int)]
            names = BioView(self.labels(), ordered).names
            kwargs["id2label"] = dict(enumerate(names))
            kwargs["label2id"] = {name: number for number, name in enumerate(names)}
        super().__init__(**kwargs)

    @classmethod
    def of(
        cls,
        labels: Labels,
        transitions: bool,
        terms: Terms,
        inference: Mapping[str, Any] | None,
        **options: Any,
    ) -> GSPENConfig:
        """Return the configuration of a model.

        Args:
            labels: labels of the chain.
            transitions: whether neighbouring labels are scored.
            terms: global terms.
            inference: options of `GSPENHead`.
            options: other arguments of the configuration.
        """
        config = cls(chain_labels=labels.names, scheme=labels.scheme, **options)
        config.set_terms(transitions, terms, inference)
        return config

    def set_terms(self, transitions: bool, terms: Terms, inference: Mapping[str, Any] | None) -> None:
        """Describe a model with these global terms, and with or without scores of neighbouring labels."""
        if transitions:
            self.system = "gspen" if terms else "struct"
        else:
            self.system = "spen" if terms else "unary"
        self.terms = [{"name": term} if isinstance(term, str) else dict(term) for term in terms]
        self.inference = dict(inference or {})

    def set_confidences(self, confidences: Confidences | None) -> None:
        """Keep how sure the tagger is of its entities; None if it is not calibrated."""
        self.confidences = None if confidences is None else confidences.model_dump()

    @property
    def has_term(self) -> bool:
        """Whether there is a global term."""
        return self.system in ("spen", "gspen")

    @property
    def has_transitions(self) -> bool:
        """Whether neighbouring labels are scored."""
        return self.system in ("struct", "gspen")

    def labels(self) -> Labels:
        """Return the labels of the chain."""
        return Labels(tuple(self.chain_labels), self.scheme)

    def bio_view(self) -> BioView:
        """Return the labels as `id2label` has them."""
        names = self.id2label or {}
        return BioView(self.labels(), [names[number] for number in range(self.num_labels)])


def _entry_of_layout_1(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of a term with the default relations of its time."""
    return {"relations": RELATIONS_OF_LAYOUT_1} | entry if entry.get("name") == "document" else entry


def chain_labels(names: Sequence[str], scheme: Scheme) -> Labels:
    """Return the labels of a chain in a tagging scheme, given a dataset's labels, which are BIO.

    Example:
        >>> chain_labels(["O", "B-LOC", "I-LOC"], "BIOES").names
        ('O', 'B-LOC', 'I-LOC', 'E-LOC', 'S-LOC')
    """
    given = Labels(tuple(names), "BIO")
    return given if scheme == "BIO" else Labels.of_types(given.types, scheme)


class BioView:
    """Converts between the labels of a chain and BIO.

    Args:
        chain: labels of the chain.
        names: BIO labels in the order of logits and gold labels; by default in the chain's order.

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
        self._bio_of_chain = [self.names.index(bio_name(name)) for name in chain.names]
        self._inside = [
            self.names.index(inside) if (inside := f"I-{name[2:]}") in self.names else number
            for number, name in enumerate(self.names)
        ]

    @property
    def outside(self) -> int:
        """Number of the label O."""
        return self.names.index("O")

    def to_chain(self, labels: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
        """Return gold labels of the chain. Illegal BIO is repaired: an I- that continues nothing opens.

        Raises:
            ValueError: for a number that is no label, or a label that the chain does not have.
        """
        device = labels.device
        present = torch.arange(labels.shape[1], device=device) < lengths[:, None]
        wrong = labels[present & ((labels < 0) | (labels >= len(self.names)))]
        if len(wrong):
            raise ValueError(f"labels must be numbers from 0 to {len(self.names) - 1}, got {int(wrong[0])}")
        labels = labels.masked_fill(~present, self.outside)
        types = torch.tensor(self._types, device=device)[labels]
        outside = types.new_full((len(types), 1), -1)
        before, after = torch.cat([outside, types[:, :-1]], 1), torch.cat([types[:, 1:], outside], 1)
        opens = torch.tensor(self._begins, device=device)[labels] | (types != before)
        continued = (after == types) & ~torch.cat([opens[:, 1:], torch.ones_like(opens[:, :1])], 1)
        # Indexing by -1, the type of "O", takes the last row.
        numbers = torch.tensor(self._table(), device=device)[types, opens.long(), continued.long()]
        if (numbers < 0).any():
            row, position = (numbers < 0).nonzero()[0].tolist()
            name = self.chain.types[int(types[row, position])]
            raise ValueError(f"gold labels of {name} need a label that is not among {list(self.chain.names)}")
        return numbers

    def _table(self) -> list[list[list[int]]]:
        """Return the chain's labels by type, whether they open a span, and whether the span continues."""
        prefixes = ["IB", "IB"] if self.chain.scheme == "BIO" else ["ES", "IB"]
        table = [[[-1, -1], [-1, -1]] for _ in self.chain.types]
        for (number, name), opens, continued in product(enumerate(self.chain.types), (0, 1), (0, 1)):
            label = self.chain.index(prefixes[continued][opens], name)
            table[number][opens][continued] = -1 if label is None else label
        return [*table, [[self.chain.names.index("O")] * 2] * 2]

    def marginals(self, nodes: Float[Tensor, "B T L"]) -> Float[Tensor, "B T K"]:
        """Return the probabilities of BIO labels from the probabilities of the chain's labels."""
        return self._sum_to(nodes, self._bio_of_chain)

    def inside(self, marginals: Float[Tensor, "B T K"]) -> Float[Tensor, "B T K"]:
        """Return the probabilities of a word's later pieces, where B- of the first piece becomes I-.

        Only the probability of the likeliest label's type moves, so that all pieces of a word agree on the
        type.
        """
        types = torch.tensor(self._types, device=marginals.device)
        likeliest = types[marginals.argmax(-1)]
        return torch.where(types == likeliest[..., None], self._sum_to(marginals, self._inside), marginals)

    def _sum_to(self, values: Tensor, targets: list[int]) -> Tensor:
        """Return BIO columns, each the sum of the values whose target it is."""
        result = values.new_zeros(*values.shape[:-1], len(self.names))
        return result.index_add(-1, torch.tensor(targets, device=values.device), values)
