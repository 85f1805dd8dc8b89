"""Recipes of the Flair host: embeddings, tagger, and how Flair trains it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section
from gspen_ner.labels import Scheme
from gspen_ner.recipe.schema import (
    CHAIN_SCHEME,
    SCORES,
    Experiment,
    ScoreSource,
    check_experiment,
    check_scores,
)


class WordEntry(Section):
    """Word vectors from a file."""

    name: Literal["words"]
    file: str = Field(description="file in GloVe's text format, plain or gzipped")
    size: int = Field(100, ge=1, description="size of the vectors")
    fine_tune: bool = Field(False, description="also train the embeddings")


class CharacterEntry(Section):
    """A BiLSTM over characters, trained with the tagger."""

    name: Literal["characters"]
    size: int = Field(25, ge=1, description="size of the vectors")
    hidden: int = Field(25, ge=1, description="units in each direction")


class FlairEntry(Section):
    """A character language model of Flair's, by name or file."""

    name: Literal["flair"]
    model: str = Field(description="name or file of the language model")


class TransformerEntry(Section):
    """A transformer, by name or folder."""

    name: Literal["transformer"]
    model: str = Field(description="name or folder of the transformer")
    layers: str = Field("-1", description="layers of the transformer that are read")
    fine_tune: bool = Field(False, description="also train the embeddings")


EmbeddingEntry = WordEntry | CharacterEntry | FlairEntry | TransformerEntry


class FlairTaggerEntry(Section):
    """Arguments of Flair's `SequenceTagger`."""

    tag_format: Scheme = CHAIN_SCHEME
    hidden_size: int = Field(256, ge=1, description="units of the LSTM in each direction")
    rnn_layers: int = Field(1, ge=1, description="number of layers of the LSTM")
    reproject_embeddings: bool = Field(True, description="put a linear layer below the LSTM")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout rate of hidden units")
    word_dropout: float = Field(0.05, ge=0, lt=1, description="probability of dropping a whole word")
    locked_dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate of whole features")


class FlairTraining(Section):
    """How Flair's `ModelTrainer` trains a stage.

    Example:
        >>> FlairTraining(optimizer="adam", learning_rate=0.01).patience
        3
    """

    epochs: int = Field(20, ge=1, description="passes over the training data")
    batch_size: int = Field(32, ge=1, description="sentences of an update")
    optimizer: Literal["sgd", "adam"] = Field("sgd", description="optimizer")
    learning_rate: float = Field(0.1, gt=0, description="learning rate of the first update")
    anneal_on: Literal["train_loss", "dev_score"] = Field(
        "dev_score", description="score whose plateau lowers the learning rate"
    )
    anneal_factor: float = Field(0.5, gt=0, lt=1, description="learning-rate factor on a plateau")
    patience: int = Field(3, ge=0, description="epochs of a plateau before the learning rate falls")
    min_learning_rate: float = Field(1e-4, gt=0, description="learning rate below which training ends")


class FlairTermTraining(FlairTraining):
    """How Flair's `ModelTrainer` trains the global term."""

    freeze: Literal["base", "none"] = Field("none", description="train the term alone, or everything")
    scores: ScoreSource = SCORES

    @model_validator(mode="after")
    def _check(self) -> FlairTermTraining:
        check_scores(self.scores, self.freeze)
        return self


class FlairRecipe(Experiment):
    """An experiment with a tagger of Flair's, trained by Flair's trainer.

    Example:
        >>> recipe = FlairRecipe(
        ...     host="flair",
        ...     data={"train": "newswire:40:1", "dev": "newswire:5:2"},
        ...     embeddings=[{"name": "characters"}],
        ...     terms=[{"name": "document"}],
        ... )
        >>> recipe.embeddings[0].hidden, recipe.term_training.freeze
        (25, 'none')
    """

    host: Literal["flair"]
    system: Literal["struct", "gspen"] = Field("gspen", description="the CRF alone, or with a term")
    embeddings: tuple[Annotated[EmbeddingEntry, Field(discriminator="name")], ...] = Field(
        min_length=1, description="embeddings of a word, which are concatenated"
    )
    tagger: FlairTaggerEntry = FlairTaggerEntry()
    base_training: FlairTraining = FlairTraining()
    term_training: FlairTermTraining = FlairTermTraining()

    @model_validator(mode="after")
    def _check(self) -> FlairRecipe:
        check_experiment(self, self.system)
        return self
