"""What a recipe does: train the base model, train the global term on top of it, evaluate, keep the best.

run folder      recipe.yaml  metrics.jsonl  results.json  log.txt  model/  (the best model)
                base/  term/  one folder a stage: best/, checkpoints/ while it runs, done.json after
"""

from __future__ import annotations

import json
import logging
import shutil
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path

from gspen_ner.experiments.corpus import Corpus
from gspen_ner.files import mend_folder, write_folder, write_whole
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.recipe import TaggerRecipe
from gspen_ner.tasks.ner_metrics import Evaluation, evaluate

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Results:
    """What came out of a run: evaluations and training times."""

    seed: int
    system: str
    seconds_an_epoch: dict[str, float]
    dev: Evaluation
    test: Evaluation | None = None


class Run(ABC):
    """One training of a recipe in a folder.

    Args:
        recipe: what to do.
        folder: where; made if needed.
    """

    def __init__(self, recipe: TaggerRecipe, folder: Path) -> None:
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
        return self.recipe.system in ("spen", "gspen")

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
        write_folder(model, lambda new: shutil.copytree(best, new, dirs_exist_ok=True))
        logger.info("evaluating the best model")
        tagger = load_tagger(model)
        dev = evaluate(tagger, self.corpus.dev)
        test = None if self.corpus.test is None else evaluate(tagger, self.corpus.test)
        seconds = {
            stage.parent.name: json.loads(stage.read_text(encoding="utf-8"))["seconds_an_epoch"]
            for stage in sorted(self.folder.glob("*/done.json"))
        }
        results = Results(self.recipe.seed, self.recipe.system, seconds, dev, test)
        write_whole(self.folder / "results.json", json.dumps(asdict(results), indent=2) + "\n")
        return results
