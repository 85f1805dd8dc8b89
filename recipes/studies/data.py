"""The data of a study: examples in three splits, read or generated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from gspen_ner.training import Examples

SPLITS = ("train", "dev", "test")
_CHUNK = 1_000  # rows generated at a time


@dataclass(frozen=True, eq=False)
class StudyData:
    """Examples in three splits.

    Args:
        train: examples to learn from.
        dev: examples to choose weights and settings by.
        test: examples to report on.
        names: names of the labels; of OCR, the words.
        source: where the data comes from, for people to read.
    """

    train: Examples
    dev: Examples
    test: Examples
    names: tuple[str, ...]
    source: str

    @property
    def splits(self) -> dict[str, Examples]:
        """Return the splits by name."""
        return {name: getattr(self, name) for name in SPLITS}

    def sizes(self) -> str:
        """Return the number of examples of each split in words."""
        return ", ".join(f"{len(examples):,} {name}" for name, examples in self.splits.items())

    def with_dev_in_train(self) -> StudyData:
        """Return the same data with the dev examples among the training examples too."""
        inputs, labels = (
            torch.cat([getattr(self.train, part), getattr(self.dev, part)]) for part in ("inputs", "labels")
        )
        return replace(self, train=Examples(inputs, labels))


def check_shapes(expected: str, predicted: Tensor, labels: Tensor) -> None:
    """Refuse predictions and labels that are no tables of one shape, with what was expected."""
    if predicted.shape != labels.shape or labels.ndim != 2 or not labels.numel():
        raise ValueError(f"expected {expected}, got {tuple(predicted.shape)} and {tuple(labels.shape)}")


def generate_rows(
    rows: tuple[int, int, int], features: int = 300, labels: int = 30, seed: int = 0
) -> StudyData:
    """Generate data like Bibtex or Bookmarks: sparse features, and labels that go together.

    Each example has a topic, and one to three labels of that topic. Label 0 occurs with all topics, with some
    far more often, and is the most frequent label by far. A label makes features of its own likely, and
    features that it shares with its topic; all others are noise. So labels are easier to predict together.

    Args:
        rows: numbers of examples of train, dev and test.
        features: number of features; Bookmarks has 2,150.
        labels: number of labels, 3 or more; Bookmarks has 208.
        seed: equal seeds and widths give equal data; fewer rows are the first of more rows.

    Example:
        >>> data = generate_rows((40, 10, 10), features=50, labels=12)
        >>> data.train.inputs.shape, data.dev.labels.shape, data.names[:2]
        (torch.Size([40, 50]), torch.Size([10, 12]), ('label 0', 'label 1'))
    """
    if len(rows) != 3 or min(rows) < 1:
        raise ValueError(f"expected positive numbers of rows of train, dev and test, got {rows}")
    if features < 1 or labels < 3:
        raise ValueError(f"expected 1 feature and 3 labels or more, got {features} and {labels}")
    world = _World(features, labels, np.random.default_rng((seed, len(rows))))
    train, dev, test = (world.generate(count, (seed, number)) for number, count in enumerate(rows))
    names = tuple(f"label {number}" for number in range(labels))
    return StudyData(train, dev, test, names, f"generated, seed {seed}")


class _World:
    """The distribution of generated examples."""

    def __init__(self, features: int, labels: int, random: np.random.Generator) -> None:
        topics = max(1, (labels - 1) // 5)
        self.topic = np.arange(-1, labels - 1) % topics  # of each label; -1 of label 0
        self.topic[0] = -1
        rate = 1 / np.arange(3, topics + 3) ** 0.7
        self.topic_rate = rate / rate.sum()
        self.common_rate = np.resize([0.9, 0.3, 0.6], topics)  # of label 0 given each topic
        self.appeal = -0.5 * np.log1p(np.arange(labels) // topics)  # log weight of a label within its topic
        own, shared = max(2, features // 60), max(1, features // 100)
        shared_features = random.integers(features, size=(topics, shared))
        # What each label adds to the log probability that a feature is zero.
        self.effect = np.zeros((labels, features), dtype=np.float32)
        for label in range(labels):
            self.effect[label, random.integers(features, size=own)] = np.log(1 - 0.4)
            if label:
                self.effect[label, shared_features[self.topic[label]]] = np.log(1 - 0.3)
        noise = random.permutation(0.5 / np.arange(1, features + 1) ** 0.6 + 0.01)  # few are frequent
        self.absent = np.log1p(-noise).astype(np.float32)  # that log probability without any label

    def generate(self, count: int, seed: tuple[int, int]) -> Examples:
        """Return the first examples of a seed."""
        features = torch.empty((count, len(self.absent)), dtype=torch.uint8)
        labels = torch.empty((count, len(self.topic)), dtype=torch.int64)
        label_draws, feature_draws = (np.random.default_rng((*seed, stream)) for stream in range(2))
        for start in range(0, count, _CHUNK):
            kept = min(_CHUNK, count - start)  # whole chunks are drawn: rows do not depend on count
            chosen = self._labels(label_draws.random((_CHUNK, 3 + len(self.topic))))
            absent = np.exp(self.absent + chosen.astype(np.float32) @ self.effect)
            present = feature_draws.random(absent.shape, dtype=np.float32) >= absent
            features[start : start + kept] = torch.from_numpy(present[:kept])
            labels[start : start + kept] = torch.from_numpy(chosen[:kept])
        return Examples(features, labels)

    def _labels(self, draws: Float64[np.ndarray, "rows draws"]) -> Bool[np.ndarray, "rows labels"]:
        """Draw the labels of examples: one to three of a topic, and label 0."""
        topics = np.searchsorted(self.topic_rate.cumsum()[:-1], draws[:, 0], side="right")
        wanted = 1 + (draws[:, 1] < 0.65).astype(int) + (draws[:, 1] < 0.25)
        keys = self.appeal - np.log(-np.log(np.maximum(draws[:, 3:], 1e-300)))
        keys[self.topic != topics[:, None]] = -np.inf
        cut = -np.sort(-keys, axis=1)[np.arange(len(keys)), wanted - 1]
        chosen = (keys >= cut[:, None]) & (keys > -np.inf)
        chosen[:, 0] = draws[:, 2] < self.common_rate[topics]
        return chosen
