"""Explanations of errors in recipes: pydantic's errors in plain words, each with the entry's name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, section: type[BaseModel]) -> Iterator[str]:
    """Yield a line for each error in a section; for an unknown key, with the most similar known one."""
    known = sorted(set(_keys(section)))
    for entry in error.errors():
        path = ".".join(_path(entry["loc"], section))
        if entry["type"] == "extra_forbidden":
            plain = ".".join(key for key in path.split(".") if not key.isdigit())
            near = difflib.get_close_matches(plain, known, 1, 0.5)
            other = bool(near) and near[0] != plain  # equal: a key of another component
            yield f"{path}: unknown key" + (f"; did you mean {near[0]}?" if other else "")
        elif entry["type"] == "missing":
            yield f"{path}: missing"
        elif entry["type"] == "union_tag_not_found":
            yield f"{path}.name: missing"
        elif entry["type"] == "union_tag_invalid":
            yield f"{path}: unknown name {entry['ctx']['tag']!r}; expected {entry['ctx']['expected_tags']}"
        else:
            where = f"{path}: " if path else ""
            message = entry["msg"].removeprefix("Value error, ")
            got = f", got {entry['input']!r:.300}" if entry["type"] != "value_error" else ""
            yield f"{where}{message}{got}"


def _path(keys: Sequence[str | int], annotation: Any) -> Iterator[str]:
    """Yield the keys of an entry, without the names of components that pydantic inserts after terms.0."""
    for key in keys:
        components = _components(annotation)
        if key in components:
            annotation = components[key]
        else:
            yield str(key)
            annotation = _annotation(annotation, key)


def _components(annotation: Any) -> dict[str | int, Any]:
    """Return the sections that an entry may have, by the names that choose among them."""
    if get_origin(annotation) is Annotated:
        return _components(get_args(annotation)[0])
    if get_origin(annotation) not in (Union, UnionType):
        return {}
    members = get_args(annotation)
    sections = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
    return {name: part for part in sections for name in get_args(part.model_fields["name"].annotation)}


def _annotation(annotation: Any, key: str | int) -> Any:
    """Return the annotation of an entry, given that of the section or list that contains it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and key in annotation.model_fields:
        return annotation.model_fields[str(key)].annotation
    return get_args(annotation)[0] if get_origin(annotation) is tuple else None


def _keys(annotation: Any, prefix: str = "") -> Iterator[str]:
    """Yield all keys that a recipe may have, with dots."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield prefix + name
            yield from _keys(field.annotation, f"{prefix}{name}.")
    elif get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        for part in get_args(annotation):
            yield from _keys(part, prefix)
