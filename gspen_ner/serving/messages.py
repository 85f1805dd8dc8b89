"""What the server is asked and what it answers; FastAPI makes the OpenAPI description of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gspen_ner.corpora.rows import RowSentence
from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.predictions import Prediction

MOST_CHARACTERS = 20_000
MOST_LABELLINGS = 20


def _whole(number: object) -> object:
    """To JSON Schema 3.0 is an integer, to pydantic it is none."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class TagRequest(BaseModel):
    """A text to tag."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(
        max_length=MOST_CHARACTERS,
        description="Plain text; a blank line begins a new document.",
        examples=["Ms. Anna Halden spoke in Graz. Halden left."],
    )
    k_best: Annotated[int, BeforeValidator(_whole)] = Field(
        default=0, ge=0, le=MOST_LABELLINGS, description="How many of the best labellings to give besides."
    )


class Entity(BaseModel):
    """An entity; start and end are characters of the text."""

    start: int
    end: int
    type: str
    text: str


class ScoredEntity(Entity):
    """An entity with its exact probability."""

    confidence: float = Field(ge=0, le=1)


class FoundEntity(ScoredEntity):
    """An entity, and whether it is there because of the global term."""

    changed: bool


class Labelling(BaseModel):
    """One of the best labellings of a sentence."""

    probability: float = Field(ge=0, le=1)
    entities: list[Entity]


class Sentence(BaseModel):
    """A sentence of the text, and what the model says of it."""

    document: int
    start: int
    end: int
    entities: list[FoundEntity]
    gone: list[ScoredEntity] = Field(description="What the model finds only without its global term.")
    k_best: list[Labelling]


class TagResponse(BaseModel):
    """The sentences of the text, in order."""

    sentences: list[Sentence]


class Health(BaseModel):
    """What is served."""

    model: str
    system: str = Field(description="unary, struct, spen or gspen; the last two have a global term.")
    types: list[str]


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str


def answer(text: str, sentence: RowSentence, found: Prediction, k_best: int) -> Sentence:
    """What is said of a sentence, in terms of the text."""
    assert sentence.starts is not None
    before, after = _spans(found.base_entities), _spans(found.entities)

    def place(span: Span) -> dict:
        entity = sentence.entity(text, ScoredSpan(span, 0.0))
        return {name: entity[name] for name in Entity.model_fields}  # type: ignore[literal-required]

    def scored(entity: ScoredSpan) -> dict:
        return place(entity.span) | {"confidence": _chance(entity.probability)}

    return Sentence(
        document=sentence.document,
        start=sentence.starts[0],
        end=sentence.starts[-1] + len(sentence.tokens[-1]),
        entities=[FoundEntity(**scored(e), changed=e.span not in before) for e in found.entities],
        gone=[ScoredEntity(**scored(e)) for e in found.base_entities if e.span not in after],
        k_best=[
            Labelling(probability=_chance(p), entities=[Entity(**place(span)) for span in spans])
            for spans, p in found.k_best[:k_best]
        ],
    )


def _spans(entities: Sequence[ScoredSpan]) -> set[Span]:
    return {entity.span for entity in entities}


def _chance(probability: float) -> float:
    """Rounding may carry a probability a little beyond its bounds."""
    return round(min(max(probability, 0.0), 1.0), 6)
