"""A share of what `python -m tests.fuzz` tries."""

import pytest

from tests.fuzz.targets import make_targets
from tests.fuzz.trial import check, memory_limit

INPUTS = 2500  # of all readers together


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("targets"))


def test_broken_files_are_read_or_refused(targets, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    shares = sum(target.share for target in targets.values())
    messages = []
    with memory_limit():
        for index, (name, target) in enumerate(targets.items()):
            folder = tmp_path / str(index)
            folder.mkdir()
            for number in range(max(3, round(INPUTS * target.share / shares))):
                message = check(target, name, 1, number, folder)
                messages += [] if message is None else [f"{name} {number}: {message}"]
    assert not messages


def test_sound_files_are_read(targets, tmp_path):
    for number, target in enumerate(targets.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for content in target.valid:
            for name, other in {**target.others, target.file: content}.items():
                (folder / name).write_bytes(other)
            if target.named != "quickstart.yaml|--set" and not target.file.endswith((".mat", ".npy", ".npz")):
                target.read(folder / target.file)
