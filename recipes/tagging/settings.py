"""Recipes of image tagging: the images or their features, and the five systems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gspen_ner.components import Section
from recipes.studies.settings import Count, FeatureNetTraining, ScoresRecipe, TermTraining, polytope_entry


class Splits(Section):
    """How images are divided."""

    seed: int = Field(0, ge=0, description="seed of the splits")
    sizes: tuple[Count, Count] | None = Field(
        None,
        description="images of train and dev; 10,000 and 5,000, or two fifths and a fifth if there are fewer",
    )


class Matrices(Splits):
    """Features and tags as two matrices; see `recipes.tagging.matrices`."""

    name: Literal["matrices"]
    features: str = Field(description="file of the features: .mat, .npz or .npy")
    tags: str = Field(description="file of the tags: .mat, .npz or .npy")


class Images(Splits):
    """MIRFLICKR25k as published, with features by a network of torchvision."""

    name: Literal["images"]
    images: str = Field(description="folder of im1.jpg and so on")
    annotations: str = Field(description="folder of animals.txt and so on")
    backbone: str = Field("alexnet", description="torchvision's name of the network")
    weights: str | None = Field(None, description="file of its weights; by default they are random")


class Generated(Section):
    """Generated images: binary features, and tags that go together."""

    name: Literal["generated"]
    rows: tuple[Count, Count, Count] = Field((2000, 500, 1000), description="images of train, dev and test")
    features: int = Field(300, ge=1, description="number of features")
    tags: int = Field(24, ge=3, description="number of tags")
    seed: int = Field(0, ge=0, description="seed of the data")


class TaggingRecipe(ScoresRecipe):
    """The five systems on images with any number of tags, all pairs of which are scored together.

    Example:
        >>> TaggingRecipe(task="tagging", data={"name": "generated", "tags": 8}).data.tags
        8
    """

    task: Literal["tagging"]
    data: Annotated[Matrices | Images | Generated, Field(discriminator="name")]
    polytope: polytope_entry({"name": "local", "oracle": "cut"})  # type: ignore[valid-type]
    unary: FeatureNetTraining = FeatureNetTraining()
    gspen: TermTraining = TermTraining()
