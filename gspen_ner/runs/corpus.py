"""The sentences of an experiment, and the labels that its taggers have."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

from gspen_ner.labels import Labels, Scheme
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import Experiment, expand

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """The sentences of an experiment."""

    train: list[TaggedSentence]
    dev: list[TaggedSentence]
    test: list[TaggedSentence] | None
    types: tuple[str, ...]
    """Entity types of the training data."""

    @classmethod
    def read(cls, recipe: Experiment) -> Corpus:
        """Read all splits; nothing is trained on a corpus of which a part is malformed."""
        options = recipe.data.model_dump(include={"token_column", "tag_column", "scheme", "strict"})
        names = {"train": recipe.data.train, "dev": recipe.data.dev, "test": recipe.data.test}
        found = {split: read_source(expand(name), **options) for split, name in names.items() if name}
        for split, file in found.items():
            if not file.sentences:
                raise ValueError(f"data.{split}: {file.path} has no sentences")
            if file.repaired:
                logger.warning("%s: repaired the tags of %d sentences", file.path, file.repaired)
        train = _part(found["train"].sentences, recipe.data.fraction, recipe.seed)
        types = sorted({tag[2:] for sentence in train for tag in sentence.tags if tag != "O"})
        if not types:
            raise ValueError(f"data.train: {found['train'].path} has no entities to learn from")
        test = found["test"].sentences if "test" in found else None
        return cls(train, found["dev"].sentences, test, tuple(types))

    def labels(self, scheme: Scheme) -> Labels:
        """The labels of a tagger that learns from this corpus."""
        return Labels.of_types(self.types, scheme)


def _part(sentences: list[TaggedSentence], fraction: float, seed: int) -> list[TaggedSentence]:
    """Some of the documents, in their order."""
    documents = sorted({sentence.document for sentence in sentences})
    kept = set(random.Random(seed).sample(documents, max(1, round(fraction * len(documents)))))
    return [sentence for sentence in sentences if sentence.document in kept]
