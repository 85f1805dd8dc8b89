"""Recipes of multilabel classification: the data, and the five systems."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section, section_of
from gspen_ner.recipe import Inference
from gspen_ner.training import TensorTraining
from recipes.studies.feature_net import PairNet
from recipes.studies.settings import Count, FeatureNetTraining, StructTraining, StudyRecipe, polytope_entry


class MultilabelSource(Section):
    """Source of the rows; see `recipes.multilabel.files`."""

    format: Literal["bibtex", "bookmarks", "generated"] = Field(description="which data")
    folder: str | None = Field(None, description="folder of the files; none for generated data")
    seed: int = Field(0, ge=0, description="seed of Bibtex's development set, or of generated data")
    rows: tuple[Count, Count, Count] = Field((1000, 300, 500), description="rows of generated data")
    features: int = Field(300, ge=1, description="features of generated data")
    labels: int = Field(30, ge=3, description="labels of generated data")

    @model_validator(mode="after")
    def _check_folder(self) -> MultilabelSource:
        if (self.folder is None) != (self.format == "generated"):
            raise ValueError(
                f"folder: {'needed' if self.folder is None else 'not used'} by {self.format} data"
            )
        return self


class PairNetTraining(section_of(PairNet), StructTraining):  # type: ignore[misc]
    """Struct: an MLP from features to tables of pairs, on top of Unary."""


class GSPENTraining(section_of(PairNet), TensorTraining):  # type: ignore[misc]
    """GSPEN: the pairs or the term learn, the others are frozen."""

    learns: Literal["pairs", "term"] = Field(
        "pairs", description="new pairs under the SPEN's term (the paper's), or its term over Struct's pairs"
    )
    inference: Inference = Inference()


class MultilabelRecipe(StudyRecipe):
    """The five systems on rows of binary features with any number of labels.

    Example:
        >>> MultilabelRecipe(task="multilabel", data={"format": "generated"}).seeds
        (1, 2, 3)
    """

    task: Literal["multilabel"]
    data: MultilabelSource
    polytope: polytope_entry({"name": "tree"})  # type: ignore[valid-type]
    draws: bool = Field(
        False, description="whether Unary's dropout and flips stay on while other systems learn on top of it"
    )
    refit: bool = Field(
        False, description="whether all systems are trained again on train and dev, as chosen on dev"
    )
    unary: FeatureNetTraining = FeatureNetTraining()
    struct: PairNetTraining = PairNetTraining()
    gspen: GSPENTraining = GSPENTraining()
