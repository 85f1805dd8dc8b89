"""Writing so that a kill at any moment leaves the old content or the new, never a part of either."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a text file at once."""
    file = file.resolve()
    if file.exists() and not file.is_file():  # a pipe or a device
        file.write_text(text, encoding="utf-8")
        return
    write_file(file, lambda new: new.write_text(text, encoding="utf-8"))


def write_file(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a new file, then put it in the old one's place."""
    new = file.with_name(file.name + ".new")
    try:
        write(new)
        new.replace(file)
    except Exception as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(file, error) from error
        raise


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new folder, then put it in the old one's place."""
    new, old = _beside(folder)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        write(new)
        mend_folder(folder)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except Exception as error:  # a full disk is of another kind in each library
        mend_folder(folder)
        shutil.rmtree(new, ignore_errors=True)
        raise unwritable(folder, error) from error
    shutil.rmtree(old, ignore_errors=True)


def unwritable(path: Path, error: Exception) -> OSError:
    """What went wrong with writing, in a sentence."""
    if isinstance(error, shutil.Error):  # of copying: each file with its reason
        *_, reason = error.args[0][0]
        return OSError(f"{path}: cannot be written: {reason}")
    return OSError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


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
