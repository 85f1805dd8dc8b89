"""A run of a recipe: read the corpus, train the base model and the global term, evaluate, keep the best.

run folder      recipe.yaml  metrics.jsonl  results.json  log.txt  model/  (the best model)
                entities-dev.json  entities-test.json
                    gold, base and, if there is a global term, full: for each sentence [start, end, type]
                base/  term/  a folder for each stage: best/, done.json and, during training, checkpoints/
"""

from __future__ import annotations

import functools
import json
import logging
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.logging import RichHandler

from gspen_ner.files import mend_folder, write_folder, write_whole
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.labels import Labels, Scheme
from gspen_ner.ner.calibration import calibrate
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import TERM_SYSTEMS, Evaluation, Spans, evaluate_predictions
from gspen_ner.ner.predictions import Prediction, SentenceTagger
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import AnyRecipe, Experiment, Section, expand
from gspen_ner.terms import TERMS

logger = logging.getLogger(__name__)
Content = TypeVar("Content")


def open_folder(recipe: Section, folder: Path, resume: bool) -> None:
    """Create a run's folder and write its recipe, or check that the folder is a run of this recipe.

    Raises:
        ValueError: if the folder holds a run that is not to be resumed, or a run of another recipe.
    """
    file = folder / "recipe.yaml"
    if file.exists():
        if not resume:
            raise ValueError(
                f"{folder} holds a run already: continue it with --resume, or give another --output"
            )
        if file.read_text(encoding="utf-8") != recipe.as_yaml():
            raise ValueError(f"{folder} is a run of another recipe (see {file}): resume it with that one")
        return
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no run: give another --output")
    if resume:
        raise ValueError(f"{folder} holds no run to resume")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, recipe.as_yaml())


class _RunLog(logging.FileHandler):
    """A log file that ignores write errors; a run on a full disk reports the files that matter."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


def write_log(file: Path, console: Console, package: str = "gspen_ner") -> None:
    """Send log records of a package to the console and, with times, to the run's log file."""
    log = logging.getLogger(package)
    log.setLevel(logging.INFO)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log_file = _RunLog(file, encoding="utf-8")
    log_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(log_file)
    log.addHandler(RichHandler(console=console, show_path=False, show_level=False, markup=False))


@dataclass(frozen=True)
class Corpus:
    """The sentences of an experiment, and the entity types of its training data."""

    train: list[TaggedSentence]
    dev: list[TaggedSentence]
    test: list[TaggedSentence] | None
    types: tuple[str, ...]

    @classmethod
    def read(cls, recipe: Experiment) -> Corpus:
        """Return the corpus of a recipe; a malformed split is refused before anything is trained."""
        options = recipe.data.model_dump(include={"token_column", "tag_column", "scheme", "strict"})
        names = {"train": recipe.data.train, "dev": recipe.data.dev, "test": recipe.data.test}
        files = {split: read_source(expand(name), **options) for split, name in names.items() if name}
        for split, file in files.items():
            if not file.sentences:
                raise ValueError(f"data.{split}: {file.path} has no sentences")
            if file.repaired:
                logger.warning("%s: repaired the tags of %d sentences", file.path, file.repaired)
        train = _part(files["train"].sentences, recipe.data.fraction, recipe.seed)
        types = sorted({tag[2:] for sentence in train for tag in sentence.tags if tag != "O"})
        if not types:
            raise ValueError(f"data.train: {files['train'].path} has no entities to learn from")
        test = files["test"].sentences if "test" in files else None
        return cls(train, files["dev"].sentences, test, tuple(types))

    def labels(self, scheme: Scheme) -> Labels:
        """Return the labels of a tagger that is trained on this corpus."""
        return Labels.of_types(self.types, scheme)

    def term_entries(self, recipe: Experiment) -> list[dict[str, Any]]:
        """Return the entries of the recipe's terms, fitted to the training data."""
        longest = max(len(sentence.tokens) for sentence in self.train)
        entries = [term.model_dump(mode="json") for term in recipe.terms]
        return [TERMS.classes[entry["name"]].fitted_options(entry, longest) for entry in entries]


def _part(sentences: list[TaggedSentence], fraction: float, seed: int) -> list[TaggedSentence]:
    """Return the sentences of a random share of the documents, in their order."""
    documents = sorted({sentence.document for sentence in sentences})
    kept = set(random.Random(seed).sample(documents, max(1, round(fraction * len(documents)))))
    return [sentence for sentence in sentences if sentence.document in kept]


@dataclass(frozen=True)
class Results:
    """Evaluations of a run's best model, and the seconds per epoch of each stage.

    Confidences are calibrated on dev, so that their error on dev (ECE) is smaller than on new data.
    """

    seed: int
    system: str
    seconds_an_epoch: dict[str, float]
    dev: Evaluation
    test: Evaluation | None = None


def read_results(file: Path) -> Results:
    """Return the results that a run has written as results.json.

    Raises:
        ValueError: if the file is missing or holds something else.
    """
    return _read(file, Results, "the results of one run")


@dataclass(frozen=True)
class SplitEntities:
    """Gold and predicted entities of every sentence of a split: comparing runs needs no model.

    Args:
        gold: gold entities.
        base: entities that the base model predicts.
        full: entities that the model predicts with its global term; None if it has none.
    """

    gold: Spans
    base: Spans
    full: Spans | None

    @classmethod
    def of(
        cls, sentences: Sequence[TaggedSentence], predictions: Sequence[Prediction], has_term: bool
    ) -> SplitEntities:
        """Return the entities of sentences with gold tags and of their predictions."""
        base, full = [p.base_spans for p in predictions], [p.spans for p in predictions]
        return cls([sentence.spans for sentence in sentences], base, full if has_term else None)

    def save(self, folder: Path, split: str) -> None:
        """Write entities-SPLIT.json."""
        write_whole(folder / f"entities-{split}.json", json.dumps(vars(self)) + "\n")

    @classmethod
    def load(cls, folder: Path, split: str) -> SplitEntities:
        """Return the entities of entities-SPLIT.json.

        Raises:
            ValueError: if the file is missing or holds something else.
        """
        file = folder / f"entities-{split}.json"
        entities = _read(file, cls, "a file of entities")
        if len({len(rows) for rows in (entities.gold, entities.base, entities.full or entities.gold)}) > 1:
            raise ValueError(f"{file}: gold and predicted entities must be of the same sentences")
        return entities


def _read(file: Path, content: type[Content], expected: str) -> Content:
    """Return the content of a JSON file that a finished run has written."""
    try:
        return TypeAdapter(content).validate_json(file.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{file}: no such file; is {file.parent} a finished run of this version?") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ValueError(f"{file}: not {expected}: {error.errors()[0]['msg']}") from None


class Run(ABC):
    """One training of a recipe in a folder.

    Args:
        recipe: settings and data.
        folder: folder of the run; created if needed.
    """

    def __init__(self, recipe: AnyRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.corpus = Corpus.read(recipe)

    @abstractmethod
    def train_base(self) -> Path:
        """Train the base model, and return the folder of the best one."""

    @abstractmethod
    def train_term(self, base: Path) -> Path:
        """Train the term on top of a base model, and return the folder of the best one."""

    @property
    def has_term(self) -> bool:
        """Whether a term is trained on top of the base model."""
        return self.recipe.system in TERM_SYSTEMS

    def base_f1(self) -> float:
        """Return the trained base model's F1 on dev."""
        lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        return max(entry["eval_f1"] for entry in entries if entry["stage"] == "base" and "eval_f1" in entry)

    def finish(self, best: Path) -> Results:
        """Copy the best model to its folder, evaluate it, and remove files that only training needs."""
        shutil.rmtree(self.folder / "potentials", ignore_errors=True)
        model = self.folder / "model"
        mend_folder(model)
        write_folder(model, functools.partial(self._write_model, best))
        logger.info("evaluating the best model")
        tagger = load_tagger(model)
        dev = self._evaluate(tagger, "dev", self.corpus.dev)
        test = None if self.corpus.test is None else self._evaluate(tagger, "test", self.corpus.test)
        seconds = {
            stage.parent.name: json.loads(stage.read_text(encoding="utf-8"))["seconds_an_epoch"]
            for stage in sorted(self.folder.glob("*/done.json"))
        }
        results = Results(self.recipe.seed, self.recipe.system, seconds, dev, test)
        write_whole(self.folder / "results.json", json.dumps(asdict(results), indent=2) + "\n")
        return results

    def _write_model(self, best: Path, folder: Path) -> None:
        """Write the best model of a stage, calibrated on dev, to the folder in which it will be used."""
        self.copy_model(best, folder)
        if not self.calibrates:
            return
        tagger = load_tagger(folder)
        systems = ("without the global term", "with it") if self.has_term else ("base model",)
        for name, errors in zip(systems, calibrate(tagger, self.corpus.dev), strict=True):
            logger.info(
                "%s: confidences on dev are off by %.2f %%, calibrated on its other half by %.2f %% (ECE)",
                name,
                100 * errors.uncalibrated,
                100 * errors.held_out,
            )
        tagger.save(folder)

    @property
    def calibrates(self) -> bool:
        """Whether the model can keep confidences."""
        return True

    def copy_model(self, best: Path, folder: Path) -> None:
        """Copy the best model of a stage to the folder in which it will be used."""
        shutil.copytree(best, folder, dirs_exist_ok=True)

    def _evaluate(self, tagger: SentenceTagger, split: str, sentences: list[TaggedSentence]) -> Evaluation:
        """Score the best model on a split, and write its predicted entities."""
        predictions = tagger.tag_sentences(sentences)
        SplitEntities.of(sentences, predictions, self.has_term).save(self.folder, split)
        return evaluate_predictions(sentences, predictions, self.has_term)
