"""The configuration of a model, as config.json holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

from transformers import PretrainedConfig

from gspen_ner.decode import Decoder
from gspen_ner.hosts.huggingface.bio_view import BioView
from gspen_ner.labels import Labels, Scheme

LAYOUT = 1
"""Format version of config.json; increment on incompatible changes."""
System = Literal["unary", "struct", "spen", "gspen"]


class GSPENConfig(PretrainedConfig):
    """Configuration of `GSPENForTokenClassification`.

    Args:
        chain_labels: labels of the chain, in the order of its scores. `id2label`, by which logits and gold
            labels are numbered, has them in BIO and in an order of its own; see `BioView`.
        scheme: tagging scheme of the chain's labels.
        system: `"unary"`, `"struct"`, `"spen"` or `"gspen"`.
        scorer: options of the scorer: of `PieceScorer` with an encoder, else of `BiLSTMCNN`.
        encoder: configuration of a transformer, as a dictionary with its `model_type`; None for the
            BiLSTM-CNN.
        terms: an entry for each global term: its name and options.
        inference: options of `GSPENHead`, of which `solver` is an entry.
        decoder: how `Tagger` finds entities; see `scored_entities`.
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
        scheme: Scheme = "BIOES",
        system: System = "struct",
        scorer: dict[str, Any] | None = None,
        encoder: dict[str, Any] | None = None,
        terms: list[dict[str, Any]] | None = None,
        inference: dict[str, Any] | None = None,
        decoder: Decoder = "viterbi",
        results: dict[str, Any] | None = None,
        layout: int = LAYOUT,
        **kwargs: Any,
    ) -> None:
        if system not in get_args(System):
            raise ValueError(f"system must be one of {', '.join(get_args(System))}, got {system!r}")
        if decoder not in get_args(Decoder):
            raise ValueError(f"decoder must be one of {', '.join(get_args(Decoder))}, got {decoder!r}")
        self.decoder: Decoder = decoder
        self.chain_labels, self.scheme, self.system = list(chain_labels), scheme, system
        self.scorer, self.encoder, self.layout = scorer or {}, encoder, layout
        self.terms, self.inference, self.results = terms or [], inference or {}, results or {}
        if chain_labels:
            given = kwargs.pop("id2label", None)
            ordered = None if given is None else [given[key] for key in sorted(given, key=int)]
            names = BioView(self.labels(), ordered).names
            kwargs["id2label"] = dict(enumerate(names))
            kwargs["label2id"] = {name: number for number, name in enumerate(names)}
        super().__init__(**kwargs)

    @property
    def has_term(self) -> bool:
        """Whether there is a global term."""
        return self.system in ("spen", "gspen")

    @property
    def has_transitions(self) -> bool:
        """Whether neighbouring labels are scored."""
        return self.system in ("struct", "gspen")

    def labels(self) -> Labels:
        """The labels of the chain."""
        return Labels(tuple(self.chain_labels), self.scheme)

    def bio_view(self) -> BioView:
        """The labels as `id2label` has them."""
        names = self.id2label or {}
        return BioView(self.labels(), [names[number] for number in range(self.num_labels)])


def system_name(transitions: bool, term: bool) -> System:
    """Return the system with or without scores of neighbouring labels, and with or without a global term."""
    if transitions:
        return "gspen" if term else "struct"
    return "spen" if term else "unary"
