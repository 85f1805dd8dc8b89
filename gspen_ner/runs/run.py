"""A run of a recipe: read the corpus, train the base model and the global term, evaluate, keep the best.

run folder      recipe.yaml  metrics.jsonl  results.json  log.txt  model/  (the best model)
                entities-dev.json  entities-test.json  (its predicted entities)
                base/  term/  one folder a stage: best/, checkpoints/ while it runs, done.json after
"""

from __future__ import annotations

import functools
import json
import logging
import random
import shutil
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gspen_ner.files import mend_folder, write_folder, write_whole
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.labels import Labels, Scheme
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import TERM_SYSTEMS, Evaluation, evaluate_predictions
from gspen_ner.ner.predictions import SentenceTagger
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import AnyRecipe, Experiment, expand
from gspen_ner.runs.entities_file import SplitEntities
from gspen_ner.terms import TERMS

logger = logging.getLogger(__name__)


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
    """Evaluations of a run's best model, and the seconds of an epoch of each stage."""

    seed: int
    system: str
    seconds_an_epoch: dict[str, float]
    dev: Evaluation
    test: Evaluation | None = None


_RESULTS = TypeAdapter(Results)


def read_results(file: Path) -> Results:
    """Return the results that a run has written as results.json.

    Raises:
        ValueError: if the file is missing or holds something else.
    """
    try:
        return _RESULTS.validate_json(file.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{file}: no such file; is {file.parent} a finished run?") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ValueError(f"{file}: not the results of one run: {error.errors()[0]['msg']}") from None


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
        write_folder(model, functools.partial(self.copy_model, best))
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

    def copy_model(self, best: Path, folder: Path) -> None:
        """Copy the best model of a stage to the folder in which it will be used."""
        shutil.copytree(best, folder, dirs_exist_ok=True)

    def _evaluate(self, tagger: SentenceTagger, split: str, sentences: list[TaggedSentence]) -> Evaluation:
        """Score the best model on a split, and write its predicted entities."""
        predictions = tagger.tag([s.tokens for s in sentences], [s.document for s in sentences])
        SplitEntities.of(sentences, predictions, self.has_term).save(self.folder, split)
        return evaluate_predictions(sentences, predictions, self.has_term)
