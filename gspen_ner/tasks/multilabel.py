"""Multilabel classification: Bibtex and Bookmarks as Mulan publishes them, and generated data like them.

bibtex-train.arff, bibtex-test.arff, bibtex.xml                             read_bibtex
bookmarks-train.arff, -dev.arff (or -valid.arff), -test.arff, bookmarks.xml  read_bookmarks
bookmarks.arff, bookmarks.xml                                                read_bookmarks

Each table may also be compressed, with .gz after its name. The XML file says which columns are labels; all
others are features. An example is a row of features, zero or one each, and any number of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, Shaped, UInt8
from torch import Tensor

from gspen_ner.tasks.arff import BinaryTable, read_binary_arff, read_label_names

BOOKMARKS_ROWS = (48_000, 12_000, 27_856)
"""How many of the rows of bookmarks.arff are for training, validation and testing, in this order."""

_CHUNK = 1_000  # rows that are generated at a time


@dataclass(frozen=True, eq=False)
class MultilabelSplit:
    """Examples of one split.

    Attributes:
        features: zero or one.
        labels: one for each label that an example has, else zero.
    """

    features: UInt8[Tensor, "examples features"]
    labels: Int64[Tensor, "examples labels"]


@dataclass(frozen=True, eq=False)
class MultilabelData:
    """The splits of a data set.

    Attributes:
        train: what to learn from.
        dev: what to choose settings and thresholds on.
        test: what to report on.
        names: of the labels.
        source: where the data comes from, for people to read.
    """

    train: MultilabelSplit
    dev: MultilabelSplit
    test: MultilabelSplit
    names: tuple[str, ...]
    source: str


def _data(splits: Sequence[MultilabelSplit], names: tuple[str, ...], source: str) -> MultilabelData:
    train, dev, test = splits
    return MultilabelData(train, dev, test, names, source)


# Files


def read_bibtex(folder: str | Path, seed: int = 0) -> MultilabelData:
    """Read Bibtex: the published test rows, and training rows of which a quarter become dev.

    Args:
        folder: where the files are; see this module's header for their names.
        seed: which quarter. Both parts keep the order of the file.

    Raises:
        ValueError: a file is missing, damaged or does not go with the others.
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
    parts = [MultilabelSplit(train.features[chosen], train.labels[chosen]) for chosen in (rest, dev)]
    return _data([*parts, test], names, str(folder))


def read_bookmarks(folder: str | Path) -> MultilabelData:
    """Read Bookmarks, from a file for each split or from the one file that Mulan publishes.

    That file is cut in its order into `BOOKMARKS_ROWS`, or in this proportion if it has more or fewer rows.
    If the folder has both, the files of splits are read.

    Args:
        folder: where the files are; see this module's header for their names.

    Raises:
        ValueError: a file is missing, damaged or does not go with the others.
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
    return _data(splits, names, str(folder))


def _exists(folder: Path, name: str) -> bool:
    return any((folder / f"{name}.arff{ending}").exists() for ending in ("", ".gz"))


def _find(folder: Path, *names: str) -> Path:
    """The first of the named tables that there is."""
    files = [folder / f"{name}.arff{ending}" for name in names for ending in ("", ".gz")]
    for file in files:
        if file.exists():
            return file
    raise ValueError(f"{folder}: expected one of {', '.join(file.name for file in files)}, found none")


def _read_splits(files: Sequence[Path], labels: tuple[str, ...]) -> list[MultilabelSplit]:
    """Tables of the same columns, those of the labels in the order given."""
    splits: list[MultilabelSplit] = []
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
    for number, (expected, found) in enumerate(zip(names, others, strict=False)):
        if expected != found:
            return f"of which number {number} is {expected!r}, got {found!r}"
    return f"which are {len(names)}, got {len(others)}"


def _split(file: Path, table: BinaryTable, labels: tuple[str, ...]) -> MultilabelSplit:
    place = {name: number for number, name in enumerate(table.names)}
    missing = [name for name in labels if name not in place]
    if missing:
        raise ValueError(
            f"{file}: expected the {len(labels)} labels of the XML file among the attributes, "
            f"{len(missing)} are missing: {', '.join(missing[:5])}"
        )
    columns = [place[name] for name in labels]
    others = np.delete(np.arange(len(place)), columns)
    if not len(others):
        raise ValueError(f"{file}: expected features beside the {len(labels)} labels, got none")
    return MultilabelSplit(
        torch.from_numpy(table.values[:, others]),
        torch.from_numpy(table.values[:, columns].astype(np.int64)),
    )


def _cut(file: Path, whole: MultilabelSplit) -> list[MultilabelSplit]:
    """One table as training, validation and test rows."""
    rows, total = len(whole.labels), sum(BOOKMARKS_ROWS)
    train, dev = (rows * part // total for part in BOOKMARKS_ROWS[:2])
    if not train or not dev:
        raise ValueError(f"{file}: expected enough rows to cut into train, dev and test, got {rows}")
    sizes = [train, dev, rows - train - dev]
    parts = zip(whole.features.split(sizes), whole.labels.split(sizes), strict=True)
    return [MultilabelSplit(features, labels) for features, labels in parts]


# Generated


def generate_multilabel(
    rows: tuple[int, int, int], features: int = 300, labels: int = 30, seed: int = 0
) -> MultilabelData:
    """Make data that looks like Bibtex or Bookmarks: sparse features, and labels that go together.

    Each example has a topic, and one to three labels of that topic. Label 0 goes with all topics, with some
    far more often, and is the most frequent by far. A label makes features of its own likely, and features
    that it shares with its topic; all others are noise. So labels can be learned, and better together.

    Args:
        rows: how many examples train, dev and test have.
        features: how many; Bookmarks has 2,150.
        labels: how many, 3 or more; Bookmarks has 208.
        seed: equal seeds and widths give equal data; fewer rows are the first of more.

    Example:
        >>> data = generate_multilabel((40, 10, 10), features=50, labels=12)
        >>> data.train.features.shape, data.dev.labels.shape, data.names[:2]
        (torch.Size([40, 50]), torch.Size([10, 12]), ('label 0', 'label 1'))
    """
    if len(rows) != 3 or min(rows) < 1:
        raise ValueError(f"expected positive numbers of rows of train, dev and test, got {rows}")
    if features < 1 or labels < 3:
        raise ValueError(f"expected 1 feature and 3 labels or more, got {features} and {labels}")
    world = _world(features, labels, np.random.default_rng((seed, len(rows))))
    splits = [_generate(world, count, (seed, number)) for number, count in enumerate(rows)]
    names = tuple(f"label {number}" for number in range(labels))
    return _data(splits, names, f"generated, seed {seed}")


@dataclass(frozen=True, eq=False)
class _World:
    """What generated examples are drawn from.

    Attributes:
        topic: of each label; label 0 has none, -1.
        topic_rate: how often each topic is drawn.
        common_rate: how often label 0 goes with each topic.
        appeal: logarithm of how often a label is drawn within its topic.
        absent: logarithm of how often a feature is zero without any label.
        effect: what a label adds to that.
    """

    topic: Int64[np.ndarray, " labels"]
    topic_rate: Float64[np.ndarray, " topics"]
    common_rate: Float64[np.ndarray, " topics"]
    appeal: Float64[np.ndarray, " labels"]
    absent: Float32[np.ndarray, " features"]
    effect: Float32[np.ndarray, "labels features"]


def _world(features: int, labels: int, random: np.random.Generator) -> _World:
    topics = max(1, (labels - 1) // 5)
    topic = np.arange(-1, labels - 1) % topics
    topic[0] = -1
    rate = 1 / np.arange(3, topics + 3) ** 0.7
    own, shared = max(2, features // 60), max(1, features // 100)
    shared_features = random.integers(features, size=(topics, shared))
    effect = np.zeros((labels, features), dtype=np.float32)
    for label in range(labels):
        effect[label, random.integers(features, size=own)] = np.log(1 - 0.4)
        if label:
            effect[label, shared_features[topic[label]]] = np.log(1 - 0.3)
    noise = random.permutation(0.5 / np.arange(1, features + 1) ** 0.6 + 0.01)  # words: few are frequent
    return _World(
        topic,
        rate / rate.sum(),
        np.resize([0.9, 0.3, 0.6], topics),
        -0.5 * np.log1p(np.arange(labels) // topics),
        np.log1p(-noise).astype(np.float32),
        effect,
    )


def _generate(world: _World, count: int, seed: tuple[int, int]) -> MultilabelSplit:
    features = torch.empty((count, len(world.absent)), dtype=torch.uint8)
    labels = torch.empty((count, len(world.topic)), dtype=torch.int64)
    label_draws, feature_draws = (np.random.default_rng((*seed, stream)) for stream in range(2))
    for start in range(0, count, _CHUNK):
        kept = min(_CHUNK, count - start)  # whole chunks are drawn, so that rows never depend on their number
        chosen = _draw_labels(world, label_draws.random((_CHUNK, 3 + len(world.topic))))
        absent = np.exp(world.absent + chosen.astype(np.float32) @ world.effect)
        present = feature_draws.random(absent.shape, dtype=np.float32) >= absent
        features[start : start + kept] = torch.from_numpy(present[:kept])
        labels[start : start + kept] = torch.from_numpy(chosen[:kept])
    return MultilabelSplit(features, labels)


def _draw_labels(
    world: _World, draws: Float64[np.ndarray, "examples draws"]
) -> Shaped[np.ndarray, "examples labels"]:
    """Which labels examples have: the most appealing ones of a topic, by chance, and label 0."""
    topics = np.searchsorted(world.topic_rate.cumsum()[:-1], draws[:, 0], side="right")
    wanted = 1 + (draws[:, 1] < 0.65).astype(int) + (draws[:, 1] < 0.25)
    keys = world.appeal - np.log(-np.log(np.maximum(draws[:, 3:], 1e-300)))
    keys[world.topic != topics[:, None]] = -np.inf
    cut = -np.sort(-keys, axis=1)[np.arange(len(keys)), wanted - 1]
    chosen = (keys >= cut[:, None]) & (keys > -np.inf)
    chosen[:, 0] = draws[:, 2] < world.common_rate[topics]
    return chosen


# Scores


def example_f1(
    probabilities: Shaped[Tensor, "examples labels"],
    labels: Shaped[Tensor, "examples labels"],
    threshold: float = 0.5,
) -> float:
    """The F1 of each example's labels, averaged; an example without labels counts 1 if none are predicted.

    Args:
        probabilities: of each label, or predictions, zero or one.
        labels: zero or one.
        threshold: labels of a probability above it are predicted.

    Example:
        >>> gold = torch.tensor([[1, 1, 0], [0, 0, 0]])
        >>> example_f1(torch.tensor([[0.9, 0.2, 0.7], [0.1, 0.1, 0.3]]), gold, 0.5)
        0.75
    """
    _check(probabilities, labels)
    predicted, gold = probabilities.double() > threshold, labels.bool()
    return _f1((predicted & gold).sum(1), predicted.sum(1), gold.sum(1)).mean().item()


def best_threshold(
    probabilities: Shaped[Tensor, "examples labels"], labels: Shaped[Tensor, "examples labels"]
) -> tuple[float, float]:
    """The threshold of the highest `example_f1`, and that F1; the lowest of equally good thresholds.

    All of 0.005, 0.010, ..., 0.995 are compared, and 90 smaller ones down to 1e-9: beliefs at a low
    temperature are sharp, and most of what is doubtful lies near 0.

    Example:
        >>> best_threshold(torch.tensor([[0.9, 0.203, 0.31]]), torch.tensor([[1, 0, 1]]))
        (0.205, 1.0)
    """
    _check(probabilities, labels)
    grid = _thresholds()
    gold = labels.bool().cpu()
    reached = probabilities.detach().double().cpu().contiguous()
    passed = torch.bucketize(reached, grid)  # how many thresholds are below
    counts = torch.zeros((2, len(gold), len(grid) + 1), dtype=torch.int64)
    counts[0].scatter_add_(1, passed, torch.ones_like(passed))
    counts[1].scatter_add_(1, passed, gold.long())
    predicted, right = counts.flip(2).cumsum(2).flip(2)[:, :, 1:]  # at each threshold
    scores = _f1(right, predicted, gold.sum(1, keepdim=True)).mean(0).numpy()
    best = int(scores.argmax())
    return grid[best].item(), float(scores[best])


def _thresholds() -> Tensor:
    small = 0.005 * 10 ** (-torch.arange(90, 0, -1, dtype=torch.float64) * 6.7 / 90)
    return torch.cat([small, torch.arange(1, 200, dtype=torch.float64) / 200])


def _f1(right: Tensor, predicted: Tensor, gold: Tensor) -> Tensor:
    total = predicted + gold
    return torch.where(total == 0, 1.0, 2 * right.double() / total.clamp(min=1))


def _check(probabilities: Tensor, labels: Tensor) -> None:
    if probabilities.shape != labels.shape or labels.ndim != 2 or not labels.numel():
        raise ValueError(
            f"expected probabilities and labels as [examples, labels], "
            f"got {tuple(probabilities.shape)} and {tuple(labels.shape)}"
        )
    if probabilities.isnan().any():
        raise ValueError("expected probabilities, got NaN")
    if not ((labels == 0) | (labels == 1)).all():
        raise ValueError("expected labels that are 0 or 1, got others")


# Graphs


def most_frequent_label(labels: Shaped[Tensor, "examples labels"]) -> int:
    """The label that most examples have, the first of equally frequent ones.

    Example:
        >>> most_frequent_label(torch.tensor([[0, 1, 1], [0, 0, 1]]))
        2
    """
    if labels.ndim != 2 or not labels.numel():
        raise ValueError(f"expected labels as [examples, labels], got {tuple(labels.shape)}")
    return int(labels.sum(0).cpu().numpy().argmax())


def star_edges(centre: int, count: int) -> list[tuple[int, int]]:
    """The pairs of one of `count` variables, the centre, with each of the others.

    Example:
        >>> star_edges(1, 4)
        [(1, 0), (1, 2), (1, 3)]
    """
    if not 0 <= centre < count:
        raise ValueError(f"expected a centre from 0 to {count - 1}, got {centre}")
    return [(centre, other) for other in range(count) if other != centre]
