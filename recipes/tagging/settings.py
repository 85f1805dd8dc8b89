"""What a recipe of image tagging may say: the images or their features, and the five systems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section
from gspen_ner.recipe import Inference
from recipes.multilabel.settings import FeatureNetSettings
from recipes.studies.settings import Count, Folds, GraphInference, PairSettings, Seed, SystemTraining

Sizes = Annotated[
    tuple[Count, Count] | None,
    Field(
        description="images of train and dev; 10,000 and 5,000, or two fifths and a fifth if there are fewer"
    ),
]


class Matrices(Section):
    """Features and tags as two matrices; see `recipes.tagging.matrix_files`."""

    name: Literal["matrices"]
    features: str = Field(description="a .mat, .npz or .npy file")
    tags: str = Field(description="likewise")
    seed: int = Field(0, ge=0, description="of the splits")
    sizes: Sizes = None


class Images(Section):
    """MIRFLICKR25k as published, its features by a network of torchvision's."""

    name: Literal["images"]
    images: str = Field(description="folder of im1.jpg and so on")
    annotations: str = Field(description="folder of animals.txt and so on")
    backbone: str = Field("alexnet", description="as torchvision calls it")
    weights: str | None = Field(None, description="file of its weights; random ones if not given")
    seed: int = Field(0, ge=0, description="of the splits")
    sizes: Sizes = None


class Generated(Section):
    """Made-up images: binary features, and tags that go together."""

    name: Literal["generated"]
    rows: tuple[Count, Count, Count] = Field((2000, 500, 1000), description="of train, dev and test")
    features: int = Field(300, ge=1, description="of an image")
    tags: int = Field(24, ge=3, description="that there are")
    seed: int = Field(0, ge=0, description="of everything that is drawn")


class TagNetSettings(FeatureNetSettings):
    """Unary: a 3-layer MLP from features to tags."""

    flips: float = Field(0.0, ge=0, lt=1, description="probability of flipping a (binary) input in training")


class TagPairSettings(PairSettings):
    """Struct: one table for each pair of tags, over a frozen Unary."""

    temperature: float = Field(0.0, ge=0, description="weight of the entropy")


def _without_entropy() -> Inference:
    solver = {"name": "frank_wolfe", "start": "maximiser"}
    return Inference(solver=solver, temperature=0.0, max_steps=100)


class TagTermSettings(SystemTraining):
    """SPEN and GSPEN: a perceptron over all beliefs, over a frozen Unary or Struct."""

    hidden: int = Field(130, ge=1, description="units of the hidden layer")
    read_potentials: bool = Field(True, description="whether it also reads Unary's scores")
    inference: Inference = Field(default_factory=_without_entropy)


class TagNonlinearSettings(SystemTraining):
    """NLStruct over the frozen Struct."""

    hidden: int | None = Field(None, ge=1, description="as many as inputs if not given")
    inference: Inference = Field(default_factory=_without_entropy)


class TaggingRecipe(Section):
    """Five systems on images with any number of tags, all pairs of which are scored together.

    Example:
        >>> TaggingRecipe(task="tagging", data={"name": "generated", "tags": 8}).data.tags
        8
    """

    task: Literal["tagging"]
    description: str = Field("", description="what it is, for people")
    data: Annotated[Matrices | Images | Generated, Field(discriminator="name")]
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = Field(
        (1, 2, 3), description="one training for each"
    )
    graph: GraphInference = GraphInference(sweeps=100)
    folds: Folds = 0
    systems: tuple[Literal["struct", "spen", "nlstruct", "gspen"], ...] = Field(
        ("struct", "spen", "nlstruct", "gspen"), description="which of them are trained besides Unary"
    )
    unary: TagNetSettings = TagNetSettings()
    struct: TagPairSettings = TagPairSettings()
    spen: TagTermSettings = TagTermSettings()
    nlstruct: TagNonlinearSettings = TagNonlinearSettings()
    gspen: TagTermSettings = TagTermSettings()

    @model_validator(mode="after")
    def _check(self) -> TaggingRecipe:
        for name in ("spen", "gspen"):
            if getattr(self, name).inference.solver.name == "saddle_point":
                raise ValueError(f"{name}.inference.solver: saddle_point is for nlstruct only")
        return self
