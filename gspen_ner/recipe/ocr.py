"""What a recipe of the OCR task may say: data, the five systems, and the study of inference."""

from __future__ import annotations

from typing import Annotated, Literal

import yaml
from pydantic import Field, model_validator

from gspen_ner.recipe.schema import Inference, Section

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class SystemTraining(Section):
    """How a system is trained: Adam until it has not become better on dev for a while."""

    learning_rate: float = Field(1e-4, gt=0)
    batch_size: int = Field(128, ge=1)
    clip: float = Field(1.0, ge=0, description="largest norm of a gradient; 0 for any")
    max_updates: int = Field(5000, ge=1)
    evaluate_every: int = Field(40, ge=1, description="updates, but at least an epoch")
    patience: int = Field(10, ge=1, description="evaluations without a better score before it stops")


class UnarySettings(SystemTraining):
    """Unary: each letter by itself."""

    hidden: int = Field(200, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1)


class StructSettings(SystemTraining):
    """Struct: tables of neighbouring letters over a frozen Unary."""

    learning_rate: float = Field(1e-3, gt=0)
    cost: float = Field(1.0, ge=0)


class TermSettings(SystemTraining):
    """SPEN and GSPEN: a perceptron over all beliefs, over a frozen Unary or Struct."""

    hidden: tuple[Count, ...] = Field((500,), min_length=1, description="the best of these on dev is kept")
    read_potentials: bool = True
    inference: Inference = Inference()


class NLStructSettings(SystemTraining):
    """NLStruct, over a frozen Struct that was trained without entropy."""

    hidden: int | None = Field(None, ge=1, description="as many as inputs if not given")
    dev_examples: int = Field(2000, ge=1, description="it is judged by the first so many")
    inference: Inference = Inference()


class OCRData(Section):
    """What words are made of; see `gspen_ner.tasks.ocr_words`."""

    letters: str | None = Field(
        None, description="Chars74k: a folder, archive or .npz; drawn from fonts if not given"
    )
    backgrounds: str | None = Field(None, description="a folder of photographs; scikit-learn's if not given")
    words: int = Field(50, ge=2)
    dev: int = Field(2000, ge=1)
    test: int = Field(2000, ge=1)
    seed: int = Field(0, ge=0)


class Graph(Section):
    """How inference over neighbouring letters is done."""

    inference: Literal["exact", "messages"] = Field(
        "exact", description="the chain's own sums, or message passing over the local polytope (the paper's)"
    )
    sweeps: int = Field(10, ge=1, description="of message passing")


class StudySettings(Section):
    """Four GSPENs, with Frank-Wolfe or mirror descent, with or without entropy."""

    max_steps: tuple[Count, ...] = Field((3, 10, 30), description="none skips the study")
    max_updates: int = Field(60, ge=1)
    seeds: tuple[Seed, ...] = (1,)


class OCRRecipe(Section):
    """Five systems on words of five letters."""

    task: Literal["ocr"]
    description: str = ""
    data: OCRData = OCRData()
    alphas: tuple[Share, ...] = Field((0.3, 0.5, 0.7), min_length=1, description="weights of the background")
    sizes: tuple[Count, ...] = Field((200, 1000, 10_000), min_length=1)
    alpha: float = Field(0.5, ge=0, le=1, description="with which sizes are compared")
    size: int = Field(1000, ge=1, description="with which alphas are compared")
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1)
    graph: Graph = Graph()
    systems: tuple[Literal["spen", "nlstruct", "gspen"], ...] = ("spen", "nlstruct", "gspen")
    unary: UnarySettings = UnarySettings()
    struct: StructSettings = StructSettings()
    spen: TermSettings = TermSettings()
    gspen: TermSettings = TermSettings()
    nlstruct: NLStructSettings = NLStructSettings()
    study: StudySettings = StudySettings()

    @model_validator(mode="after")
    def _check(self) -> OCRRecipe:
        if self.alpha not in self.alphas or self.size not in self.sizes:
            raise ValueError(
                f"alpha and size must be among alphas and sizes, got {self.alpha} and {self.size} for "
                f"{list(self.alphas)} and {list(self.sizes)}"
            )
        for name in ("alphas", "sizes", "seeds", "systems"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: {list(values)} names something twice")
        for name in ("spen", "gspen"):
            if getattr(self, name).inference.solver.name == "saddle_point":
                raise ValueError(f"{name}.inference.solver: saddle_point is for nlstruct only")
        return self

    def as_yaml(self) -> str:
        """The recipe with every entry written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
