"""Runs with our own taggers, the BiLSTM-CNN and transformers, trained by `transformers.Trainer`.

A stage that was killed goes on from its last whole checkpoint and ends as an unbroken one would have.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from gspen_ner.files import write_whole
from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.data import as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.trainer import StageData
from gspen_ner.hosts.huggingface.two_stages import HuggingFaceHost
from gspen_ner.hosts.loading import find_model
from gspen_ner.recipe import Recipe, TransformerRecipe, expand
from gspen_ner.runs.models import check_base, check_encoder, check_models_of, new_base, with_term
from gspen_ner.runs.run import Results, Run
from gspen_ner.training.score_sources import SCORE_SOURCES


class HuggingFaceRun(Run):
    """A run whose stages `transformers.Trainer` trains."""

    recipe: Recipe | TransformerRecipe

    def __init__(self, recipe: Recipe | TransformerRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        if isinstance(recipe, TransformerRecipe) and recipe.base is None and not folder.exists():
            check_encoder(recipe)
        check_models_of(recipe)
        self.host = HuggingFaceHost(folder, self._read, self._new_base, recipe.base_training, recipe.seed)

    def train_base(self) -> Path:
        """Train the base model, and return its folder."""
        if self.recipe.base is not None:
            base = find_model(expand(self.recipe.base), ("", "base/best"))
            check_base(base, self.recipe)
            return base
        make = functools.partial(new_base, self.recipe, self.corpus)
        return self.host.stage("base", make, self.recipe.base_training, self._read)

    def train_term(self, base: Path) -> Path:
        """Train the term on top of a base model, and return the folder of the whole."""
        training = self.recipe.term_training
        source = SCORE_SOURCES.make(training.scores.model_dump())
        data = self._read if training.freeze == "none" else lambda model: self.host.term_data(model, source)
        return self.host.stage("term", lambda: with_term(base, self.recipe, self.corpus), training, data)

    def _read(self, model: GSPENForTokenClassification) -> StageData:
        return StageData(as_dataset(self.corpus.train, model.bio), as_dataset(self.corpus.dev))

    def _new_base(self, rows: Sequence[int]) -> GSPENForTokenClassification:
        """Return a new base model that knows the words of some training sentences only."""
        sentences = [self.corpus.train[row] for row in rows]
        return new_base(self.recipe, dataclasses.replace(self.corpus, train=sentences))

    def place(self, best: Path, folder: Path) -> None:
        """Also let it decode as the recipe says."""
        super().place(best, folder)
        config = GSPENConfig.from_pretrained(folder)
        config.decoder = self.recipe.decoder
        write_whole(folder / "config.json", config.to_json_string())

    def finish(self, best: Path) -> Results:
        """Also let the model's card say what it learned from, and how good it is."""
        results = super().finish(best)
        model = self.folder / "model"
        config = GSPENConfig.from_pretrained(model)
        config.results = {"data": self._sources(), "scores": _scores(results)}
        write_whole(model / "config.json", config.to_json_string())
        write_whole(model / "README.md", model_card(config))
        return results

    def _sources(self) -> dict[str, str]:
        """Where the data came from, without the paths of this machine."""
        data = self.recipe.data
        named = {"train": data.train, "dev": data.dev, "test": data.test}
        return {split: _shortened(source) for split, source in named.items() if source}


def _shortened(source: str) -> str:
    return "/".join(Path(source).parts[-2:]) if ":" not in source else source


def _scores(results: Results) -> dict[str, dict[str, float]]:
    found = {}
    for split, evaluation in (("dev", results.dev), ("test", results.test)):
        if evaluation is not None:
            micro = (evaluation.full or evaluation.base).score.micro
            found[split] = {name: getattr(micro, name) for name in ("precision", "recall", "f1")}
    return found
