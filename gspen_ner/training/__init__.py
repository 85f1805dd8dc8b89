"""Training in two stages: a base model, then a global term over scores that it can learn from.

    base model -> score source (plain, dropout draws, cross-fitting) -> scores -> term

`System` is what is trained, a score source says from which scores the term learns, and a host says how a
library trains and scores: `train_term` of this room for tensors in memory, of `gspen_ner.hosts.flair` for
Flair's taggers, of `gspen_ner.hosts.huggingface` for transformers.
"""

from gspen_ner.training.score_sources import SCORE_SOURCES, CrossFit, DropoutDraws, Plain, ScoreSource
from gspen_ner.training.system import Inference, Scored, System, SystemLoss
from gspen_ner.training.tensors import Examples, TensorTraining, Trained, fit, predictions, train_term

__all__ = [
    "SCORE_SOURCES",
    "CrossFit",
    "DropoutDraws",
    "Examples",
    "Inference",
    "Plain",
    "ScoreSource",
    "Scored",
    "System",
    "SystemLoss",
    "TensorTraining",
    "Trained",
    "fit",
    "predictions",
    "train_term",
]
