"""One stage of training by Flair's `ModelTrainer`."""

from __future__ import annotations

import logging
import statistics
from pathlib import Path

import flair
import torch
from flair.data import Corpus
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.trainers.plugins import TrainerPlugin

from gspen_ner.hosts.flair.documents import DocumentBatches
from gspen_ner.hosts.flair.plugins import AnnealOnTrainLoss, EpochLog, FreshEmbeddings
from gspen_ner.hosts.flair.tagger import GSPENTagger
from gspen_ner.recipe import FlairTraining

BEST_FILE = "best-model.pt"  # as Flair calls it


def quiet_console() -> None:
    """Let Flair write its log into files only; what matters is said by `EpochLog`."""
    for handler in logging.getLogger("flair").handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.WARNING)


def train_stage(
    tagger: SequenceTagger, corpus: Corpus, training: FlairTraining, folder: Path, seed: int
) -> float:
    """Train a tagger; its best state on dev is BEST_FILE in the folder.

    Returns:
        The median of the seconds that an epoch took, without evaluation.
    """
    flair.set_seed(seed)
    log = EpochLog(folder.parent / "metrics.jsonl", folder.name)
    plugins: list[TrainerPlugin] = [log, FreshEmbeddings()]
    watch_loss = training.anneal_on == "train_loss"
    if watch_loss:
        plugins.append(
            AnnealOnTrainLoss(training.anneal_factor, training.patience, training.min_learning_rate)
        )
    if isinstance(tagger, GSPENTagger) and tagger.couples_documents:
        plugins.append(DocumentBatches(seed))
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[training.optimizer]
    ModelTrainer(tagger, corpus).train(
        folder,
        learning_rate=training.learning_rate,
        mini_batch_size=training.batch_size,
        max_epochs=training.epochs,
        optimizer=optimizer,
        anneal_factor=training.anneal_factor,
        patience=10**6 if watch_loss else training.patience,
        min_learning_rate=0.0 if watch_loss else training.min_learning_rate,
        plugins=plugins,
        save_final_model=False,
        embeddings_storage_mode="cpu",
    )
    if log.killed:
        raise KeyboardInterrupt
    if not (folder / BEST_FILE).exists():  # Flair saves no model whose dev F1 is 0
        tagger.save(folder / BEST_FILE)
    return statistics.median(log.seconds)
