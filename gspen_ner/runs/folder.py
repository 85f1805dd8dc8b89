"""The folder of a run: opening it for a recipe, and its log."""

from __future__ import annotations

import logging
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from gspen_ner.files import write_whole
from gspen_ner.recipe import Section


def open_folder(recipe: Section, folder: Path, resume: bool) -> None:
    """Create a run's folder and write its recipe, or check that the folder is a run of this recipe.

    Raises:
        ValueError: if the folder holds a run that is not to be resumed, or a run of another recipe.
    """
    file = folder / "recipe.yaml"
    if file.exists():
        if not resume:
            raise ValueError(
                f"{folder} holds a run already: continue it with --resume, or give another --output"
            )
        if file.read_text(encoding="utf-8") != recipe.as_yaml():
            raise ValueError(f"{folder} is a run of another recipe (see {file}): resume it with that one")
        return
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no run: give another --output")
    if resume:
        raise ValueError(f"{folder} holds no run to resume")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, recipe.as_yaml())


class _RunLog(logging.FileHandler):
    """A log file that loses lines silently on a full disk; the run reports what it cannot write itself."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


def write_log(file: Path, console: Console, package: str = "gspen_ner") -> None:
    """Send log records of a package to the console and, with times, to the run's log file."""
    log = logging.getLogger(package)
    log.setLevel(logging.INFO)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    written = _RunLog(file, encoding="utf-8")
    written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(written)
    log.addHandler(RichHandler(console=console, show_path=False, show_level=False, markup=False))
