"""The command of a study, in this process."""

import json
import logging
from pathlib import Path

from typer.testing import CliRunner

from gspen_ner.recipe import load_settings
from recipes.studies import systems as study_systems

RECIPES = Path(__file__).parents[2] / "recipes"
_RUNNER = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


def run_command(app, *arguments):
    """Run `python -m recipes.STUDY` with arguments."""
    result = _RUNNER.invoke(app, [str(argument) for argument in arguments])
    for package in ("gspen_ner", "recipes"):  # their log files would be closed with the process
        logging.getLogger(package).handlers.clear()
    return result


def load_study(settings, file, overrides=()):
    """Read the recipe of a study: one of the repository, such as "ocr/ocr.yaml", or any file."""
    return load_settings(RECIPES / file, settings, overrides)


def results_of(folder):
    """Return the results that a run has written."""
    return json.loads((folder / "results.json").read_text())


def train_study(app, recipe, folder):
    """Run the recipe of a study, and return its folder and its output."""
    result = run_command(app, recipe, "--output", folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


def assert_not_trained_again(app, recipe, folder, monkeypatch):
    """Resume a run that is there, which must neither train nor change its results."""
    monkeypatch.setattr(study_systems, "fit", None)
    before = results_of(folder)
    result = run_command(app, recipe, "--output", folder, "--resume")
    assert result.exit_code == 0, result.output
    assert results_of(folder) == before
