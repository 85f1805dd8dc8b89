"""Disks that are full or cannot be written: an error in a line, and what was there before is there still."""

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from gspen_ner.hosts.huggingface.trainer import StageTrainer, last_checkpoint
from gspen_ner.recipe import load_recipe
from tests.tiny import content_of, gspen_ner, metrics_of, results_of, train, write_recipe

CHANGES = {"base_training": {"epochs": 3, "average": 0.5}, "system": "struct", "terms": []}


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own: a function that mounts it, of a size."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if (
            shutil.which("mount") is None
            or subprocess.run(command, capture_output=True, check=False).returncode
        ):
            pytest.skip("only root can mount a disk")
        mounted.append(folder)
        return folder

    yield mount
    for _ in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def said_in_a_line(result, message):
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1, result.output
    lines = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in result.output


def test_a_full_disk_ends_training_and_the_rest_is_done_later(disk, tmp_path):
    unbroken = train(tmp_path / "unbroken", **CHANGES)
    model = sum(map(len, content_of(unbroken / "model").values()))
    recipe = write_recipe(tmp_path / "recipe.yaml", **CHANGES)
    room = disk(f"size={8 * model}")  # one model and checkpoint are 5 models large, two are 10
    said_in_a_line(gspen_ner("train", recipe, "--output", room / "run"), "cannot be written")
    checkpoints = room / "run" / "base" / "checkpoints"
    assert last_checkpoint(checkpoints, averaged=True) is not None
    subprocess.run(["mount", "-o", f"remount,size={40 * model}", str(room)], check=True)
    assert gspen_ner("train", recipe, "--output", room / "run", "--resume").exit_code == 0
    assert results_of(room / "run") == results_of(unbroken)
    assert metrics_of(room / "run") == metrics_of(unbroken)


def test_a_full_disk_leaves_the_old_output(trained, disk, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Ms. Anna Halden left Graz.\n" * 2000)
    room = disk("size=16k")
    (room / "out.jsonl").write_text("old")
    result = gspen_ner("predict", trained, text, "--output", room / "out.jsonl")
    said_in_a_line(result, "out.jsonl: cannot be written: No space left on device")
    assert content_of(room) == {Path("out.jsonl"): b"old"}


def test_a_disk_that_cannot_be_written(trained, disk, tmp_path):
    room = disk("ro,size=1m")
    recipe = write_recipe(tmp_path / "recipe.yaml", **CHANGES)
    said_in_a_line(gspen_ner("train", recipe, "--output", room / "run"), "run: Read-only file system")
    result = gspen_ner("predict", trained, "-", "--output", room / "out.conll", text="Anna left.")
    said_in_a_line(result, "out.conll: cannot be written: Read-only file system")


@pytest.mark.parametrize("method", ["_save_optimizer_and_scheduler", "_save"])
def test_an_error_while_a_checkpoint_is_written(method, tmp_path, monkeypatch):
    """Libraries say that a disk is full in their own ways."""
    original, calls = getattr(StageTrainer, method), []

    def full(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("unexpected pos 64 vs 0")
        return original(*args, **kwargs)

    recipe = write_recipe(tmp_path / "recipe.yaml", **CHANGES)
    monkeypatch.setattr(StageTrainer, method, full)
    said_in_a_line(gspen_ner("train", recipe, "--output", tmp_path / "run"), "checkpoints: cannot be written")
    assert last_checkpoint(tmp_path / "run" / "base" / "checkpoints", averaged=True) is not None


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    recipe = write_recipe(tmp_path / "recipe.yaml", **CHANGES | {"base_training": {"epochs": 1}})
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text(load_recipe(recipe).as_yaml())
    (run / "log.txt").symlink_to("/dev/full")
    result = gspen_ner("train", recipe, "--output", run, "--resume")
    assert result.exit_code == 0, result.output
    assert "Logging error" not in result.output
    assert errno.errorcode[errno.ENOSPC] not in result.output
