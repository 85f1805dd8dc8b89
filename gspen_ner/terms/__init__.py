"""Global terms T(f, p): differentiable scores of whole label sequences, or of whole documents."""

from typing import Any

from gspen_ner.terms.convolution import Convolution
from gspen_ner.terms.document import DocumentConsistency
from gspen_ner.terms.mentions import RELATIONS, match_mentions, mention_numbers
from gspen_ner.terms.nlstruct import NLStruct
from gspen_ner.terms.padded_mlp import PaddedMLP
from gspen_ner.terms.region_mlp import RegionMLP
from gspen_ner.terms.sharpness import Sharpness
from gspen_ner.terms.term import Context, GlobalTerm, TermSum

__all__ = [
    "RELATIONS",
    "Context",
    "Convolution",
    "DocumentConsistency",
    "GlobalTerm",
    "NLStruct",
    "PaddedMLP",
    "RegionMLP",
    "Sharpness",
    "TermSum",
    "make_term",
    "match_mentions",
    "mention_numbers",
]

TERMS: dict[str, type[GlobalTerm]] = {
    "padded_mlp": PaddedMLP,
    "convolution": Convolution,
    "document": DocumentConsistency,
    "sharpness": Sharpness,
    "region_mlp": RegionMLP,
    "nlstruct": NLStruct,
}


def make_term(name: str, num_labels: int, **options: Any) -> GlobalTerm:
    """A term by the name that recipes and model files call it.

    Example:
        >>> make_term("padded_mlp", num_labels=3, max_length=10, hidden=8).max_length
        10
    """
    if name not in TERMS:
        raise ValueError(f"there is no term {name!r}, only {', '.join(TERMS)}")
    return TERMS[name](num_labels, **options)
