"""Reads and checks recipes: YAML files, or built-in recipes by name.

A recipe may extend another (`extends: conll03_fast`), whose entries it then overrides one by one. `${NAME}`
in a path stands for an environment variable.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from gspen_ner.components import Section
from gspen_ner.recipe.explaining import explain
from gspen_ner.recipe.flair import FlairRecipe
from gspen_ner.recipe.schema import Recipe, TransformerRecipe

AnyRecipe = Recipe | TransformerRecipe | FlairRecipe
Settings = TypeVar("Settings", bound=Section)
STUDIES = {
    "ocr": "recipes.ocr",
    "tagging": "recipes.tagging",
    "multilabel": "recipes.multilabel bibtex",
    "bibtex": "recipes.multilabel bibtex",
    "bookmarks": "recipes.multilabel bookmarks",
}
"""Studies beyond NER, run by `python -m` in a clone of the repository."""
MOST_ENTRIES = 10_000


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> AnyRecipe:
    """Read a recipe and check it.

    Args:
        name: a file, or the name of a built-in recipe.
        overrides: entries such as `"base_training.epochs=5"`, values in YAML.

    Example:
        >>> load_recipe("quickstart", ["seed=7"]).seed
        7
    """
    file = find_recipe(name)
    entries = read_entries(file, overrides)
    return check_entries(file, entries, _recipe_class(file, entries))


def load_settings(file: Path, settings: type[Settings], overrides: Sequence[str] = ()) -> Settings:
    """Read a YAML file of any section, with the same overrides and the same errors as a recipe.

    Example:
        >>> import tempfile
        >>> class Walk(Section):
        ...     steps: int = 10
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "walk.yaml"
        ...     _ = file.write_text("steps: 3")
        ...     load_settings(file, Walk, ["steps=5"]).steps
        5
    """
    return check_entries(file, read_entries(file, overrides), settings)


def read_entries(file: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the entries of a YAML file, of the file that it extends, and of overrides."""
    entries = _read(file)
    for override in overrides:
        _override(entries, override)
    return entries


def check_entries(file: Path, entries: Mapping[str, Any], settings: type[Settings]) -> Settings:
    """Return checked entries, or raise a ValueError with a line for each error."""
    try:
        return settings.model_validate(entries)
    except ValidationError as error:
        raise ValueError("\n".join(f"{file.name}: {line}" for line in explain(error, settings))) from None


def _recipe_class(file: Path, entries: Mapping[str, Any]) -> type[AnyRecipe]:
    """Return the class that checks the entries of a tagger's recipe."""
    if "task" in entries:
        raise ValueError(
            f"{file.name}: task: expected a tagger's recipe, which has no task; in a clone of the "
            f"repository, run python -m recipes.{entries['task']} {file}"
        )
    if entries.get("host") == "flair":
        return FlairRecipe
    return TransformerRecipe if "encoder" in entries else Recipe


def recipe_names() -> dict[str, str]:
    """Return the built-in recipes and their descriptions.

    Example:
        >>> "quickstart" in recipe_names()
        True
    """
    return {
        file.stem: str(yaml.safe_load(file.read_text(encoding="utf-8")).get("description", ""))
        for file in sorted(_folder().glob("*.yaml"))
    }


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe, given its path or the name of a built-in one.

    Example:
        >>> find_recipe("quickstart").name
        'quickstart.yaml'
        >>> find_recipe("quikstart")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: there is no recipe 'quikstart'; did you mean 'quickstart'? Built in: ...
    """
    file = Path(name)
    if file.suffix in (".yaml", ".yml"):
        if not _is_file(file):
            raise ValueError(f"{file}: no such recipe file")
        return file
    built_in = _folder() / f"{name}.yaml"
    if name in STUDIES:
        raise ValueError(
            f"the recipe {name!r} is no longer part of the package: in a clone of the repository, run "
            f"python -m {STUDIES[str(name)]}"
        )
    if not _is_file(built_in):
        known = sorted(path.stem for path in _folder().glob("*.yaml"))
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(
            f"there is no recipe {str(name)!r}{hint} Built in: {', '.join(known)}; or give a .yaml file"
        )
    return built_in


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False


def expand(path: str) -> str:
    """Return a path whose `${NAME}` are replaced by environment variables.

    Example:
        >>> from unittest.mock import patch
        >>> with patch.dict(os.environ, {"CORPORA": "/data"}):
        ...     expand("${CORPORA}/conll03/train.txt")
        '/data/conll03/train.txt'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise ValueError(
                f"{path}: the environment variable {name} is not set; set it, or name a path of your own, as "
                "in --set data.train=FILE"
            )
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", value, path)


def _folder() -> Path:
    """Return the folder of the recipes: in the package if it is installed, beside it in a clone."""
    package = Path(__file__).parents[1]
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parent / "recipes" / "ner"


def _read(file: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if file.resolve() in seen:
        raise ValueError(f"{file}: recipes extend each other in a circle")
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    except Exception as error:  # of any class: PyYAML also raises errors of others
        raise ValueError(f"{file}: not YAML: {error}") from None
    _check_size(str(file), entries)
    if not isinstance(entries, dict):
        raise ValueError(f"{file}: expected entries such as 'seed: 1', got {type(entries).__name__}")
    parent = entries.pop("extends", None)
    if parent is None:
        return entries
    return _merge(_read(_find_parent(file, str(parent)), (*seen, file.resolve())), entries)


def _find_parent(file: Path, name: str) -> Path:
    """Return the file that a recipe extends: a file beside it, or a built-in recipe."""
    beside = file.parent / f"{name}.yaml"
    try:
        return beside if _is_file(beside) else find_recipe(name)
    except ValueError as error:
        raise ValueError(f"{file}: extends: {error}") from None


def _check_size(source: str, entries: Any) -> None:
    """Refuse more entries than any recipe has, such as aliases of aliases, or of themselves."""
    left, count = [entries], 0
    while left:
        entry = left.pop()
        count += 1 + (len(entry) // 100 if isinstance(entry, str) else 0)
        if count > MOST_ENTRIES:
            raise ValueError(f"{source}: expected at most {MOST_ENTRIES:,} entries, aliases counted out")
        if isinstance(entry, Mapping):
            left += entry.values()
        elif isinstance(entry, list | tuple | set):
            left += entry


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merge(result[key], value) if both and not _is_other(result[key], value) else value
    return result


def _is_other(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether another variant (solver, term) is named, so that the old one's entries do not apply."""
    return "name" in new and new["name"] != old.get("name")


def _override(entries: dict[str, Any], override: str) -> None:
    path, sign, text = override.partition("=")
    if not sign or not path:
        raise ValueError(f"--set {override}: expected KEY=VALUE, as in --set base_training.epochs=5")
    try:
        value = yaml.safe_load(text)
    except Exception as error:  # as above
        raise ValueError(f"--set {override}: the value is not YAML: {error}") from None
    _check_size(f"--set {override}", value)
    section: Any = entries
    keys: list[str | int] = [int(key) if key.isdecimal() else key for key in path.split(".")]
    try:
        for key in keys[:-1]:
            section = section[key] if isinstance(key, int) else section.setdefault(key, {})
        if keys[-1] == "name" and _is_other(section, {"name": value}):
            section.clear()
        section[keys[-1]] = value
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ValueError(f"--set {override}: the recipe has no {path}") from None
