"""A training epoch and prediction of stock Flair, accelerated Flair and GSPENTagger.

All three have the same embeddings and initial weights, and are trained by Flair's own trainer.
"""

from __future__ import annotations

import copy
import logging
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import flair
from flair.data import Corpus as FlairCorpus
from flair.data import Sentence
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.training_utils import store_embeddings

from gspen_ner.hosts.flair import GSPENTagger, accelerate
from gspen_ner.hosts.flair.embeddings import make_embeddings
from gspen_ner.hosts.flair.plugins import EpochLog
from gspen_ner.hosts.flair.sentences import TAG_TYPE, as_corpus, as_flair, spans_of, type_dictionary
from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import calibration
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe.flair import CharacterEntry, EmbeddingEntry, WordEntry
from recipes.bench.timing import Row, Targets, clock, take_rounds

STOCK = f"stock Flair {flair.__version__}"
TRAIN, PREDICT = "training epoch", "prediction"
BATCH_SIZE = 32


def targets(case: str) -> Targets:
    """Return the wanted ratios; an epoch of GSPEN may take 1.5 times the CRF's."""
    wanted = {("accelerated", TRAIN): 1.3, ("accelerated", PREDICT): 1.5}
    wanted |= {("GSPENTagger", TRAIN): 0.67, ("GSPENTagger", PREDICT): 1.0}
    return {(case, f"{name}, {what}", STOCK): ratio for (name, what), ratio in wanted.items()}


def run_flair(sentences: int, rounds: int) -> tuple[str, list[Row], str]:
    """Time all taggers in alternating rounds, with half as many sentences for prediction.

    Returns:
        A name for the data, the rows, and a sentence about the confidences of entities.
    """
    logging.getLogger("flair").setLevel(logging.WARNING)
    size, unseen_size = sentences, sentences // 2
    embeddings: list[EmbeddingEntry] = [CharacterEntry(name="characters")]
    if (folder := os.environ.get("GSPEN_DATA")) is None:
        data, source = "newswire", f"newswire:{max(1, (size + unseen_size) // 9)}:1"
    else:
        data, source = "CoNLL-2003", f"{folder}/conll2003/train.txt"
        embeddings.insert(0, WordEntry(name="words", file=f"{folder}/glove/glove.100d.txt.gz"))
    tagged = read_source(source).sentences
    train = tagged[:size]
    unseen = tagged[size : size + unseen_size] or train
    case = f"{data}, {len(train)} sentences"

    corpus, dev = as_corpus(train, train[:8], None), as_flair(train[:unseen_size])
    taggers = _taggers(train, embeddings)
    runs: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory() as output:
        for name, tagger in taggers.items():
            runs[f"{name}, {TRAIN}"] = partial(_epoch, tagger, corpus, Path(output, name))
            runs[f"{name}, {PREDICT}"] = partial(_prediction, tagger, dev)
        medians = take_rounds(runs, rounds)
    rows = [
        Row(case, what, medians[what], STOCK, medians[f"{STOCK}, {operation}"])
        for operation in (TRAIN, PREDICT)
        for what in (f"{name}, {operation}" for name in taggers if name != STOCK)
    ]
    stock = _calibration_error(taggers[STOCK], unseen)
    accelerate(taggers[STOCK], confidences="marginal")
    marginal = _calibration_error(taggers[STOCK], unseen)
    confidences = (
        f"expected calibration error of the confidences of entities: {stock:.1f} %, "
        f'with confidences="marginal" {marginal:.1f} %'
    )
    return case, rows, confidences


def _taggers(train: list[TaggedSentence], embeddings: list[EmbeddingEntry]) -> dict[str, SequenceTagger]:
    """Return three taggers with the same initial weights."""
    flair.set_seed(1)
    types = sorted({tag[2:] for sentence in train for tag in sentence.tags if tag != "O"})
    stock = SequenceTagger(make_embeddings(embeddings, train), type_dictionary(types), TAG_TYPE)
    fast, base = copy.deepcopy(stock), copy.deepcopy(stock)
    accelerate(fast)
    return {STOCK: stock, "accelerated": fast, "GSPENTagger": GSPENTagger.from_sequence_tagger(base)}


def _epoch(tagger: SequenceTagger, corpus: FlairCorpus, folder: Path) -> float:
    """Return the seconds of one epoch of `ModelTrainer`, without evaluation."""
    log = EpochLog(folder.parent / f"{folder.name}.jsonl", "bench")
    ModelTrainer(tagger, corpus).train(
        folder,
        max_epochs=1,
        mini_batch_size=BATCH_SIZE,
        plugins=[log],
        save_final_model=False,
        use_final_model_for_eval=True,
        embeddings_storage_mode="none",
        create_file_logs=False,
    )
    return log.seconds[-1]


def _predict(tagger: SequenceTagger, sentences: list[Sentence]) -> None:
    tagger.predict(sentences, mini_batch_size=BATCH_SIZE, label_name="predicted")


def _prediction(tagger: SequenceTagger, sentences: list[Sentence]) -> float:
    """Return the seconds that tagging takes."""
    store_embeddings(sentences, "none")
    tagger.eval()
    return clock(lambda: _predict(tagger, sentences))()


def _calibration_error(tagger: SequenceTagger, sentences: list[TaggedSentence]) -> float:
    """Return the expected calibration error of a tagger's confidences, in per cent."""
    gold = [spans_of_tags(sentence.tags, "BIO") for sentence in sentences]
    tagged = as_flair(sentences)
    _predict(tagger, tagged)
    return 100 * calibration(gold, [spans_of(sentence, "predicted") for sentence in tagged]).ece
