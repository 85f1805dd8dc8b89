"""All cells of the OCR experiment: alphas, training sizes and seeds, and the study of inference.

run folder      recipe.yaml  log.txt  results.json
                alpha-A/size-N/seed-S/SYSTEM/           see `ocr_cell`
                figures/*.png with the figures that they show beside them as *.json
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase

from rich.table import Table

from gspen_ner.recipe import expand
from recipes.ocr.backgrounds import read_backgrounds
from recipes.ocr.cell import Cell, SystemResult
from recipes.ocr.figures import draw_figures
from recipes.ocr.inference_study import study_cases
from recipes.ocr.letters import read_letters
from recipes.ocr.samples import sample_figure
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.tables import ocr_tables
from recipes.ocr.words import OCRData, choose_words, make_ocr_data
from recipes.studies.system_folder import write_results

logger = logging.getLogger(__name__)


class OCRRun:
    """One run of an OCR recipe in a folder.

    Args:
        recipe: what to do.
        folder: where; made if needed.
    """

    def __init__(self, recipe: OCRRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        data = recipe.data
        self.letters = read_letters(None if data.letters is None else expand(data.letters))
        self.backgrounds = read_backgrounds(None if data.backgrounds is None else expand(data.backgrounds))
        self.words = choose_words(self.letters.alphabet, data.words)

    def said(self) -> str:
        """What the words are made of."""
        missing = "".join(sorted(set(ascii_lowercase) - set(self.letters.alphabet)))
        without = f", without {', '.join(missing)}" if missing else ""
        return (
            f"letters: {len(self.letters.labels)} images from {self.letters.source}{without}; "
            f"{len(self.backgrounds)} photographs behind them; "
            f"{len(self.words)} words: {' '.join(self.words)}"
        )

    def data(self, alpha: float) -> OCRData:
        """The words with one weight of the background."""
        data = self.recipe.data
        sizes = (max(self.recipe.sizes), data.dev, data.test)
        return make_ocr_data(self.letters, self.backgrounds, alpha, sizes, data.seed, self.words)

    def train(self) -> list[SystemResult]:
        """Train what is not there yet; the results of everything, also as results.json."""
        results: list[SystemResult] = []
        for alpha in self.recipe.alphas:
            data = self.data(alpha)
            for size in self.recipe.sizes if alpha == self.recipe.alpha else (self.recipe.size,):
                for seed in self.recipe.seeds:
                    cell = self.cell(data, alpha, size, seed)
                    results += self._systems(cell)
        if self.recipe.study.max_steps:
            data = self.data(self.recipe.alpha)
            for seed in self.recipe.study.seeds:
                results += self._study(self.cell(data, self.recipe.alpha, self.recipe.size, seed))
        write_results(results, self.folder)
        return results

    def report(self, figures: Path) -> Sequence[Table]:
        """Train what is not there yet, draw figures, and return the tables of results."""
        samples = {alpha: self.data(alpha)["test"] for alpha in self.recipe.alphas}
        sample_figure(samples, figures / "samples.png", rows=min(3, self.recipe.data.test))
        results = self.train()
        draw_figures(self.recipe, results, figures)
        return ocr_tables(self.recipe, results)

    def cell(self, data: OCRData, alpha: float, size: int, seed: int) -> Cell:
        """The systems of one alpha, training size and seed."""
        folder = self.folder / f"alpha-{alpha:g}" / f"size-{size}" / f"seed-{seed}"
        return Cell(self.recipe, data, alpha, size, seed, folder)

    def _systems(self, cell: Cell) -> Iterator[SystemResult]:
        _ = cell.unary, cell.struct
        names = ["unary", "struct"]
        if "spen" in self.recipe.systems:
            cell.spen()
        if "gspen" in self.recipe.systems:
            cell.gspen()
        if "nlstruct" in self.recipe.systems:
            names.append("struct_without_entropy")
            cell.nlstruct()
        for name in [*names, *self.recipe.systems]:
            yield cell.result(name)

    def _study(self, cell: Cell) -> Iterator[SystemResult]:
        """All cases of the study of inference."""
        for name, base, inference in study_cases(self.recipe.study.max_steps, self.recipe.gspen.inference):
            cell.gspen(name, getattr(cell, base), inference, self.recipe.study.max_updates)
            yield cell.result(name)
