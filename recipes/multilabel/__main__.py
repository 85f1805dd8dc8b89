"""`python -m recipes.multilabel`: the paper's five systems on Bibtex and Bookmarks."""

from recipes.multilabel.run import MultilabelRun
from recipes.multilabel.settings import MultilabelRecipe
from recipes.studies.command import run_study

run_study("recipes.multilabel", MultilabelRecipe, MultilabelRun, ["bibtex", "bookmarks"])
