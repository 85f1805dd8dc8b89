"""Hugging Face: the model, its data, its trainer, and the tagger that uses it."""

from gspen_ner.hosts.huggingface.data import Collator, as_dataset
from gspen_ner.hosts.huggingface.model import GSPENConfig, GSPENForTokenClassification
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer

__all__ = [
    "Collator",
    "GSPENConfig",
    "GSPENForTokenClassification",
    "StageData",
    "StageTrainer",
    "Tagger",
    "as_dataset",
]
