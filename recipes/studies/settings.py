"""Recipes of the studies: how the paper's systems are trained, with the options of networks and terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section, section_of
from gspen_ner.head import GSPENHead
from gspen_ner.polytopes import POLYTOPES
from gspen_ner.recipe import Inference
from gspen_ner.terms import TERMS
from gspen_ner.training import SCORE_SOURCES, Plain, TensorTraining
from recipes.studies.feature_net import FeatureNet

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1)]


class FeatureNetTraining(section_of(FeatureNet), TensorTraining):  # type: ignore[misc]
    """Unary: an MLP from features to labels."""


class StructTraining(section_of(GSPENHead, "temperature", "cost"), TensorTraining):  # type: ignore[misc]
    """Struct: tables of pairs on top of Unary."""


class TermTraining(section_of(TERMS.classes["region_mlp"]), TensorTraining):  # type: ignore[misc]
    """SPEN and GSPEN: an MLP over all marginals, on top of Unary or Struct."""

    inference: Inference = Inference()


class NLStructTraining(section_of(TERMS.classes["nlstruct"]), TensorTraining):  # type: ignore[misc]
    """NLStruct: a nonlinear function of the scores, on top of Struct."""

    inference: Inference = Inference()


def polytope_entry(default: Mapping[str, Any], *given: str) -> Any:
    """Return the field of a recipe that says over which polytope a study infers.

    Args:
        default: the default entry.
        given: what the study can supply besides the graph.
    """
    entry = Field(default, validate_default=True, description="polytope over nodes and pairs")
    return Annotated[POLYTOPES.entry(given=["graph", "counting_numbers", *given]), entry]


class StudyRecipe(Section):
    """The paper's five systems on one data set."""

    description: str = Field("", description="what the recipe is for")
    seeds: Seeds = Field((1, 2, 3), description="seeds; all systems are trained with each")
    polytope: Any
    systems: tuple[Literal["struct", "spen", "nlstruct", "gspen"], ...] = Field(
        ("struct", "spen", "nlstruct", "gspen"),
        description="systems to train besides Unary; those that they build on are trained too",
    )
    struct: StructTraining = StructTraining()
    spen: TermTraining = TermTraining()
    nlstruct: NLStructTraining = NLStructTraining()
    gspen: Any

    @model_validator(mode="before")
    @classmethod
    def _read_old_graph(cls, entries: Any) -> Any:
        """Return entries of version 0.1 (graph: inference, sweeps) with a polytope."""
        if not isinstance(entries, dict) or not isinstance(entries.get("graph"), dict):
            return entries
        new, old = dict(entries), {"inference": "exact", "sweeps": 10} | entries["graph"]
        del new["graph"]
        sweeps, default = {"max_sweeps": old["sweeps"]}, cls.model_fields["polytope"].default
        if old["inference"] == "messages":
            new["polytope"] = {"name": "local", "tolerance": 0.0, "oracle_sweeps": old["sweeps"]} | sweeps
        elif old["inference"] != "exact":
            raise ValueError(f"graph.inference: expected 'exact' or 'messages', got {old['inference']!r}")
        elif default["name"] == "local":
            new.setdefault("polytope", default | sweeps)
        return new

    @model_validator(mode="after")
    def _check_systems(self) -> StudyRecipe:
        for name in ("seeds", "systems"):
            check_different(name, getattr(self, name))
        for name in ("spen", "gspen"):
            if getattr(self, name).inference.solver.name == "saddle_point":
                raise ValueError(f"{name}.inference.solver: saddle_point is for nlstruct only")
        return self


class ScoresRecipe(StudyRecipe):
    """A study whose other systems learn from scores of Unary that were computed before."""

    scores: SCORE_SOURCES.entry() = Field(  # type: ignore[valid-type]
        SCORE_SOURCES.section_for(Plain()),
        description="which scores of the training data the other systems learn from",
    )


def check_different(name: str, values: tuple[Any, ...]) -> None:
    """Refuse a list that has an entry twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"{name}: expected different entries, got {list(values)}")


def options_for(component: Any, settings: Section) -> dict[str, Any]:
    """Return those entries of settings that are options of a class."""
    return {name: getattr(settings, name) for name in section_of(component).model_fields if name != "name"}
