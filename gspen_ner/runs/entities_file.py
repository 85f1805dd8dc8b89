"""Gold and predicted entities of a split, beside the results of a run: comparing runs needs no model.

entities-SPLIT.json     gold, base and, if there is a global term, full: for each sentence [start, end, type]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gspen_ner.files import write_whole
from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import Spans
from gspen_ner.ner.predictions import Prediction


@dataclass(frozen=True)
class SplitEntities:
    """Entities of every sentence of a split.

    Args:
        gold: gold entities.
        base: entities that the base model predicts.
        full: entities that the model predicts with its global term; None if it has none.
    """

    gold: Spans
    base: Spans
    full: Spans | None

    @classmethod
    def of(
        cls, sentences: Sequence[TaggedSentence], predictions: Sequence[Prediction], has_term: bool
    ) -> SplitEntities:
        """Return the entities of sentences with gold tags and of their predictions."""
        gold = [spans_of_tags(sentence.tags, "BIO") for sentence in sentences]
        base = [[entity.span for entity in prediction.base_entities] for prediction in predictions]
        full = [[entity.span for entity in prediction.entities] for prediction in predictions]
        return cls(gold, base, full if has_term else None)

    def save(self, folder: Path, split: str) -> None:
        """Write the file of a split."""
        write_whole(_file(folder, split), json.dumps(vars(self)) + "\n")

    @classmethod
    def load(cls, folder: Path, split: str) -> SplitEntities:
        """Return the entities of a split's file.

        Raises:
            ValueError: if the file is missing or holds something else.
        """
        file = _file(folder, split)
        try:
            entities = _FILE.validate_json(file.read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{file}: no such file; was the run finished by this version?") from None
        except ValidationError as error:
            raise ValueError(f"{file}: not a file of entities ({error.errors()[0]['msg']})") from None
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
        if len({len(rows) for rows in (entities.gold, entities.base, entities.full or entities.gold)}) > 1:
            raise ValueError(f"{file}: gold and predicted entities must be of the same sentences")
        return entities


def _file(folder: Path, split: str) -> Path:
    return folder / f"entities-{split}.json"


_FILE = TypeAdapter(SplitEntities)
