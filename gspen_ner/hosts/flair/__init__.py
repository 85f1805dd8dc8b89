"""Flair: a tagger with a global term, its training, and faster plain taggers."""

from gspen_ner.hosts.flair.accelerate import Acceleration, accelerate
from gspen_ner.hosts.flair.plugins import DocumentBatches
from gspen_ner.hosts.flair.tagger import GSPENTagger
from gspen_ner.hosts.flair.two_stages import train_term

__all__ = ["Acceleration", "DocumentBatches", "GSPENTagger", "accelerate", "train_term"]
