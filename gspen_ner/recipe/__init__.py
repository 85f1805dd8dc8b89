"""Recipes: everything that defines an experiment, as a YAML file that is checked when it is read."""

from gspen_ner.components import Section
from gspen_ner.recipe.flair import FlairRecipe, FlairTraining
from gspen_ner.recipe.loading import AnyRecipe, expand, find_recipe, load_recipe, load_settings, recipe_names
from gspen_ner.recipe.schema import (
    Experiment,
    Inference,
    Recipe,
    TermTraining,
    TrainedHere,
    Training,
    TransformerRecipe,
)

__all__ = [
    "AnyRecipe",
    "Experiment",
    "FlairRecipe",
    "FlairTraining",
    "Inference",
    "Recipe",
    "Section",
    "TermTraining",
    "TrainedHere",
    "Training",
    "TransformerRecipe",
    "expand",
    "find_recipe",
    "load_recipe",
    "load_settings",
    "recipe_names",
]
