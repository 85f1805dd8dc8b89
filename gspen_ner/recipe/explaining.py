"""What is wrong with a recipe, in lines that name the entry: pydantic's errors for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """A line for each error; unknown keys are told with the nearest one that there is.

    Args:
        error: what checking the entries raised.
        kind: what they were checked as.
    """
    known = sorted(set(_keys(kind)))
    for entry in error.errors():
        path = ".".join(_place(entry["loc"], kind))
        if entry["type"] == "extra_forbidden":
            plain = ".".join(key for key in path.split(".") if not key.isdigit())
            near = difflib.get_close_matches(plain, known, 1, 0.5)
            other = bool(near) and near[0] != plain  # the same: a key of another variant
            yield f"{path}: unknown key" + (f"; did you mean {near[0]}?" if other else "")
        elif entry["type"] == "missing":
            yield f"{path}: missing"
        else:
            where = f"{path}: " if path else ""
            message = entry["msg"].removeprefix("Value error, ")
            got = f", got {entry['input']!r:.300}" if entry["type"] != "value_error" else ""
            yield f"{where}{message}{got}"


def _place(keys: Sequence[str | int], kind: Any) -> Iterator[str]:
    """Where an error is, without the names of variants that pydantic puts in behind terms.0 and the like."""
    for key in keys:
        variants = _variants(kind)
        if key in variants:
            kind = variants[key]
        else:
            yield str(key)
            kind = _inside(kind, key)


def _variants(kind: Any) -> dict[str | int, Any]:
    """The sections that an entry may be, by the name that tells them apart; else none."""
    if get_origin(kind) is Annotated:
        return _variants(get_args(kind)[0])
    if get_origin(kind) not in (Union, UnionType):
        return {}
    sections = [part for part in get_args(kind) if isinstance(part, type) and issubclass(part, BaseModel)]
    return {name: part for part in sections for name in get_args(part.model_fields["name"].annotation)}


def _inside(kind: Any, key: str | int) -> Any:
    """What may stand in an entry under a key, or under a number in a list."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and key in kind.model_fields:
        return kind.model_fields[str(key)].annotation
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def _keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """All keys that a recipe may have, with dots."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield prefix + name
            yield from _keys(field.annotation, f"{prefix}{name}.")
    elif get_origin(kind) in (Union, UnionType, Annotated, tuple):
        for part in get_args(kind):
            yield from _keys(part, prefix)
