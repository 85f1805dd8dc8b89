"""Stock Flair, accelerated Flair and GSPENTagger: a training epoch and prediction, same embeddings.

All three begin with the same weights; each is trained by Flair's own trainer, in turns.
"""

from __future__ import annotations

import copy
import logging
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import flair
from flair.data import Corpus as FlairCorpus
from flair.data import Sentence
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.training_utils import store_embeddings
from gspen_ner.hosts.flair.entities import spans_of, type_dictionary

from gspen_ner.hosts.flair import GSPENTagger, accelerate
from gspen_ner.hosts.flair.embeddings import make_embeddings
from gspen_ner.hosts.flair.plugins import EpochLog
from gspen_ner.hosts.flair.sentences import TAG_TYPE, as_corpus, as_flair
from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import calibration
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe.flair import CharacterEntry, EmbeddingEntry, WordEntry
from recipes.bench.timing import Row

STOCK = f"stock Flair {flair.__version__}"
TRAIN, PREDICT = "training epoch", "prediction"
BATCH_SIZE = 32


def bars(case: str) -> dict[tuple[str, str, str], float]:
    """The ratios wanted; GSPEN's epoch may take 1.5 times the CRF's."""
    wanted = {("accelerated", TRAIN): 1.3, ("accelerated", PREDICT): 1.5}
    wanted |= {("GSPENTagger", TRAIN): 0.67, ("GSPENTagger", PREDICT): 1.0}
    return {(case, f"{name}, {what}", STOCK): ratio for (name, what), ratio in wanted.items()}


def read_slice(
    sentences: int,
) -> tuple[str, list[TaggedSentence], list[TaggedSentence], list[EmbeddingEntry]]:
    """Of CoNLL-2003 with GloVe where GSPEN_DATA names them, else generated; half as many more; embeddings."""
    entries: list[EmbeddingEntry] = [CharacterEntry(name="characters")]
    whole = sentences + sentences // 2
    folder = os.environ.get("GSPEN_DATA")
    if folder is None:
        name, source = "newswire", f"newswire:{max(1, whole // 9)}:1"
    else:
        name, source = "CoNLL-2003", f"{folder}/conll2003/train.txt"
        entries.insert(0, WordEntry(name="words", file=f"{folder}/glove/glove.100d.txt.gz"))
    found = read_source(source).sentences[:whole]
    train, unseen = found[:sentences], found[sentences:]
    return f"{name}, {len(train)} sentences", train, unseen or train, entries


@dataclass(frozen=True)
class Confidences:
    """How far the confidences of entities are off (ECE, in per cent) in sentences not trained on."""

    stock: float
    marginal: float


def run_flair(sentences: int, rounds: int) -> tuple[str, list[Row], Confidences]:
    """Measure all, in turns, after a first round that does not count."""
    logging.getLogger("flair").setLevel(logging.WARNING)
    case, found, unseen, entries = read_slice(sentences)
    corpus = as_corpus(found, found[:8], None)
    dev = as_flair(found[: sentences // 2])
    taggers = _taggers(found, entries)
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(rounds + 1):
            for name, tagger in taggers.items():
                measured = {
                    TRAIN: _epoch(tagger, corpus, Path(place) / f"{name}-{turn}"),
                    PREDICT: _prediction(tagger, dev),
                }
                for what, seconds in measured.items():
                    times.setdefault((name, what), []).append(seconds)
    medians = {key: 1e3 * statistics.median(values[1:]) for key, values in times.items()}
    rows = [
        Row(case, f"{name}, {what}", milliseconds, STOCK, medians[STOCK, what])
        for (name, what), milliseconds in medians.items()
        if name != STOCK
    ]
    stock = _calibration_error(taggers[STOCK], unseen)
    accelerate(taggers[STOCK], confidences="marginal")
    confidences = Confidences(stock, _calibration_error(taggers[STOCK], unseen))
    return case, sorted(rows, key=lambda row: row.what), confidences


def _taggers(sentences: list[TaggedSentence], entries: list[EmbeddingEntry]) -> dict[str, SequenceTagger]:
    """Three taggers with the same initial weights."""
    flair.set_seed(1)
    types = sorted({tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"})
    stock = SequenceTagger(make_embeddings(entries, sentences), type_dictionary(types), TAG_TYPE)
    fast, base = copy.deepcopy(stock), copy.deepcopy(stock)
    accelerate(fast)
    return {STOCK: stock, "accelerated": fast, "GSPENTagger": GSPENTagger.from_sequence_tagger(base)}


def _epoch(tagger: SequenceTagger, corpus: FlairCorpus, folder: Path) -> float:
    """Seconds of one epoch of `ModelTrainer`, without evaluation."""
    log = EpochLog(folder.parent / f"{folder.name}.jsonl", "bench")
    ModelTrainer(tagger, corpus).train(
        folder, max_epochs=1, mini_batch_size=BATCH_SIZE, plugins=[log], save_final_model=False,
        use_final_model_for_eval=True, embeddings_storage_mode="none", create_file_logs=False,
    )  # fmt: skip
    return log.seconds[-1]


def _prediction(tagger: SequenceTagger, sentences: list[Sentence]) -> float:
    """Seconds to tag sentences."""
    store_embeddings(sentences, "none")
    tagger.eval()
    start = time.perf_counter()
    tagger.predict(sentences, mini_batch_size=BATCH_SIZE, label_name="predicted")
    return time.perf_counter() - start


def _calibration_error(tagger: SequenceTagger, sentences: list[TaggedSentence]) -> float:
    """The ECE of a tagger's own confidences, in per cent."""
    gold = [spans_of_tags(sentence.tags, "BIO") for sentence in sentences]
    tagged = as_flair(sentences)
    tagger.predict(tagged, mini_batch_size=BATCH_SIZE, label_name="predicted")
    found = [spans_of(sentence, "predicted") for sentence in tagged]
    return 100 * calibration(gold, found).ece
