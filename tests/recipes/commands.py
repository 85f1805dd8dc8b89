"""The command of a study, in this process."""

import logging
from pathlib import Path

from typer.testing import CliRunner

from gspen_ner.recipe import load_settings

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
