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
from recipes.ocr.report import draw_pictures, ocr_tables
from recipes.ocr.samples import draw_samples
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.systems import OCRResult, OCRSystems
from recipes.ocr.words import choose_words, make_ocr_data
from recipes.studies.command import Study
from recipes.studies.data import StudyData


class OCRStudy(Study):
    """The OCR study in its folder."""

    def __init__(self, recipe: OCRRecipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        source = recipe.data
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

    def data(self, alpha: float) -> StudyData:
        """Return words with one weight of the background."""
        source = self.recipe.data
        sizes = (max(self.recipe.sizes), source.dev, source.test)
        return make_ocr_data(self.letters, self.backgrounds, alpha, sizes, source.seed, self.words)

    def systems(self, data: StudyData, alpha: float, size: int, seed: int) -> OCRSystems:
        """Return the systems of one alpha, training size and seed."""
        folder = self.folder / f"alpha-{alpha:g}" / f"size-{size}" / f"seed-{seed}"
        return OCRSystems(self.recipe, data, alpha, size, seed, folder)

    def results(self) -> Iterator[OCRResult]:
        recipe = self.recipe
        for alpha in recipe.alphas:
            data = self.data(alpha)
            for size in recipe.sizes if alpha == recipe.alpha else (recipe.size,):
                for seed in recipe.seeds:
                    yield from self.systems(data, alpha, size, seed).results()
        if recipe.study.max_steps:
            data = self.data(recipe.alpha)
            for seed in recipe.study.seeds:
                yield from self._inference_study(self.systems(data, recipe.alpha, recipe.size, seed))

    def _inference_study(self, systems: OCRSystems) -> Iterator[OCRResult]:
        """Train a GSPEN for each case of the study of inference."""
        for name, base, inference in study_cases(self.recipe.study.max_steps, self.recipe.gspen.inference):
            changes = {"inference": inference, "max_updates": self.recipe.study.max_updates}
            systems.with_term(name, self.recipe.gspen.model_copy(update=changes), getattr(systems, base))
            yield systems.result(name)

    def report(self, results: Sequence[OCRResult], figures: Path) -> Iterable[Table]:
        samples = {alpha: self.data(alpha).test for alpha in self.recipe.alphas}
        draw_samples(samples, figures / "samples", rows=min(3, self.recipe.data.test))
        draw_pictures(self.recipe, results, figures)
        return ocr_tables(self.recipe, results)
