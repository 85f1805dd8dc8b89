"""Flair: a tagger with a global term, and faster plain taggers."""

from gspen_ner.hosts.flair.accelerate import Acceleration, accelerate
from gspen_ner.hosts.flair.documents import DocumentBatches
from gspen_ner.hosts.flair.tagger import GSPENTagger

__all__ = ["Acceleration", "DocumentBatches", "GSPENTagger", "accelerate"]
