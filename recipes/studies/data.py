"""The data of a study: examples in three splits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from gspen_ner.training import Examples

SPLITS = ("train", "dev", "test")


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
