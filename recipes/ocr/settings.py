"""Recipes of the OCR study: data, the five systems, and the study of inference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section, section_of
from gspen_ner.training import TensorTraining
from recipes.ocr.letter_net import LetterNet
from recipes.studies.settings import (
    Count,
    NLStructTraining,
    ScoresRecipe,
    Seed,
    TermTraining,
    check_different,
    polytope_entry,
)

Share = Annotated[float, Field(ge=0, le=1)]


class LetterTraining(section_of(LetterNet), TensorTraining):  # type: ignore[misc]
    """Unary: an MLP over single letters."""


class WordTermTraining(TermTraining):
    """SPEN and GSPEN with the number of hidden units that is best on dev."""

    hidden: tuple[Count, ...] = Field(
        (500,), min_length=1, description="numbers of hidden units, of which the best on dev is kept"
    )


class WordNLStructTraining(NLStructTraining):
    """NLStruct on top of a Struct that was trained without entropy."""

    dev_examples: int = Field(2000, ge=1, description="number of dev words that it is judged by")


class OCRSource(Section):
    """Source of the words; see `recipes.ocr.words`."""

    letters: str | None = Field(
        None, description="folder, archive or .npz of Chars74k; by default letters are drawn with fonts"
    )
    backgrounds: str | None = Field(None, description="folder of photographs; by default scikit-learn's")
    words: int = Field(50, ge=2, description="number of different words")
    dev: int = Field(2000, ge=1, description="number of dev words")
    test: int = Field(2000, ge=1, description="number of test words")
    seed: int = Field(0, ge=0, description="seed of the words and their images")


class InferenceStudy(Section):
    """GSPENs with Frank-Wolfe or mirror descent, with or without entropy."""

    max_steps: tuple[Count, ...] = Field((3, 10, 30), description="numbers of steps; none skips the study")
    max_updates: int = Field(60, ge=1, description="number of updates of each training")
    seeds: tuple[Seed, ...] = Field((1,), description="seeds of the study")


class OCRRecipe(ScoresRecipe):
    """The five systems on words of five letters.

    Example:
        >>> OCRRecipe(task="ocr", alphas=(0.5,), sizes=(1000,)).seeds
        (1, 2, 3)
    """

    task: Literal["ocr"]
    data: OCRSource = OCRSource()
    polytope: polytope_entry({"name": "chain"}, "lengths")  # type: ignore[valid-type]
    alphas: tuple[Share, ...] = Field((0.3, 0.5, 0.7), min_length=1, description="weights of the background")
    sizes: tuple[Count, ...] = Field(
        (200, 1000, 10_000), min_length=1, description="numbers of training words"
    )
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the background at which sizes are compared")
    size: int = Field(1000, ge=1, description="number of training words at which alphas are compared")
    unary: LetterTraining = LetterTraining()
    spen: WordTermTraining = WordTermTraining()
    gspen: WordTermTraining = WordTermTraining()
    nlstruct: WordNLStructTraining = WordNLStructTraining()
    study: InferenceStudy = InferenceStudy()

    @model_validator(mode="after")
    def _check_cells(self) -> OCRRecipe:
        if self.alpha not in self.alphas or self.size not in self.sizes:
            raise ValueError(
                f"alpha and size must be among alphas and sizes, got {self.alpha} and {self.size} for "
                f"{list(self.alphas)} and {list(self.sizes)}"
            )
        for name in ("alphas", "sizes"):
            check_different(name, getattr(self, name))
        return self
