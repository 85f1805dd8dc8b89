"""The messages of the server, from which FastAPI generates the OpenAPI description."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gspen_ner.corpora.rows import RowSentence
from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.predictions import Prediction

MOST_CHARACTERS = 20_000
MOST_LABELLINGS = 20


def _as_integer(number: object) -> object:
    """Convert floats such as 3.0 to integers: JSON Schema accepts them as integers, pydantic does not."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class TagRequest(BaseModel):
    """A text to tag."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(
        max_length=MOST_CHARACTERS,
        description="Plain text; a blank line starts a new document.",
        examples=["Ms. Anna Halden spoke in Graz. Halden left."],
    )
    k_best: Annotated[int, BeforeValidator(_as_integer)] = Field(
        default=0,
        ge=0,
        le=MOST_LABELLINGS,
        description="Number of best labellings to return for each sentence.",
    )


class Entity(BaseModel):
    """An entity; start and end are character positions in the text."""

    start: int
    end: int
    type: str
    text: str


class ScoredEntity(Entity):
    """An entity with the confidence in it."""

    confidence: float = Field(ge=0, le=1)


class PredictedEntity(ScoredEntity):
    """A predicted entity, and whether the global term added it."""

    changed: bool


class Labelling(BaseModel):
    """One of the best labellings of a sentence."""

    probability: float = Field(ge=0, le=1)
    entities: list[Entity]


class Sentence(BaseModel):
    """A sentence of the text, and its predicted entities."""

    document: int
    start: int
    end: int
    entities: list[PredictedEntity]
    gone: list[ScoredEntity] = Field(description="Entities of the base model that the global term removed.")
    k_best: list[Labelling]


class TagResponse(BaseModel):
    """The sentences of the text, in order."""

    sentences: list[Sentence]


class Health(BaseModel):
    """Description of the served model."""

    model: str
    system: str = Field(description="unary, struct, spen or gspen; spen and gspen have a global term.")
    types: list[str]


class Problem(BaseModel):
    """The reason why a request was not answered."""

    detail: str


def answer(text: str, sentence: RowSentence, prediction: Prediction, k_best: int) -> Sentence:
    """Return the answer for a sentence, with character positions in the text."""
    assert sentence.starts is not None
    base = {entity.span for entity in prediction.base_entities}
    full = {entity.span for entity in prediction.entities}

    def located(span: Span) -> dict:
        entity = sentence.entity(text, ScoredSpan(span, 0.0))
        return {name: entity[name] for name in Entity.model_fields}  # type: ignore[literal-required]

    def scored(entity: ScoredSpan) -> dict:
        return located(entity.span) | {"confidence": _clipped(entity.probability)}

    return Sentence(
        document=sentence.document,
        start=sentence.starts[0],
        end=sentence.starts[-1] + len(sentence.tokens[-1]),
        entities=[PredictedEntity(**scored(e), changed=e.span not in base) for e in prediction.entities],
        gone=[ScoredEntity(**scored(e)) for e in prediction.base_entities if e.span not in full],
        k_best=[
            Labelling(probability=_clipped(p), entities=[Entity(**located(span)) for span in spans])
            for spans, p in prediction.k_best[:k_best]
        ],
    )


def _clipped(probability: float) -> float:
    """Return a probability in [0, 1], which rounding errors may exceed, with six decimals."""
    return round(min(max(probability, 0.0), 1.0), 6)
