"""What a recipe does: train the base model, train the global term on top of it, evaluate, keep the best.

run folder      recipe.yaml  metrics.jsonl  results.json  log.txt  model/  (the best model)
                entities-dev.json  entities-test.json  (what it finds)
                base/  term/  one folder a stage: best/, checkpoints/ while it runs, done.json after
"""

from __future__ import annotations

import functools
import json
import logging
import shutil
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gspen_ner.files import mend_folder, write_folder, write_whole
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import TERM_SYSTEMS, Evaluation, evaluate_predictions
from gspen_ner.ner.predictions import SentenceTagger
from gspen_ner.recipe import AnyRecipe
from gspen_ner.runs.corpus import Corpus
from gspen_ner.runs.entities_file import FoundEntities

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Results:
    """What came out of a run: evaluations and training times."""

    seed: int
    system: str
    seconds_an_epoch: dict[str, float]
    dev: Evaluation
    test: Evaluation | None = None


_RESULTS = TypeAdapter(Results)


def read_results(file: Path) -> Results:
    """What a run has written as results.json.

    Raises:
        ValueError: it is not there, or not such a file.
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
        recipe: what to do.
        folder: where; made if needed.
    """

    def __init__(self, recipe: AnyRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.corpus = Corpus.read(recipe)

    @abstractmethod
    def train_base(self) -> Path:
        """The folder of the trained base model."""

    @abstractmethod
    def train_term(self, base: Path) -> Path:
        """The folder of the model with its trained term."""

    @property
    def has_term(self) -> bool:
        """Whether a term is trained on top of the base model."""
        return self.recipe.system in TERM_SYSTEMS

    def base_f1(self) -> float:
        """The trained base model's F1 on dev."""
        lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        return max(entry["eval_f1"] for entry in entries if entry["stage"] == "base" and "eval_f1" in entry)

    def finish(self, best: Path) -> Results:
        """Put the best model in its place, evaluate it, and remove what only training needed."""
        shutil.rmtree(self.folder / "potentials", ignore_errors=True)
        model = self.folder / "model"
        mend_folder(model)
        write_folder(model, functools.partial(self.place, best))
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

    def place(self, best: Path, folder: Path) -> None:
        """Put the best model of a stage into a folder, as it will be used."""
        shutil.copytree(best, folder, dirs_exist_ok=True)

    def _evaluate(self, tagger: SentenceTagger, split: str, sentences: list[TaggedSentence]) -> Evaluation:
        """Score the best model on a split, and keep what it found."""
        predictions = tagger.tag([s.tokens for s in sentences], [s.document for s in sentences])
        FoundEntities.of(sentences, predictions, self.has_term).save(self.folder, split)
        return evaluate_predictions(sentences, predictions, self.has_term)
