"""Recipes: everything that defines an experiment, as a YAML file that is checked when it is read."""

from gspen_ner.recipe.flair import FlairRecipe, FlairTraining
from gspen_ner.recipe.loading import (
    AnyRecipe,
    GraphRecipe,
    TaggerRecipe,
    expand,
    find_recipe,
    load_recipe,
    recipe_names,
)
from gspen_ner.recipe.multilabel import MultilabelRecipe
from gspen_ner.recipe.ocr import OCRRecipe
from gspen_ner.recipe.schema import Experiment, Inference, Recipe, TermTraining, TrainedHere, Training
from gspen_ner.recipe.tagging import TaggingRecipe
from gspen_ner.recipe.transformer import TransformerRecipe

__all__ = [
    "AnyRecipe",
    "Experiment",
    "FlairRecipe",
    "FlairTraining",
    "GraphRecipe",
    "Inference",
    "MultilabelRecipe",
    "OCRRecipe",
    "Recipe",
    "TaggerRecipe",
    "TaggingRecipe",
    "TermTraining",
    "TrainedHere",
    "Training",
    "TransformerRecipe",
    "expand",
    "find_recipe",
    "load_recipe",
    "recipe_names",
]
