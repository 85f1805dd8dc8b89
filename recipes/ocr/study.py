"""The OCR study: all alphas, training sizes and seeds, and the study of inference.

run folder      alpha-A/size-N/seed-S/SYSTEM/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase

from rich.table import Table

from gspen_ner.recipe import expand
from recipes.ocr.backgrounds import read_backgrounds
from recipes.ocr.inference_study import study_cases
from recipes.ocr.letters import read_letters
from recipes.ocr.report import draw_pictures, draw_samples, ocr_tables
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.systems import OCRResult, OCRSystems
from recipes.ocr.words import choose_words, make_ocr_data
from recipes.studies.command import Study
from recipes.studies.data import StudyData


class OCRStudy(Study):
    """The OCR study in its folder."""

    settings = OCRRecipe

    def read_data(self) -> None:
        source = self.recipe.data
        self.letters = read_letters(source.letters and expand(source.letters))
        self.backgrounds = read_backgrounds(source.backgrounds and expand(source.backgrounds))
        self.words = choose_words(self.letters.alphabet, source.words)

    def describe_data(self) -> str:
        missing = ", ".join(sorted(set(ascii_lowercase) - set(self.letters.alphabet)))
        without = f", without {missing}" if missing else ""
        return (
            f"letters: {len(self.letters.labels)} images from {self.letters.source}{without}; "
            f"{len(self.backgrounds)} photographs behind them; "
            f"{len(self.words)} words: {' '.join(self.words)}"
        )

    def make_data(self, alpha: float) -> StudyData:
        """Return words with one weight of the background."""
        source = self.recipe.data
        sizes = (max(self.recipe.sizes), source.dev, source.test)
        return make_ocr_data(self.letters, self.backgrounds, alpha, sizes, source.seed, self.words)

    def cell(self, data: StudyData, alpha: float, size: int, seed: int) -> OCRSystems:
        """Return the systems of one alpha, training size and seed."""
        folder = self.folder / f"alpha-{alpha:g}" / f"size-{size}" / f"seed-{seed}"
        return OCRSystems(self.recipe, data, alpha, size, seed, folder)

    def systems(self, seed: int) -> OCRSystems:
        """Return the systems of a seed at the recipe's alpha and size."""
        alpha = self.recipe.alpha
        return self.cell(self.make_data(alpha), alpha, self.recipe.size, seed)

    def results(self) -> Iterator[OCRResult]:
        recipe = self.recipe
        for alpha in recipe.alphas:
            data = self.make_data(alpha)
            for size in recipe.sizes if alpha == recipe.alpha else (recipe.size,):
                for seed in recipe.seeds:
                    yield from self.cell(data, alpha, size, seed).results()
        for seed in recipe.study.seeds if recipe.study.max_steps else ():
            systems = self.systems(seed)
            for name, base, inference in study_cases(recipe.study.max_steps, recipe.gspen.inference):
                changes = {"inference": inference, "max_updates": recipe.study.max_updates}
                systems.with_term(name, recipe.gspen.model_copy(update=changes), getattr(systems, base))
                yield systems.result(name)

    def report(self, results: Sequence[OCRResult], figures: Path) -> Iterable[Table]:
        samples = {alpha: self.make_data(alpha).test for alpha in self.recipe.alphas}
        draw_samples(samples, figures / "samples", rows=min(3, self.recipe.data.test))
        draw_pictures(self.recipe, results, figures)
        return ocr_tables(self.recipe, results)
