"""What a recipe of the OCR task may say: data, the five systems, and the study of inference."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section
from recipes.studies.settings import (
    Count,
    GraphInference,
    NLStructSettings,
    PairSettings,
    Seed,
    Share,
    SystemTraining,
    TermSettings,
)


class UnarySettings(SystemTraining):
    """Unary: each letter by itself."""

    hidden: int = Field(200, ge=1, description="units of the hidden layer")
    dropout: float = Field(0.5, ge=0, lt=1, description="of hidden units")


class OCRData(Section):
    """What words are made of; see `recipes.ocr.words`."""

    letters: str | None = Field(
        None, description="Chars74k: a folder, archive or .npz; drawn from fonts if not given"
    )
    backgrounds: str | None = Field(None, description="a folder of photographs; scikit-learn's if not given")
    words: int = Field(50, ge=2, description="how many different words there are")
    dev: int = Field(2000, ge=1, description="words to choose by")
    test: int = Field(2000, ge=1, description="words to report on")
    seed: int = Field(0, ge=0, description="of the words and their images")


class StudySettings(Section):
    """Four GSPENs, with Frank-Wolfe or mirror descent, with or without entropy."""

    max_steps: tuple[Count, ...] = Field((3, 10, 30), description="none skips the study")
    max_updates: int = Field(60, ge=1, description="of each training")
    seeds: tuple[Seed, ...] = Field((1,), description="one training for each")


class OCRRecipe(Section):
    """Five systems on words of five letters.

    Example:
        >>> OCRRecipe(task="ocr", alphas=(0.5,), sizes=(1000,)).seeds
        (1, 2, 3)
    """

    task: Literal["ocr"]
    description: str = Field("", description="what it is, for people")
    data: OCRData = OCRData()
    alphas: tuple[Share, ...] = Field((0.3, 0.5, 0.7), min_length=1, description="weights of the background")
    sizes: tuple[Count, ...] = Field(
        (200, 1000, 10_000), min_length=1, description="numbers of training words"
    )
    alpha: float = Field(0.5, ge=0, le=1, description="with which sizes are compared")
    size: int = Field(1000, ge=1, description="with which alphas are compared")
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1, description="one training for each")
    graph: GraphInference = GraphInference()
    systems: tuple[Literal["spen", "nlstruct", "gspen"], ...] = Field(
        ("spen", "nlstruct", "gspen"), description="which of them are trained besides Unary"
    )
    unary: UnarySettings = UnarySettings()
    struct: PairSettings = PairSettings()
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
