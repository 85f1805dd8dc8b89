"""The models of an experiment: a base model that knows nothing yet, and one with a term on top."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from gspen_ner.experiments.corpus import Corpus
from gspen_ner.hosts.huggingface.model import GSPENConfig, GSPENForTokenClassification, load_model
from gspen_ner.recipe import Experiment, Recipe, expand
from gspen_ner.scorers import Vocabulary, WordVectors


def new_base(recipe: Recipe, corpus: Corpus) -> GSPENForTokenClassification:
    """A base model that has not learned anything yet."""
    scorer, labels = recipe.scorer, corpus.labels(recipe.scorer.scheme)
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
    structured = recipe.system in ("struct", "gspen")
    if not structured:
        options["transitions"] = "none"
    config = GSPENConfig(
        scheme=scorer.scheme,
        system="struct" if structured else "unary",
        scorer=options,
        id2label=dict(enumerate(labels.names)),
        label2id={name: number for number, name in enumerate(labels.names)},
    )
    model = GSPENForTokenClassification(config, vocabulary)
    if vectors is not None:
        model.scorer.load_vectors(vectors, vocabulary)
    return model


def check_base(base: Path, recipe: Recipe) -> None:
    """Refuse a base model of another system than the recipe's terms stand on."""
    needed = "struct" if recipe.system in ("struct", "gspen") else "unary"
    found = load_model(base).config.system
    if found != needed:
        raise ValueError(f"{base}: a {found} model; {recipe.system} starts from a {needed} one")


def with_term(base: Path, recipe: Recipe, corpus: Corpus) -> GSPENForTokenClassification:
    """The base model with a term that changes nothing yet."""
    old, labels = load_model(base), corpus.labels(recipe.scorer.scheme)
    if old.labels != labels:
        raise ValueError(
            f"{base}: its labels are {', '.join(old.labels.names)}; the training data has "
            f"{', '.join(labels.names)}"
        )
    config = copy.deepcopy(old.config)
    assert isinstance(config, GSPENConfig)
    config.system = recipe.system
    config.inference = recipe.inference.model_dump(mode="json")
    config.terms = term_entries(recipe, corpus)
    model = GSPENForTokenClassification(config, old.vocabulary)
    model.scorer.load_state_dict(old.scorer.state_dict())
    if recipe.term_training.freeze == "base":
        model.freeze_base()
    return model


def term_entries(recipe: Experiment, corpus: Corpus) -> list[dict[str, Any]]:
    """The terms' arguments, with what is taken from the data."""
    entries = [term.model_dump(mode="json") for term in recipe.terms]
    longest = max(len(sentence.tokens) for sentence in corpus.train)
    for entry in entries:
        if entry["name"] == "padded_mlp":
            entry["max_length"] = entry["max_length"] or longest
    return entries
