"""What a recipe of multilabel classification may say: the data, and the five systems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section
from gspen_ner.recipe import Inference
from recipes.studies.settings import Count, GraphInference, PairSettings, Seed, SystemTraining


class MultilabelSource(Section):
    """Where rows come from; see `recipes.multilabel.task`."""

    format: Literal["bibtex", "bookmarks", "generated"] = Field(description="which data")
    folder: str | None = Field(None, description="of the files; none for generated data")
    seed: int = Field(0, ge=0, description="of Bibtex's development set, or of generated data")
    rows: tuple[Count, Count, Count] = Field((1000, 300, 500), description="of generated data")
    features: int = Field(300, ge=1, description="of generated data")
    labels: int = Field(30, ge=3, description="of generated data")

    @model_validator(mode="after")
    def _has_a_folder(self) -> MultilabelSource:
        if (self.folder is None) != (self.format == "generated"):
            raise ValueError(
                f"folder: {'needed' if self.folder is None else 'not used'} by {self.format} data"
            )
        return self


class FeatureNetSettings(SystemTraining):
    """Unary: a 3-layer MLP from features to labels."""

    hidden: int = Field(150, ge=1, description="units of the hidden layer")
    input_dropout: float = Field(0.5, ge=0, lt=1, description="of what the network reads")
    hidden_dropout: float = Field(0.5, ge=0, lt=1, description="between its layers")
    flips: float = Field(0.01, ge=0, lt=1, description="probability of flipping an input in training")


class PairNetSettings(Section):
    """A 2-layer MLP from features to tables of pairs."""

    hidden: int = Field(1000, ge=1, description="units of the hidden layer")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="of what the network reads")
    flips: float = Field(0.0, ge=0, lt=1, description="probability of flipping an input in training")


class OverUnarySettings(PairNetSettings, PairSettings):
    """Struct: tables of pairs over a frozen Unary."""

    learning_rate: float = Field(1e-4, gt=0, description="of the first update")
    temperature: float = Field(1.0, gt=0, description="weight of the entropy")


class LabelTermSettings(SystemTraining):
    """SPEN: a perceptron over the probabilities of all labels, over a frozen Unary."""

    hidden: int = Field(16, ge=1, description="units of the hidden layer")
    inference: Inference = Inference(temperature=0.1)


class OverTermSettings(PairNetSettings, SystemTraining):
    """GSPEN: tables of pairs and the SPEN's term."""

    learns: Literal["pairs", "term"] = Field(
        "pairs", description="new pairs under the frozen SPEN (the paper's); or its term, over Struct's pairs"
    )
    inference: Inference = Inference(temperature=0.1)


class NonlinearSettings(SystemTraining):
    """NLStruct over the frozen Struct; the paper has none here."""

    hidden: int = Field(100, ge=1, description="units of the hidden layer")
    inference: Inference = Inference(temperature=0.1)


class MultilabelRecipe(Section):
    """Five systems on rows of binary features with any number of labels.

    Example:
        >>> MultilabelRecipe(task="multilabel", data={"format": "generated"}).seeds
        (1, 2, 3)
    """

    task: Literal["multilabel"]
    description: str = Field("", description="what it is, for people")
    data: MultilabelSource
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = Field(
        (1, 2, 3), description="one training for each"
    )
    graph: GraphInference = GraphInference(sweeps=5)
    draws: bool = Field(
        False, description="other systems learn on top of Unary with its dropout and bit flips on"
    )
    refit: bool = Field(
        False, description="once all is chosen on dev, train again on training and dev rows together"
    )
    systems: tuple[Literal["struct", "spen", "gspen", "nlstruct"], ...] = Field(
        ("struct", "spen", "gspen", "nlstruct"), description="which of them are trained besides Unary"
    )
    unary: FeatureNetSettings = FeatureNetSettings()
    struct: OverUnarySettings = OverUnarySettings()
    spen: LabelTermSettings = LabelTermSettings()
    gspen: OverTermSettings = OverTermSettings()
    nlstruct: NonlinearSettings = NonlinearSettings()
