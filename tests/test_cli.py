"""The command line as a user meets it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gspen_ner import __version__
from gspen_ner.cli import app

runner = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


def test_bench_names_the_command_that_replaced_it():
    result = runner.invoke(app, ["bench", "chain", "--json", "x.json"])
    assert result.exit_code == 1
    assert "python -m recipes.bench" in result.output


@pytest.mark.parametrize(
    ("recipe", "command"),
    [
        ("ocr", "python -m recipes.ocr"),
        ("tagging", "python -m recipes.tagging"),
        ("multilabel", "python -m recipes.multilabel bibtex"),
        ("bibtex", "python -m recipes.multilabel bibtex"),
        ("bookmarks", "python -m recipes.multilabel bookmarks"),
    ],
)
def test_train_names_the_command_that_runs_a_study(recipe, command):
    result = runner.invoke(app, ["train", recipe, "--set", "seeds=[1]"])
    assert result.exit_code == 1
    (line,) = result.output.strip().splitlines()
    assert line.startswith(f"error: the recipe '{recipe}' is no longer part of the package")
    assert line.endswith(command)


def test_a_command_imports_only_its_own_module():
    code = "import sys; from gspen_ner.cli import main; main()"
    code = f"import atexit; atexit.register(lambda: print(*sorted(sys.modules))); {code}"
    output = subprocess.run(
        [sys.executable, "-c", code, "recipes", "--help"], capture_output=True, text=True
    ).stdout
    commands = {name for name in output.split() if name.startswith("gspen_ner.cli.")}
    assert commands == {"gspen_ner.cli.recipes", "gspen_ner.cli.shared"}


def test_a_mistyped_command_is_corrected():
    result = runner.invoke(app, ["trian"])
    assert result.exit_code == 2
    assert "Did you mean 'train'" in result.output


def test_version_of_the_installed_command():
    process = subprocess.run(
        [sys.executable, "-m", "gspen_ner.cli", "--version"], capture_output=True, text=True
    )
    assert process.stdout == f"gspen-ner {__version__}\n"
