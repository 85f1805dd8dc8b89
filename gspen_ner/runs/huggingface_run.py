"""Runs with our own taggers, the BiLSTM-CNN and transformers, trained by `transformers.Trainer`.

A stage that was killed goes on from its last whole checkpoint and ends as an unbroken one would have.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from gspen_ner.files import write_whole
from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.data import as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.potentials import joined, with_potentials
from gspen_ner.hosts.huggingface.processes import main_first, placed
from gspen_ner.hosts.huggingface.trainer import StageData, train_stage
from gspen_ner.hosts.loading import find_model
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.recipe import Recipe, Training, TransformerRecipe, expand
from gspen_ner.runs.corpus import Corpus
from gspen_ner.runs.models import check_base, check_encoder, check_folds, new_base, with_term
from gspen_ner.runs.run import Results, Run

logger = logging.getLogger(__name__)


class HuggingFaceRun(Run):
    """A run whose stages `transformers.Trainer` trains."""

    recipe: Recipe | TransformerRecipe

    def __init__(self, recipe: Recipe | TransformerRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        if isinstance(recipe, TransformerRecipe) and recipe.base is None and not folder.exists():
            check_encoder(recipe)
        check_folds(recipe)

    def train_base(self) -> Path:
        """The folder of the trained base model."""
        if self.recipe.base is not None:
            base = find_model(expand(self.recipe.base), ("", "base/best"))
            check_base(base, self.recipe)
            return base
        return self._base_stage("base", self.corpus.train, self.recipe.base_training)

    def _base_stage(self, name: str, sentences: Sequence[TaggedSentence], training: Training) -> Path:
        seen = dataclasses.replace(self.corpus, train=list(sentences))
        make = functools.partial(new_base, self.recipe, seen)
        return self._stage(name, make, training, functools.partial(_read, seen))

    def train_term(self, base: Path) -> Path:
        """The folder of the model with its trained term."""
        training = self.recipe.term_training
        data = self.potentials if training.freeze == "base" else self.sentences
        return self._stage("term", lambda: with_term(base, self.recipe, self.corpus), training, data)

    def sentences(self, model: GSPENForTokenClassification) -> StageData:
        """What a stage reads that runs the encoder."""
        return _read(self.corpus, model)

    def potentials(self, model: GSPENForTokenClassification) -> StageData:
        """Scores of the frozen base model: as it is, with dropout on, or of models that did not see them."""
        cache = self.folder / "potentials"
        sentences = self.sentences(model)
        dev = with_potentials(sentences.dev, model, cache)
        training = self.recipe.term_training
        if training.folds:
            parts = [
                with_potentials(as_dataset(part, model.bio), fold, cache, own_transitions=True)
                for part, fold in self._cross_fitted(training.folds)
            ]
            return StageData(joined(parts), dev)
        draws: list[int | None] = [*range(training.dropout_draws)] or [None]
        parts = [with_potentials(sentences.train, model, cache, draw) for draw in draws]
        return StageData(joined(parts), dev, len(draws))

    def _cross_fitted(self, folds: int) -> list[tuple[list[TaggedSentence], GSPENForTokenClassification]]:
        """Parts of the training data, each with a base model that was trained on the others."""
        documents = sorted({sentence.document for sentence in self.corpus.train})
        if len(documents) < folds:
            raise ValueError(f"term_training.folds: {folds} of {len(documents)} documents cannot be made")
        random.Random(self.recipe.seed).shuffle(documents)
        fold_of = {document: place % folds for place, document in enumerate(documents)}
        found = []
        for fold in range(folds):
            rest = [s for s in self.corpus.train if fold_of[s.document] != fold]
            part = [s for s in self.corpus.train if fold_of[s.document] == fold]
            best = self._fold(f"fold-{fold + 1}", rest)
            found.append((part, placed(load_model(best).eval())))
        return found

    def _fold(self, name: str, sentences: Sequence[TaggedSentence]) -> Path:
        """A base model that has seen these sentences only, trained here or in another run."""
        training = self.recipe.term_training
        if training.folds_of is not None:
            return Path(expand(training.folds_of), name, "best")
        epochs = training.fold_epochs or self.recipe.base_training.epochs
        return self._base_stage(
            name, sentences, self.recipe.base_training.model_copy(update={"epochs": epochs})
        )

    def _stage(
        self,
        name: str,
        make_model: Callable[[], GSPENForTokenClassification],
        training: Training,
        make_data: Callable[[GSPENForTokenClassification], StageData],
    ) -> Path:
        """Train a model, or go on training it, or find that it is done."""
        folder = self.folder / name
        done = folder / "done.json"
        if not done.exists():
            torch.manual_seed(self.recipe.seed)
            model = placed(make_model())
            seconds = train_stage(model, training, folder, make_data(model), self.recipe.seed)
            with main_first() as first:
                if first:
                    write_whole(done, json.dumps({"seconds_an_epoch": seconds}) + "\n")
                    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return folder / "best"

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


def _read(corpus: Corpus, model: GSPENForTokenClassification) -> StageData:
    return StageData(as_dataset(corpus.train, model.bio), as_dataset(corpus.dev))


def _shortened(source: str) -> str:
    return "/".join(Path(source).parts[-2:]) if ":" not in source else source


def _scores(results: Results) -> dict[str, dict[str, float]]:
    found = {}
    for split, evaluation in (("dev", results.dev), ("test", results.test)):
        if evaluation is not None:
            micro = (evaluation.full or evaluation.base).score.micro
            found[split] = {name: getattr(micro, name) for name in ("precision", "recall", "f1")}
    return found
