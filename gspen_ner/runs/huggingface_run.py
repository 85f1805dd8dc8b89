"""Runs with the BiLSTM-CNN or a transformer, trained by `transformers.Trainer`.

A stage that was killed continues from its last complete checkpoint, with the same result as an unbroken one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from gspen_ner.files import write_whole
from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.context import add_context
from gspen_ner.hosts.huggingface.data import as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.trainer import StageData
from gspen_ner.hosts.huggingface.two_stages import HuggingFaceHost
from gspen_ner.hosts.loading import find_model
from gspen_ner.recipe import Recipe, TrainedHere, TransformerRecipe, expand, load_recipe
from gspen_ner.runs.run import Corpus, Results, Run
from gspen_ner.scorers import BiLSTMCNN, Vocabulary, WordVectors
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
        """Train the term on top of a base model, and return the folder of the full model."""
        training = self.recipe.term_training
        source = SCORE_SOURCES.make(training.scores.model_dump())
        data = self._read if training.freeze == "none" else lambda model: self.host.term_data(model, source)
        return self.host.stage("term", lambda: with_term(base, self.recipe, self.corpus), training, data)

    def _read(self, model: GSPENForTokenClassification) -> StageData:
        train, dev = as_dataset(self.corpus.train, model.bio), as_dataset(self.corpus.dev)
        return StageData(add_context(train, model), add_context(dev, model))

    def _new_base(self, rows: Sequence[int]) -> GSPENForTokenClassification:
        """Return a new base model that knows the words of some training sentences only."""
        sentences = [self.corpus.train[row] for row in rows]
        return new_base(self.recipe, dataclasses.replace(self.corpus, train=sentences))

    def copy_model(self, best: Path, folder: Path) -> None:
        """Also set the decoder of the recipe."""
        super().copy_model(best, folder)
        config = GSPENConfig.from_pretrained(folder)
        config.decoder = self.recipe.decoder
        write_whole(folder / "config.json", config.to_json_string())

    def finish(self, best: Path) -> Results:
        """Also write the data and the scores to the model's card."""
        results = super().finish(best)
        model = self.folder / "model"
        config = GSPENConfig.from_pretrained(model)
        config.results = _card_results(self.recipe, results)
        write_whole(model / "config.json", config.to_json_string())
        write_whole(model / "README.md", model_card(config))
        return results


def _card_results(recipe: TrainedHere, results: Results) -> dict[str, Any]:
    """Return the source of each split, without the paths of this machine, and the scores of the model."""
    data = {"train": recipe.data.train, "dev": recipe.data.dev, "test": recipe.data.test}
    sources = {
        split: source if ":" in source else "/".join(Path(source).parts[-2:])
        for split, source in data.items()
        if source
    }
    scores = {}
    for split, evaluation in (("dev", results.dev), ("test", results.test)):
        if evaluation is not None:
            micro = evaluation.assessments[-1].score.micro
            scores[split] = {name: getattr(micro, name) for name in ("precision", "recall", "f1")}
    return {"data": sources, "scores": scores}


def new_base(recipe: TrainedHere, corpus: Corpus) -> GSPENForTokenClassification:
    """Return an untrained base model."""
    if isinstance(recipe, TransformerRecipe):
        return _new_transformer(recipe, corpus)
    assert isinstance(recipe, Recipe)
    scorer, vectors = recipe.scorer, None
    if scorer.word_vectors is not None:
        vectors = WordVectors.read(expand(scorer.word_vectors), scorer.word_size)
    tokens = [sentence.tokens for sentence in corpus.train]
    vocabulary = Vocabulary.of_sentences(tokens, vectors.words if vectors else ())
    options = scorer.model_dump(exclude={"scheme", "word_vectors"})
    if not recipe.structured:
        options["transitions"] = "none"
    labels = corpus.labels("BIO").names
    model = GSPENForTokenClassification.from_vocabulary(vocabulary, labels, scheme=recipe.scheme, **options)
    if vectors is not None:
        assert isinstance(model.scorer, BiLSTMCNN)
        model.scorer.load_vectors(vectors, vocabulary)
    return model


def _new_transformer(recipe: TransformerRecipe, corpus: Corpus) -> GSPENForTokenClassification:
    name = expand(recipe.encoder)
    transformers.logging.set_verbosity_error()  # it warns of the output layer's new weights
    try:
        if recipe.start == "classifier":
            model = GSPENForTokenClassification.from_token_classifier(name)
            _check_labels(model, corpus, name)
            return model
        labels = corpus.labels("BIO").names
        return GSPENForTokenClassification.from_encoder(
            name,
            labels,
            scheme=recipe.scheme,
            transitions=recipe.structured,
            window=recipe.window,
            context_tokens=recipe.context_tokens,
        )
    except OSError as error:
        raise ValueError(f"encoder: {name} cannot be loaded: {error}") from None


def check_encoder(recipe: TransformerRecipe) -> None:
    """Refuse an encoder that is missing, before anything is written."""
    name = expand(recipe.encoder)
    if (name[0] in "./~" or name.count("/") > 1) and not Path(name).is_dir():
        raise ValueError(f"encoder: {name}: no such folder")
    if Path(name).is_dir() and not Path(name, "config.json").is_file():
        raise ValueError(f"encoder: {name}: no model here (no config.json in it)")
    try:
        transformers.AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ValueError(f"encoder: {name} cannot be loaded: {error}") from None


def check_base(base: Path, recipe: TrainedHere) -> None:
    """Refuse a base model whose system, or whose context, does not fit that of the recipe."""
    needed = "struct" if recipe.structured else "unary"
    model = load_model(base)
    if model.config.system != needed:
        raise ValueError(f"{base}: a {model.config.system} model; {recipe.system} starts from a {needed} one")
    if isinstance(recipe, TransformerRecipe) and model.context_tokens != recipe.context_tokens:
        raise ValueError(
            f"{base}: its context_tokens are {model.context_tokens}; the recipe has {recipe.context_tokens}"
        )


def check_models_of(recipe: TrainedHere) -> None:
    """Refuse `models_of` if its run lacks these folds, or divided the training data in another way."""
    scores = recipe.term_training.scores
    if getattr(scores, "models_of", None) is None:
        return
    run = Path(expand(scores.models_of))
    other = load_recipe(run / "recipe.yaml")
    entry = "term_training.scores.models_of"
    if not isinstance(other, TrainedHere):
        raise ValueError(f"{entry}: {run} is the run of another host")
    complete = all((run / f"fold-{fold + 1}" / "done.json").is_file() for fold in range(scores.folds))
    if getattr(other.term_training.scores, "folds", None) != scores.folds or not complete:
        raise ValueError(f"{entry}: expected the models of {scores.folds} folds in {run}, which lacks some")
    for name in ("seed", "data", "system", "scheme", "context_tokens"):
        if getattr(other, name, None) != getattr(recipe, name, None):
            raise ValueError(f"{entry}: the run in {run} differs from this one in its {name}")


def with_term(base: Path, recipe: TrainedHere, corpus: Corpus) -> GSPENForTokenClassification:
    """Return the base model with new global terms, which do not change its predictions yet."""
    old = load_model(base)
    _check_labels(old, corpus, base)
    model = old.with_terms(corpus.term_entries(recipe), recipe.inference.model_dump(mode="json"))
    return model.freeze() if recipe.term_training.freeze == "base" else model


def _check_labels(model: GSPENForTokenClassification, corpus: Corpus, name: str | Path) -> None:
    wanted = corpus.labels("BIO").names
    if set(model.bio.names) != set(wanted):
        raise ValueError(
            f"{name}: its labels are {', '.join(model.bio.names)}; the training data has {', '.join(wanted)}"
        )
