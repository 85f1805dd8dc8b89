"""Runs of recipes: training, trials, results and their comparison."""
