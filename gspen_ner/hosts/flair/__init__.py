"""Flair: a tagger with a global term, its training, and faster plain taggers."""

from typing import Any

from gspen_ner.hosts.flair.accelerate import Acceleration, accelerate
from gspen_ner.hosts.flair.documents import DocumentBatches
from gspen_ner.hosts.flair.tagger import GSPENTagger

__all__ = ["Acceleration", "DocumentBatches", "GSPENTagger", "accelerate", "train_term"]


def __getattr__(name: str) -> Any:
    """Import `train_term` when it is used: it needs more of this package than taggers do."""
    if name == "train_term":
        from gspen_ner.hosts.flair.two_stages import train_term

        return train_term
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
