"""Recipes: everything that defines an experiment, as a YAML file that is checked when it is read.

A recipe may extend another (`extends: conll03_fast`), whose entries it then overrides one by one. Built-in
recipes are known by their names; `${NAME}` in a path stands for an environment variable.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Section):
    """Where sentences come from; see `gspen_ner.tasks.ner_sources`."""

    train: str
    dev: str
    test: str | None = None
    token_column: int | str = Field(0, description="number in a file of columns, name in a dataset")
    tag_column: int | str = -1
    scheme: Literal["auto", "IOB1", "BIO", "BIOES"] = "auto"
    strict: bool = Field(False, description="refuse illegal tag sequences instead of repairing them")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the training documents that is used")


class Scorer(_Section):
    """The BiLSTM-CNN; see `gspen_ner.scorers.BiLSTMCNN`."""

    scheme: Literal["BIO", "BIOES"] = "BIOES"
    transitions: Literal["shared", "bigram"] = "shared"
    word_vectors: str | None = Field(None, description="file in GloVe's text format, plain or gzipped")
    word_size: int = Field(100, ge=1)
    character_size: int = Field(30, ge=1)
    filters: int = Field(30, ge=1)
    width: int = Field(3, ge=1)
    hidden: int = Field(256, ge=1)
    projection: int = Field(256, ge=1)
    input_dropout: float = Field(0.5511, ge=0, lt=1)
    output_dropout: float = Field(0.5, ge=0, lt=1)


class Training(_Section):
    """How one stage is trained."""

    epochs: int = Field(20, ge=1)
    batch_size: int = Field(16, ge=1, description="sentences; with a document term, about so many")
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = Field(1e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    schedule: Literal["constant", "linear", "inverse_time"] = "constant"
    decay: float = Field(0.05, ge=0, description="of inverse_time: rate / (1 + decay * epoch)")
    clip: float = Field(5.0, ge=0, description="largest norm of a gradient; 0 for any")
    average: float = Field(0.0, ge=0, lt=1, description="decay of a moving average of the weights")
    patience: int | None = Field(None, ge=1, description="epochs without a better F1 before stopping")
    loggers: tuple[str, ...] = Field((), description="what else Trainer reports to, such as tensorboard")


class TermTraining(Training):
    """How the global term is trained on top of the base model."""

    freeze: Literal["base", "none"] = "base"
    base_learning_rate: float | None = Field(None, gt=0, description="of the base model, if not frozen")
    dropout_draws: int = Field(0, ge=0, description="frozen base: scores with dropout on, so many versions")
    folds: int = Field(0, ge=0, description="frozen base: cross-fitted scores, of so many base models")

    @model_validator(mode="after")
    def _check(self) -> TermTraining:
        if self.freeze == "none" and (self.dropout_draws or self.folds):
            raise ValueError("dropout_draws and folds need freeze: base")
        if self.folds == 1:
            raise ValueError("folds must be 0 or at least 2")
        if self.dropout_draws and self.folds:
            raise ValueError("give dropout_draws or folds, not both")
        return self


class PaddedMLPTerm(_Section):
    """The paper's term."""

    name: Literal["padded_mlp"]
    max_length: int | None = Field(None, ge=1, description="the longest training sentence if not given")
    hidden: int = Field(500, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    edge_inputs: Literal["none", "counts", "positions"] = "none"
    read_potentials: bool = False


class ConvolutionTerm(_Section):
    """A convolution over marginals."""

    name: Literal["convolution"]
    hidden: int = Field(100, ge=1)
    width: int = Field(5, ge=1)


class DocumentTerm(_Section):
    """Document consistency."""

    name: Literal["document"]


class MirrorDescentSolver(_Section):
    """See `gspen_ner.MirrorDescent`."""

    name: Literal["mirror_descent"] = "mirror_descent"
    step_size: float = Field(1.0, gt=0)
    schedule: Literal["backtracking", "sqrt"] = "backtracking"


class FrankWolfeSolver(_Section):
    """See `gspen_ner.FrankWolfe`."""

    name: Literal["frank_wolfe"]
    schedule: Literal["line_search", "harmonic"] = "line_search"
    oracle: Literal["smooth", "vertex"] = "smooth"


class Inference(_Section):
    """See `gspen_ner.GSPENHead`."""

    solver: Annotated[MirrorDescentSolver | FrankWolfeSolver, Field(discriminator="name")] = (
        MirrorDescentSolver()
    )
    temperature: float = Field(1.0, ge=0)
    cost: float = Field(1.0, ge=0, description="weight of the Hamming cost in training")
    loss: Literal["hinge", "fixed_point"] = "hinge"
    positive_part: bool = True
    max_steps: int = Field(10, ge=1)
    tolerance: float = Field(1e-2, ge=0)
    stop: Literal["gap", "change"] = "gap"

    @model_validator(mode="before")
    @classmethod
    def _name_the_solver(cls, entries: Any) -> Any:
        if isinstance(entries, dict) and isinstance(entries.get("solver"), dict):
            entries = entries | {"solver": {"name": "mirror_descent"} | entries["solver"]}
        return entries


Term = Annotated[PaddedMLPTerm | ConvolutionTerm | DocumentTerm, Field(discriminator="name")]


class Recipe(_Section):
    """An experiment: a base model and, for `spen` and `gspen`, a global term on top of it."""

    description: str = ""
    system: Literal["unary", "struct", "spen", "gspen"] = "gspen"
    seed: int = Field(1, ge=0)
    trials: int = Field(1, ge=1, description="repetitions, each with the next seed")
    drop_worst: int = Field(0, ge=0, description="trials whose base model is worst on dev, left out")
    data: Data
    scorer: Scorer = Scorer()
    base: str | None = Field(None, description="a run or model to start from instead of training one")
    base_training: Training = Training()
    terms: tuple[Term, ...] = ()
    inference: Inference = Inference()
    term_training: TermTraining = TermTraining()

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        if self.system in ("spen", "gspen") and not self.terms:
            raise ValueError(f"terms: system {self.system} needs at least one")
        if self.drop_worst >= self.trials:
            raise ValueError(f"drop_worst: {self.drop_worst} of {self.trials} trials would leave none")
        if self.base is not None and (self.trials > 1 or self.term_training.folds):
            raise ValueError("base: trials and folds train base models of their own; leave it out")
        return self

    def as_yaml(self) -> str:
        """The recipe with every entry written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and check it.

    Args:
        name: a file, or the name of a built-in recipe.
        overrides: entries such as `"base_training.epochs=5"`, values in YAML.

    Example:
        >>> load_recipe("quickstart", ["seed=7"]).seed
        7
    """
    file = find_recipe(name)
    entries = _read(file)
    for override in overrides:
        _override(entries, override)
    try:
        return Recipe.model_validate(entries)
    except ValidationError as error:
        raise ValueError("\n".join(f"{file.name}: {line}" for line in _explain(error))) from None


def recipe_names() -> dict[str, str]:
    """The built-in recipes and what they are for."""
    return {
        file.stem: str(yaml.safe_load(file.read_text(encoding="utf-8")).get("description", ""))
        for file in sorted(_folder().glob("*.yaml"))
    }


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe."""
    file = Path(name)
    if file.suffix in (".yaml", ".yml"):
        if not _is_file(file):
            raise ValueError(f"{file}: no such recipe file")
        return file
    built_in = _folder() / f"{name}.yaml"
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
    """A path with its `${NAME}` replaced."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise ValueError(
                f"{path}: the environment variable {name} is not set; set it to the folder that holds the "
                "data, or name your own files, as in --set data.train=FILE"
            )
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", value, path)


def _folder() -> Path:
    """Recipes lie in the package when installed, beside it in a clone."""
    package = Path(__file__).parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def _read(file: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if file.resolve() in seen:
        raise ValueError(f"{file}: recipes extend each other in a circle")
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    except Exception as error:  # of any kind: PyYAML does not keep to its own
        raise ValueError(f"{file}: not YAML: {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{file}: expected entries such as 'seed: 1', got {type(entries).__name__}")
    parent = entries.pop("extends", None)
    if parent is None:
        return entries
    beside = file.parent / f"{parent}.yaml"
    older = _read(beside if _is_file(beside) else find_recipe(str(parent)), (*seen, file.resolve()))
    return _merge(older, entries)


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merge(result[key], value) if both and not _is_other(result[key], value) else value
    return result


def _is_other(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether another variant (solver, term) is named, for which the old one's entries mean nothing."""
    return "name" in new and new["name"] != old.get("name")


def _override(entries: dict[str, Any], override: str) -> None:
    path, sign, text = override.partition("=")
    if not sign or not path:
        raise ValueError(f"--set {override}: expected KEY=VALUE, as in --set base_training.epochs=5")
    try:
        value = yaml.safe_load(text)
    except Exception as error:  # as above
        raise ValueError(f"--set {override}: the value is not YAML: {error}") from None
    place: Any = entries
    keys: list[str | int] = [int(key) if key.isdecimal() else key for key in path.split(".")]
    try:
        for key in keys[:-1]:
            place = place[key] if isinstance(key, int) else place.setdefault(key, {})
        if keys[-1] == "name" and _is_other(place, {"name": value}):
            place.clear()
        place[keys[-1]] = value
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ValueError(f"--set {override}: the recipe has no {path}") from None


def _explain(error: ValidationError) -> Iterator[str]:
    known = sorted(set(_keys(Recipe)))
    for entry in error.errors():
        path = ".".join(_place(entry["loc"]))
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
            got = f", got {entry['input']!r}" if entry["type"] != "value_error" else ""
            yield f"{where}{message}{got}"


def _place(keys: Sequence[str | int]) -> Iterator[str]:
    """Where an error is, without the names of variants that pydantic puts in behind terms.0 and solver."""
    variants = ("padded_mlp", "convolution", "document", "mirror_descent", "frank_wolfe")
    for before, key in zip(("", *keys), keys, strict=False):
        if key not in variants or not (before == "solver" or isinstance(before, int)):
            yield str(key)


def _keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """All keys that a recipe may have, with dots."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield prefix + name
            yield from _keys(field.annotation, f"{prefix}{name}.")
    elif get_origin(kind) in (Union, UnionType, Annotated, tuple):
        for part in get_args(kind):
            yield from _keys(part, prefix)
