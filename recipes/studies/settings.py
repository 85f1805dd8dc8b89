"""What recipes of the graph tasks (OCR, multilabel, tagging) share: how the paper's systems are trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gspen_ner.components import Section
from gspen_ner.recipe import Inference

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


def _several(folds: int) -> int:
    if folds == 1:
        raise ValueError("must be 0 or at least 2")
    return folds


Folds = Annotated[
    int,
    Field(
        ge=0, description="other systems learn from scores of so many Unaries, each for what it has not seen"
    ),
    AfterValidator(_several),
]


class SystemTraining(Section):
    """How a system is trained: until it has not become better on dev for a while."""

    optimizer: Literal["adam", "sgd"] = Field("adam", description="how weights are updated")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    learning_rate: float = Field(1e-4, gt=0, description="of the first update")
    schedule: Literal["constant", "linear"] = Field(
        "constant", description="of the rate; linear falls to 0 at max_updates"
    )
    batch_size: int = Field(128, ge=1, description="examples in an update")
    clip: float = Field(1.0, ge=0, description="largest norm of a gradient; 0 for any")
    max_updates: int = Field(5000, ge=1, description="after which training ends in any case")
    evaluate_every: int = Field(40, ge=1, description="updates, but at least an epoch")
    patience: int = Field(5, ge=1, description="evaluations without a better score before it stops")


class PairSettings(SystemTraining):
    """Struct: tables of pairs over a frozen Unary."""

    learning_rate: float = Field(1e-3, gt=0, description="of the first update")
    cost: float = Field(1.0, ge=0, description="weight of the Hamming cost in training")


class TermSettings(SystemTraining):
    """SPEN and GSPEN: a perceptron over all beliefs, over a frozen Unary or Struct."""

    hidden: tuple[Count, ...] = Field((500,), min_length=1, description="the best of these on dev is kept")
    read_potentials: bool = Field(True, description="whether the term sees the scores too")
    inference: Inference = Inference()


class NLStructSettings(SystemTraining):
    """NLStruct, over a frozen Struct that was trained without entropy."""

    hidden: int | None = Field(None, ge=1, description="as many as inputs if not given")
    dev_examples: int = Field(2000, ge=1, description="it is judged by the first so many")
    inference: Inference = Inference()


class GraphInference(Section):
    """How inference over pairs is done where no loops are in the way."""

    inference: Literal["exact", "messages"] = Field(
        "exact", description="exact sums, or message passing over the local polytope (the paper's)"
    )
    sweeps: int = Field(10, ge=1, description="of message passing")
