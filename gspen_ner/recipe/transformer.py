"""Recipes with a pretrained transformer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gspen_ner.recipe.schema import TrainedHere


class TransformerRecipe(TrainedHere):
    """An experiment with a pretrained transformer.

    Example:
        >>> data = {"train": "newswire:40:1", "dev": "newswire:5:2"}
        >>> TransformerRecipe(encoder="bert-base-cased", system="struct", data=data).scheme
        'BIOES'
    """

    encoder: str = Field(description="folder of the transformer, or its name on the hub")
    start: Literal["encoder", "classifier"] = Field(
        "encoder", description="what the tagger starts from: the encoder, or a token classifier as a whole"
    )
    scheme: Literal["BIO", "BIOES"] = Field("BIOES", description="tagging scheme of the chain's labels")
    window: int | None = Field(
        None, ge=8, description="number of pieces that are read at once; defaults to the encoder's limit"
    )

    @model_validator(mode="after")
    def _fits_the_classifier(self) -> TransformerRecipe:
        if self.start == "classifier":
            if self.scheme != "BIOES" or self.window is not None:
                raise ValueError("start: a classifier brings scheme and window with it; leave them out")
            if not self.structured:
                raise ValueError(f"start: a classifier becomes a struct or gspen system, not {self.system}")
        return self

    @field_validator("encoder", mode="before")
    @classmethod
    def _is_named(cls, name: Any) -> Any:
        if not name:
            raise ValueError("name a folder or a model of the hub, as in --set encoder=bert-base-cased")
        return name
