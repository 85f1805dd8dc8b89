"""`python -m recipes.tagging`: the paper's five systems on the tags of images."""

from recipes.studies.command import run_study
from recipes.tagging.run import TaggingRun
from recipes.tagging.settings import TaggingRecipe

run_study("recipes.tagging", TaggingRecipe, TaggingRun, ["tagging"])
