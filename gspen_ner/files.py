"""Writing so that a kill at any moment leaves the old content or the new, never a part of either."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a text file at once."""
    file = file.resolve()
    if file.exists() and not file.is_file():  # a pipe or a device
        file.write_text(text, encoding="utf-8")
        return
    new = file.with_name(file.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new folder, then put it in the old one's place."""
    new, old = _beside(folder)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    write(new)
    mend_folder(folder)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def mend_folder(folder: Path) -> None:
    """Undo what a kill in the middle of `write_folder` may have left."""
    _, old = _beside(folder)
    if old.exists():
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)


def _beside(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
