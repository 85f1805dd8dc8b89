"""Helpers without any host library: weights in folders, and trainings that are killed."""

from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file


def weights_of(folder):
    return load_file(Path(folder) / "model.safetensors")


def same_weights(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class Killed(BaseException):
    """An exception that no code catches, in place of a kill."""


@contextmanager
def killed_at(owner, method, call=1):
    """End the block by an exception when a function is called for the given time."""
    original, calls = getattr(owner, method), []

    def dying(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise Killed
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, dying)
        with pytest.raises(Killed):
            yield


def content_of(folder):
    """Return the content of all files of a folder."""
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
