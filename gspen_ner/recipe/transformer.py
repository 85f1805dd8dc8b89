"""What a recipe with a transformer may say besides."""

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

    encoder: str = Field(description="a folder, or a name on the hub")
    start: Literal["encoder", "classifier"] = Field(
        "encoder", description="what is taken over: the encoder, or a token classifier as a whole"
    )
    scheme: Literal["BIO", "BIOES"] = Field("BIOES", description="of the chain's labels")
    window: int | None = Field(
        None, ge=8, description="pieces read at once; the encoder's limit if not given"
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
