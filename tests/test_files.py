"""Writing: wherever it is killed, the old content is there, or the new, and whole."""

import itertools
import os
from pathlib import Path

import pytest

from gspen_ner.files import mend_folder, write_folder, write_whole

OLD = {"weights": "old" * 100, "config": "old"}
NEW = {"weights": "new" * 100, "other": "new"}
NEWER = {"weights": "newer"}
STEPS = ("mkdir", "rename", "replace", "unlink", "rmdir")


class KilledError(BaseException):
    """Like the end of a process: nothing that handles ordinary errors sees it."""


@pytest.fixture
def killed_before(monkeypatch):
    """Runs something that ends before its nth step on the file system; tells whether it came so far."""

    def run(number, action):
        steps = itertools.count()

        def guarded(original):
            def step(*arguments, **options):
                if next(steps) == number:
                    raise KilledError
                return original(*arguments, **options)

            return step

        with monkeypatch.context() as patch:
            for name in STEPS:
                patch.setattr(os, name, guarded(getattr(os, name)))
            try:
                action()
            except KilledError:
                return True
        return False

    return run


def filler(content):
    """Fills a folder file by file; each is a step at which it may be killed."""

    def write(folder):
        for name, text in content.items():
            (folder / name).mkdir()
            (folder / name / "text").write_text(text)

    return write


def read(folder):
    """What a folder holds, or None if there is none."""
    if not folder.exists():
        return None
    texts = {part.name: part / "text" for part in folder.iterdir()}
    return {name: text.read_text() if text.exists() else "" for name, text in texts.items()}


def emptied(folder):
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


def all_kills(killed_before, folder, action, prepare):
    """Kills an action before each of its steps in turn, and once not at all; yields the number each time."""
    for number in itertools.count():
        for path in (folder, folder.with_name("best.new"), folder.with_name("best.old")):
            emptied(path)
        prepare()
        was_killed = killed_before(number, action)
        yield number
        if not was_killed:
            return


@pytest.mark.parametrize("before", [None, OLD])
def test_a_folder_is_old_or_new_wherever_writing_is_killed(tmp_path, killed_before, before):
    folder, seen = tmp_path / "best", []

    def prepare():
        if before is not None:
            write_folder(folder, filler(before))

    for _ in all_kills(killed_before, folder, lambda: write_folder(folder, filler(NEW)), prepare):
        mend_folder(folder)
        assert read(folder) in (before, NEW)
        seen.append(read(folder))
        write_folder(folder, filler(NEWER))
        assert read(folder) == NEWER
        assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert len(seen) > 4
    assert (seen[0], seen[-1]) == (before, NEW)


@pytest.mark.parametrize("then", ["write", "mend"])
def test_a_folder_is_whole_after_two_kills_in_a_row(tmp_path, killed_before, then):
    folder = tmp_path / "best"
    contents = old, new, newer = {"part": "old"}, {"part": "new"}, {"part": "newer"}
    second = {"write": lambda: write_folder(folder, filler(newer)), "mend": lambda: mend_folder(folder)}[then]
    for first in range(8):

        def prepare(first=first):
            write_folder(folder, filler(old))
            killed_before(first, lambda: write_folder(folder, filler(new)))

        for _ in all_kills(killed_before, folder, second, prepare):
            mend_folder(folder)
            assert read(folder) in contents


def test_writing_a_folder_replaces_it_entirely(tmp_path):
    folder = tmp_path / "deep" / "best"
    write_folder(folder, filler(OLD))
    write_folder(folder, filler(NEW))
    assert read(folder) == NEW
    assert list(folder.parent.iterdir()) == [folder]


def test_a_writer_that_fails_leaves_the_old_folder(tmp_path):
    folder = tmp_path / "best"
    write_folder(folder, filler(OLD))

    def fail(new):
        filler(NEW)(new)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_folder(folder, fail)
    assert read(folder) == OLD


def test_mending_changes_nothing_that_is_sound(tmp_path):
    folder = tmp_path / "best"
    mend_folder(folder)
    assert not folder.exists()
    write_folder(folder, filler(OLD))
    mend_folder(folder)
    assert read(folder) == OLD


@pytest.mark.parametrize("before", [None, "old"])
def test_a_file_is_old_or_new_wherever_writing_is_killed(tmp_path, killed_before, before):
    file, seen = tmp_path / "results.json", []
    for number in itertools.count():
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_text(before)
        was_killed = killed_before(number, lambda: write_whole(file, "new"))
        seen.append(file.read_text() if file.exists() else None)
        if not was_killed:
            break
    assert seen == [before, "new"]
    assert list(tmp_path.iterdir()) == [file]


def test_text_that_cannot_be_written_leaves_the_old_file(tmp_path):
    file = tmp_path / "a.txt"
    write_whole(file, "old ë")
    assert file.read_bytes() == "old ë".encode()
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "n" * 100_000 + "\ud800")
    assert file.read_text(encoding="utf-8") == "old ë"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_device_stays_a_device():
    write_whole(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
