"""Atomic writing: a process killed at any moment leaves the old content or the new, never a mixture."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a text file atomically."""
    file = file.resolve()
    if file.exists() and not file.is_file():  # a pipe or a device
        file.write_text(text, encoding="utf-8")
        return
    write_file(file, lambda new: new.write_text(text, encoding="utf-8"))


def write_file(file: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with the path of a temporary file, then rename that file to `file`."""
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
    """Call `write` with the path of an empty temporary folder, then replace `folder` by it."""
    new, old = _temporary_folders(folder)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        write(new)
        mend_folder(folder)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except Exception as error:  # each library reports a full disk by an exception of its own
        mend_folder(folder)
        shutil.rmtree(new, ignore_errors=True)
        raise unwritable(folder, error) from error
    shutil.rmtree(old, ignore_errors=True)


def unwritable(path: Path, error: Exception) -> OSError:
    """Return an error that names the path that cannot be written and the reason."""
    if isinstance(error, shutil.Error):  # of copying: each file with its reason
        *_, reason = error.args[0][0]
        return OSError(f"{path}: cannot be written: {reason}")
    return OSError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def mend_folder(folder: Path) -> None:
    """Restore a folder after the process was killed inside `write_folder`."""
    _, old = _temporary_folders(folder)
    if old.exists():
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)


def _temporary_folders(folder: Path) -> tuple[Path, Path]:
    """Return where the new and the old version of a folder are kept while it is replaced."""
    return folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
