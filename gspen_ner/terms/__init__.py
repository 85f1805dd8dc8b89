"""Global terms T(f, p): differentiable scores of whole label sequences, or of whole documents.

Every module in this folder is imported automatically, so a term that registers itself in `TERMS` is available
by its name in recipes.
"""

import importlib
import pkgutil

from gspen_ner.terms.convolution import Convolution
from gspen_ner.terms.document import DocumentConsistency
from gspen_ner.terms.mentions import RELATIONS, match_mentions, mention_numbers
from gspen_ner.terms.nlstruct import NLStruct
from gspen_ner.terms.padded_mlp import PaddedMLP
from gspen_ner.terms.region_mlp import RegionMLP
from gspen_ner.terms.sharpness import Sharpness
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, TermSum

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "RELATIONS",
    "TERMS",
    "Context",
    "Convolution",
    "DocumentConsistency",
    "GlobalTerm",
    "NLStruct",
    "PaddedMLP",
    "RegionMLP",
    "Sharpness",
    "TermSum",
    "match_mentions",
    "mention_numbers",
]
