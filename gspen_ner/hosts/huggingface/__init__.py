"""Hugging Face: the model, its data, its trainer, and the tagger that uses it.

Importing this registers the model with transformers: `AutoModelForTokenClassification` and the pipeline then
load it by its path, without `trust_remote_code`.
"""

from transformers import AutoConfig, AutoModelForTokenClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES

from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.context import add_context
from gspen_ner.hosts.huggingface.data import Collator, as_dataset
from gspen_ner.hosts.huggingface.document_trainer import DocumentTrainer, parameter_groups
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer
from gspen_ner.hosts.huggingface.two_stages import train_term

AutoConfig.register(GSPENConfig.model_type, GSPENConfig, exist_ok=True)
AutoModelForTokenClassification.register(GSPENConfig, GSPENForTokenClassification, exist_ok=True)
# The pipeline knows supported models by these names alone, and would complain of ours.
MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES.setdefault(
    GSPENConfig.model_type, GSPENForTokenClassification.__name__
)

__all__ = [
    "Collator",
    "DocumentTrainer",
    "GSPENConfig",
    "GSPENForTokenClassification",
    "StageData",
    "StageTrainer",
    "Tagger",
    "add_context",
    "as_dataset",
    "parameter_groups",
    "train_term",
]
