"""The models of an experiment: a base model that knows nothing yet, and one with a term on top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.pieces import WordReader
from gspen_ner.recipe import Experiment, Recipe, TrainedHere, TransformerRecipe, expand, load_recipe
from gspen_ner.runs.corpus import Corpus
from gspen_ner.scorers import BiLSTMCNN, Vocabulary, WordVectors
from gspen_ner.terms import TERMS


def new_base(recipe: TrainedHere, corpus: Corpus) -> GSPENForTokenClassification:
    """A base model that has not learned anything yet."""
    if isinstance(recipe, TransformerRecipe):
        return _new_transformer(recipe, corpus)
    assert isinstance(recipe, Recipe)
    return _new_bilstm_cnn(recipe, corpus)


def _new_bilstm_cnn(recipe: Recipe, corpus: Corpus) -> GSPENForTokenClassification:
    scorer, labels = recipe.scorer, corpus.labels(recipe.scheme)
    vectors = None
    if scorer.word_vectors is not None:
        vectors = WordVectors.read(expand(scorer.word_vectors), scorer.word_size)
    tokens = [sentence.tokens for sentence in corpus.train]
    vocabulary = Vocabulary.of_sentences(tokens, vectors.words if vectors else ())
    sizes = {
        "trained_words": vocabulary.trained,
        "fixed_words": len(vocabulary.words) - vocabulary.trained,
        "characters": len(vocabulary.characters),
    }
    options = scorer.model_dump(exclude={"scheme", "word_vectors"}) | sizes
    if not recipe.structured:
        options["transitions"] = "none"
    config = GSPENConfig(
        chain_labels=labels.names,
        scheme=labels.scheme,
        system="struct" if recipe.structured else "unary",
        scorer=options,
    )
    model = GSPENForTokenClassification(config, WordReader(vocabulary))
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
            name, labels, scheme=recipe.scheme, transitions=recipe.structured, window=recipe.window
        )
    except OSError as error:
        raise ValueError(f"encoder: {name} cannot be loaded: {error}") from None


def check_encoder(recipe: TransformerRecipe) -> None:
    """Refuse an encoder that is not there, before anything is written."""
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
    """Refuse a base model of another system than the recipe's terms stand on."""
    needed = "struct" if recipe.structured else "unary"
    found = load_model(base).config.system
    if found != needed:
        raise ValueError(f"{base}: a {found} model; {recipe.system} starts from a {needed} one")


def check_models_of(recipe: TrainedHere) -> None:
    """Refuse base models of folds from a run that divided its training data otherwise, or has none."""
    scores = recipe.term_training.scores
    if getattr(scores, "models_of", None) is None:
        return
    run = Path(expand(scores.models_of))
    other = load_recipe(run / "recipe.yaml")
    entry = "term_training.scores.models_of"
    if not isinstance(other, TrainedHere):
        raise ValueError(f"{entry}: {run} is the run of another host or task")
    complete = all((run / f"fold-{fold + 1}" / "done.json").is_file() for fold in range(scores.folds))
    if getattr(other.term_training.scores, "folds", None) != scores.folds or not complete:
        raise ValueError(f"{entry}: expected the models of {scores.folds} folds in {run}, which lacks some")
    for name in ("seed", "data", "system", "scheme"):
        if getattr(other, name) != getattr(recipe, name):
            raise ValueError(f"{entry}: the run in {run} differs from this one in its {name}")


def with_term(base: Path, recipe: TrainedHere, corpus: Corpus) -> GSPENForTokenClassification:
    """The base model with a term that changes nothing yet."""
    old = load_model(base)
    _check_labels(old, corpus, base)
    model = old.with_terms(term_entries(recipe, corpus), recipe.inference.model_dump(mode="json"))
    return model.freeze() if recipe.term_training.freeze == "base" else model


def _check_labels(model: GSPENForTokenClassification, corpus: Corpus, name: str | Path) -> None:
    wanted = corpus.labels("BIO").names
    if set(model.bio.names) != set(wanted):
        raise ValueError(
            f"{name}: its labels are {', '.join(model.bio.names)}; the training data has {', '.join(wanted)}"
        )


def term_entries(recipe: Experiment, corpus: Corpus) -> list[dict[str, Any]]:
    """Return the entries of the recipe's terms, fitted to the training data."""
    longest = max(len(sentence.tokens) for sentence in corpus.train)
    entries = [term.model_dump(mode="json") for term in recipe.terms]
    return [TERMS.classes[entry["name"]].fitted_options(entry, longest) for entry in entries]
