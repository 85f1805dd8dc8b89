"""Two-stage training by Flair's `ModelTrainer`: base taggers, their scores, and the term on top.

    stage folder    best/model.pt (the best tagger), done.json when it is complete

Flair's trainer cannot continue a training that was interrupted: such a stage must be trained from the start.
"""

from __future__ import annotations

import json
import logging
import shutil
import statistics
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import flair
import torch
from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.trainers.plugins import TrainerPlugin
from flair.training_utils import store_embeddings

from gspen_ner.files import write_file, write_folder, write_whole
from gspen_ner.hosts.flair.accelerate import accelerate
from gspen_ner.hosts.flair.chain import ChainView
from gspen_ner.hosts.flair.copies import untrained_copy
from gspen_ner.hosts.flair.plugins import AnnealOnTrainLoss, DocumentBatches, EpochLog, FreshEmbeddings
from gspen_ner.hosts.flair.scores import SentenceScores, split
from gspen_ner.hosts.flair.sentences import document_numbers
from gspen_ner.hosts.flair.tagger import GSPENTagger, Term
from gspen_ner.hosts.loading import FLAIR_FILE
from gspen_ner.terms import DocumentConsistency
from gspen_ner.training.documents import prediction_batches
from gspen_ner.training.score_sources import DEFAULT_SCORES, ScoreSource
from gspen_ner.training.stages import TERM_INFERENCE, scoring

if TYPE_CHECKING:  # `train_term` imports it when it is called
    from gspen_ner.recipe import FlairTraining

SCORING_BATCH = 64
BEST_FILE = "best-model.pt"  # Flair's name for it


def quiet_console() -> None:
    """Let Flair write its log to files only; `EpochLog` logs each epoch."""
    for handler in logging.getLogger("flair").handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.WARNING)


def train_stage(
    tagger: SequenceTagger, corpus: Corpus, training: FlairTraining, folder: Path, seed: int
) -> float:
    """Train a tagger; its best state on dev is BEST_FILE in the folder.

    Returns:
        The median duration of an epoch in seconds, without evaluation.
    """
    flair.set_seed(seed)
    log = EpochLog(folder.parent / "metrics.jsonl", folder.name)
    plugins: list[TrainerPlugin] = [log, FreshEmbeddings()]
    watch_loss = training.anneal_on == "train_loss"
    if watch_loss:
        schedule = (training.anneal_factor, training.patience, training.min_learning_rate)
        plugins.append(AnnealOnTrainLoss(*schedule))
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


class FlairHost:
    """Trains and scores Flair taggers, for score sources.

    Args:
        folder: where stages are trained; a stage that is done is not trained again.
        corpus: training and development data.
        make_base: returns a new base tagger, with a CRF.
        base_training: how base taggers are trained.
        seed: seed of everything random.
    """

    def __init__(
        self,
        folder: Path,
        corpus: Corpus,
        make_base: Callable[[], SequenceTagger],
        base_training: FlairTraining,
        seed: int,
    ) -> None:
        self.folder, self.corpus, self.make_base = folder, corpus, make_base
        self.base_training, self.seed, self.fold_seed = base_training, seed, seed

    def stage(
        self,
        name: str,
        make: Callable[[], SequenceTagger],
        training: FlairTraining,
        corpus: Corpus | None = None,
    ) -> Path:
        """Train a tagger, or find it trained; return the folder of the best one.

        Args:
            name: name of the stage's folder.
            make: returns the untrained tagger.
            training: how it is trained.
            corpus: what it is trained on; by default the whole corpus.
        """
        folder = self.folder / name
        done, best = folder / "done.json", folder / "best"
        if not done.exists():
            if folder.exists():
                raise ValueError(
                    f"{folder}: this stage was interrupted, and Flair's trainer cannot continue it: remove "
                    "the folder and resume to train the stage again"
                )
            quiet_console()
            flair.set_seed(self.seed)
            seconds = train_stage(make(), corpus or self.corpus, training, folder, self.seed)
            write_folder(best, lambda new: shutil.move(folder / BEST_FILE, new / FLAIR_FILE))
            write_whole(done, json.dumps({"seconds_an_epoch": seconds}) + "\n")
        return best

    def learn_from(self, tagger: GSPENTagger, source: ScoreSource) -> GSPENTagger:
        """Return a tagger with a frozen base whose term will learn from the scores of a source."""
        for version in source.versions(self, tagger):
            tagger.kept_scores.add(version)
        return tagger

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The training sentences that have tokens."""
        train = cast(Any, self.corpus.train)
        return [sentence for sentence in (train[row] for row in range(len(train))) if len(sentence)]

    @property
    def documents(self) -> Sequence[int]:
        """Document of each training sentence."""
        return document_numbers(self.sentences)

    def fit(self, name: str, rows: Sequence[int], epochs: int | None) -> SequenceTagger:
        """Return a new base tagger, trained on some of the training sentences."""
        training = self.base_training.model_copy(update={"epochs": epochs or self.base_training.epochs})
        seen = FlairDatapointDataset([self.sentences[row] for row in rows])
        part = Corpus(train=seen, dev=self.corpus.dev, sample_missing_splits=False)
        self.stage(name, self.make_base, training, part)
        return self.load(self.folder, name)

    def load(self, folder: str | Path, name: str) -> SequenceTagger:
        """Return a base tagger that was trained in a run's folder."""
        tagger = SequenceTagger.load(Path(folder, name, "best", FLAIR_FILE))
        accelerate(tagger)
        return tagger

    def score(
        self, base: SequenceTagger, rows: Sequence[int] | None = None, draw: int | None = None
    ) -> list[SentenceScores]:
        """Return the scores of training sentences."""
        sentences = self.sentences if rows is None else [self.sentences[row] for row in rows]
        lengths, view, scores = [len(sentence) for sentence in sentences], ChainView(base), []
        with scoring(base, draw):
            if draw is not None:
                SequenceTagger.train(base, True)  # dropout of a frozen base model too
            for numbers in prediction_batches(None, lengths, SCORING_BATCH, longest_first=True):
                batch = [sentences[number] for number in numbers]
                scores += split(batch, *view.score(base, batch))
                store_embeddings(batch, "none")
        return scores

    def join(self, parts: Sequence[tuple[Sequence[int], list[SentenceScores]]]) -> list[SentenceScores]:
        """Return the scores of all parts."""
        return [scores for _, part in parts for scores in part]


def train_term(
    tagger: SequenceTagger,
    corpus: Corpus,
    folder: str | Path,
    *,
    term: Term = DocumentConsistency,
    scores: ScoreSource = DEFAULT_SCORES,
    make_base: Callable[[], SequenceTagger] | None = None,
    base_training: FlairTraining | None = None,
    training: FlairTraining | None = None,
    seed: int = 1,
    **options: Any,
) -> GSPENTagger:
    """Train a global term on top of a trained tagger, whose own weights stay as they are.

    A document term needs a corpus that knows its documents:
    `ColumnCorpus(..., document_separator_token="-DOCSTART-")`.

    Args:
        tagger: a trained `SequenceTagger` with a CRF.
        corpus: the corpus that it was trained on.
        folder: where stages are trained; a stage that is done is not trained again.
        term: the global term, or a function that makes it from the number of tags.
        scores: which scores the term learns from; by default `CrossFit(2)`.
        make_base: returns a new tagger like the trained one, for cross-fitting; by default an untrained copy.
        base_training: how these are trained; by default as Flair trains by default.
        training: how the term is trained; by default 8 epochs of Adam with a learning rate of 0.01.
        seed: seed of everything random.
        **options: options of `GSPENTagger`: solver, cost, inference, constraints.

    Returns:
        The tagger with its trained term, as it is best on the corpus's development data, by which its
        confidences are calibrated; also saved in `folder/term/best`.

    Example:
        >>> import tempfile
        >>> from flair.data import Dictionary
        >>> from flair.embeddings import OneHotEmbeddings
        >>> from gspen_ner.recipe import FlairTraining
        >>> from gspen_ner.training import Plain
        >>> words, types = Dictionary(), Dictionary(add_unk=False)
        >>> numbers, types.span_labels = [words.add_item("Ann"), types.add_item("PER")], True
        >>> tagger = SequenceTagger(OneHotEmbeddings(words, embedding_length=4), types, "ner", hidden_size=4)
        >>> sentence = Sentence("Ann left", use_tokenizer=False)
        >>> _ = sentence[0:1].add_label("ner", "PER")
        >>> data = FlairDatapointDataset([sentence])
        >>> corpus = Corpus(train=data, dev=data, sample_missing_splits=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     quick = FlairTraining(epochs=1)
        ...     better = train_term(tagger, corpus, folder, scores=Plain(), training=quick)
        >>> better.base_frozen, better.couples_documents
        (False, True)
    """
    from gspen_ner.recipe import FlairTraining

    options = {"inference": TERM_INFERENCE} | options

    def untrained() -> SequenceTagger:
        new = untrained_copy(tagger)
        accelerate(new)
        return new

    host = FlairHost(Path(folder), corpus, make_base or untrained, base_training or FlairTraining(), seed)
    upgraded = GSPENTagger.from_sequence_tagger(tagger, term, freeze="base", **options)
    how = training or FlairTraining(optimizer="adam", learning_rate=0.01, epochs=8)
    best = host.stage("term", lambda: host.learn_from(upgraded, scores), how)
    trained = cast(GSPENTagger, GSPENTagger.load(best / FLAIR_FILE))
    if trained.view.labels is not None:  # otherwise its tags are no spans
        dev = cast(Any, corpus.dev)
        trained.calibrate([dev[row] for row in range(len(dev))])
        write_file(best / FLAIR_FILE, trained.save)
    return trained
