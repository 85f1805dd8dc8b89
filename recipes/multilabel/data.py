"""What multilabel data is: rows of features, zero or one each, and any number of labels for each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor


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

    def with_dev_learned(self) -> MultilabelData:
        """The same with the dev rows among the training rows."""
        features = torch.cat([self.train.features, self.dev.features])
        labels = torch.cat([self.train.labels, self.dev.labels])
        return replace(self, train=MultilabelSplit(features, labels))
