"""What a recipe of the Flair host may say besides: embeddings, tagger, and how Flair trains it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section
from gspen_ner.recipe.schema import Experiment, check_experiment


class WordEntry(Section):
    """Word vectors from a file."""

    name: Literal["words"]
    file: str = Field(description="in GloVe's text format, plain or gzipped")
    size: int = Field(100, ge=1, description="of the vectors")
    fine_tune: bool = Field(False, description="train it too")


class CharacterEntry(Section):
    """A BiLSTM over characters, trained with the tagger."""

    name: Literal["characters"]
    size: int = Field(25, ge=1, description="of the vectors")
    hidden: int = Field(25, ge=1, description="units in each direction")


class FlairEntry(Section):
    """A character language model of Flair's, by name or file."""

    name: Literal["flair"]
    model: str = Field(description="its name or file")


class TransformerEntry(Section):
    """A transformer, by name or folder."""

    name: Literal["transformer"]
    model: str = Field(description="its name or folder")
    layers: str = Field("-1", description="of the transformer that are read")
    fine_tune: bool = Field(False, description="train it too")


EmbeddingEntry = WordEntry | CharacterEntry | FlairEntry | TransformerEntry


class FlairTaggerEntry(Section):
    """Arguments of Flair's `SequenceTagger`."""

    tag_format: Literal["BIO", "BIOES"] = Field("BIOES", description="of the chain's labels")
    hidden_size: int = Field(256, ge=1, description="units of the LSTM in each direction")
    rnn_layers: int = Field(1, ge=1, description="of the LSTM")
    reproject_embeddings: bool = Field(True, description="a linear layer below the LSTM")
    dropout: float = Field(0.0, ge=0, lt=1, description="of hidden units")
    word_dropout: float = Field(0.05, ge=0, lt=1, description="of whole words")
    locked_dropout: float = Field(0.5, ge=0, lt=1, description="of whole features")


class FlairTraining(Section):
    """How Flair's `ModelTrainer` trains a stage.

    Example:
        >>> FlairTraining(optimizer="adam", learning_rate=0.01).patience
        3
    """

    epochs: int = Field(20, ge=1, description="passes over the training data")
    batch_size: int = Field(32, ge=1, description="examples in an update")
    optimizer: Literal["sgd", "adam"] = Field("sgd", description="how weights are updated")
    learning_rate: float = Field(0.1, gt=0, description="of the first update")
    anneal_on: Literal["train_loss", "dev_score"] = Field("dev_score", description="what must not stall")
    anneal_factor: float = Field(0.5, gt=0, lt=1, description="by which the rate is multiplied then")
    patience: int = Field(3, ge=0, description="epochs that it may stall")
    min_learning_rate: float = Field(1e-4, gt=0, description="below which training ends")


class FlairTermTraining(FlairTraining):
    """How it trains the global term."""

    freeze: Literal["base", "none"] = Field("none", description="the term alone, or everything")


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
        min_length=1, description="what a word is read by; they are joined"
    )
    tagger: FlairTaggerEntry = FlairTaggerEntry()
    base_training: FlairTraining = FlairTraining()
    term_training: FlairTermTraining = FlairTermTraining()

    @model_validator(mode="after")
    def _check(self) -> FlairRecipe:
        check_experiment(self, self.system)
        return self
