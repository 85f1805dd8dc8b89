"""What a recipe of the Flair host may say besides: embeddings, tagger, and how Flair trains it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.recipe.schema import Experiment, Section, check_experiment


class WordEntry(Section):
    """Word vectors that stay as they are."""

    name: Literal["words"]
    file: str = Field(description="in GloVe's text format, plain or gzipped")
    size: int = Field(100, ge=1)
    fine_tune: bool = False


class CharacterEntry(Section):
    """A BiLSTM over characters, trained with the tagger."""

    name: Literal["characters"]
    size: int = Field(25, ge=1)
    hidden: int = Field(25, ge=1)


class FlairEntry(Section):
    """A character language model of Flair's, by name or file."""

    name: Literal["flair"]
    model: str


class TransformerEntry(Section):
    """A transformer, by name or folder."""

    name: Literal["transformer"]
    model: str
    layers: str = "-1"
    fine_tune: bool = False


EmbeddingEntry = WordEntry | CharacterEntry | FlairEntry | TransformerEntry


class FlairTaggerEntry(Section):
    """Arguments of Flair's `SequenceTagger`."""

    tag_format: Literal["BIO", "BIOES"] = "BIOES"
    hidden_size: int = Field(256, ge=1)
    rnn_layers: int = Field(1, ge=1)
    reproject_embeddings: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)
    word_dropout: float = Field(0.05, ge=0, lt=1)
    locked_dropout: float = Field(0.5, ge=0, lt=1)


class FlairTraining(Section):
    """How Flair's `ModelTrainer` trains a stage."""

    epochs: int = Field(20, ge=1)
    batch_size: int = Field(32, ge=1)
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = Field(0.1, gt=0)
    anneal_on: Literal["train_loss", "dev_score"] = Field("dev_score", description="what must not stall")
    anneal_factor: float = Field(0.5, gt=0, lt=1)
    patience: int = Field(3, ge=0, description="epochs that it may stall")
    min_learning_rate: float = Field(1e-4, gt=0)


class FlairTermTraining(FlairTraining):
    """How it trains the global term."""

    freeze: Literal["base", "none"] = Field("none", description="the term alone, or everything")


class FlairRecipe(Experiment):
    """The same with a tagger of Flair's and its trainer."""

    host: Literal["flair"]
    system: Literal["struct", "gspen"] = "gspen"
    embeddings: tuple[Annotated[EmbeddingEntry, Field(discriminator="name")], ...] = Field(min_length=1)
    tagger: FlairTaggerEntry = FlairTaggerEntry()
    base_training: FlairTraining = FlairTraining()
    term_training: FlairTermTraining = FlairTermTraining()

    @model_validator(mode="after")
    def _check(self) -> FlairRecipe:
        check_experiment(self, self.system)
        return self
