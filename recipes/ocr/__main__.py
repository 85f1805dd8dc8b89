"""`python -m recipes.ocr`: the paper's five systems on words of letter images."""

from recipes.ocr.run import OCRRun
from recipes.ocr.settings import OCRRecipe
from recipes.studies.command import run_study

run_study("recipes.ocr", OCRRecipe, OCRRun, ["ocr"])
