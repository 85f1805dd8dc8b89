"""Global terms T(f, p): differentiable scores of whole label sequences, or of whole documents."""

from gspen_ner.terms.convolution import Convolution
from gspen_ner.terms.document import DocumentConsistency, match_mentions
from gspen_ner.terms.padded_mlp import PaddedMLP
from gspen_ner.terms.term import Context, GlobalTerm, TermSum

__all__ = [
    "Context",
    "Convolution",
    "DocumentConsistency",
    "GlobalTerm",
    "PaddedMLP",
    "TermSum",
    "match_mentions",
]
