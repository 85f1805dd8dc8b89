"""Reading multilabel data: Bibtex and Bookmarks as Mulan publishes them.

bibtex-train.arff, bibtex-test.arff, bibtex.xml                             read_bibtex
bookmarks-train.arff, -dev.arff (or -valid.arff), -test.arff, bookmarks.xml  read_bookmarks
bookmarks.arff, bookmarks.xml                                                read_bookmarks

Each table may also be compressed, with .gz after its name. The XML file says which columns are labels; all
others are features. Features and labels are zero or one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gspen_ner.training import Examples
from recipes.multilabel.arff import BinaryTable, read_binary_arff, read_label_names
from recipes.studies.data import StudyData

BOOKMARKS_ROWS = (48_000, 12_000, 27_856)
"""Numbers of rows of bookmarks.arff for training, validation and testing, in this order."""


def read_bibtex(folder: str | Path, seed: int = 0) -> StudyData:
    """Read Bibtex: the published test rows, and training rows of which a random quarter becomes dev.

    Args:
        folder: folder of the files; see this module's header for their names.
        seed: seed of the quarter; both parts keep the order of the file.

    Raises:
        ValueError: if a file is missing, damaged or has other columns than the others.
    """
    folder = Path(folder)
    names = read_label_names(folder / "bibtex.xml")
    train, test = _read_splits([_find(folder, "bibtex-train"), _find(folder, "bibtex-test")], names)
    rows = len(train.labels)
    if rows < 2:
        raise ValueError(f"{folder}: expected 2 training rows or more to take some for dev, got {rows}")
    shuffled = np.random.default_rng(seed).permutation(rows)
    quarter = max(1, rows // 4)
    dev, rest = (torch.from_numpy(np.sort(part)) for part in (shuffled[:quarter], shuffled[quarter:]))
    return StudyData(train.select(rest), train.select(dev), test, names, str(folder))


def read_bookmarks(folder: str | Path) -> StudyData:
    """Read Bookmarks, from a file for each split or from the one file that Mulan publishes.

    The one file is cut in its order into `BOOKMARKS_ROWS`, or in this proportion if it has another number of
    rows. If the folder has both, the files of splits are read.

    Args:
        folder: folder of the files; see this module's header for their names.

    Raises:
        ValueError: if a file is missing, damaged or has other columns than the others.
    """
    folder = Path(folder)
    names = read_label_names(folder / "bookmarks.xml")
    if _exists(folder, "bookmarks") and not _exists(folder, "bookmarks-train"):
        file = _find(folder, "bookmarks")
        (whole,) = _read_splits([file], names)
        splits = _cut(file, whole)
    else:
        alternatives = [["train"], ["dev", "valid"], ["test"]]
        files = [_find(folder, *(f"bookmarks-{split}" for split in either)) for either in alternatives]
        splits = _read_splits(files, names)
    train, dev, test = splits
    return StudyData(train, dev, test, names, str(folder))


def _exists(folder: Path, name: str) -> bool:
    return any((folder / f"{name}.arff{ending}").exists() for ending in ("", ".gz"))


def _find(folder: Path, *names: str) -> Path:
    """Return the first of the named tables that exists."""
    files = [folder / f"{name}.arff{ending}" for name in names for ending in ("", ".gz")]
    for file in files:
        if file.exists():
            return file
    raise ValueError(f"{folder}: expected one of {', '.join(file.name for file in files)}, found none")


def _read_splits(files: Sequence[Path], labels: tuple[str, ...]) -> list[Examples]:
    """Return tables with the same columns; the labels are in the given order."""
    splits: list[Examples] = []
    first: tuple[str, ...] = ()
    for file in files:
        table = read_binary_arff(file)
        first = first or table.names
        if table.names != first:
            raise ValueError(
                f"{file}: expected the attributes of {files[0].name}, {_difference(first, table.names)}"
            )
        splits.append(_split(file, table, labels))
    return splits


def _difference(names: tuple[str, ...], others: tuple[str, ...]) -> str:
    for number, (expected, name) in enumerate(zip(names, others, strict=False)):
        if expected != name:
            return f"of which number {number} is {expected!r}, got {name!r}"
    return f"which are {len(names)}, got {len(others)}"


def _split(file: Path, table: BinaryTable, labels: tuple[str, ...]) -> Examples:
    number_of = {name: number for number, name in enumerate(table.names)}
    missing = [name for name in labels if name not in number_of]
    if missing:
        raise ValueError(
            f"{file}: expected the {len(labels)} labels of the XML file among the attributes, "
            f"{len(missing)} are missing: {', '.join(missing[:5])}"
        )
    columns = [number_of[name] for name in labels]
    others = np.delete(np.arange(len(number_of)), columns)
    if not len(others):
        raise ValueError(f"{file}: expected features beside the {len(labels)} labels, got none")
    return Examples(
        torch.from_numpy(table.values[:, others]),
        torch.from_numpy(table.values[:, columns].astype(np.int64)),
    )


def _cut(file: Path, whole: Examples) -> list[Examples]:
    """Cut one table into training, validation and test rows."""
    rows, total = len(whole.labels), sum(BOOKMARKS_ROWS)
    train, dev = (rows * part // total for part in BOOKMARKS_ROWS[:2])
    if not train or not dev:
        raise ValueError(f"{file}: expected enough rows to cut into train, dev and test, got {rows}")
    return [whole.select(part) for part in torch.arange(rows).split([train, dev, rows - train - dev])]
