"""The five systems on multilabel data, over a star: the most frequent label, and all others around it.

Unary -> Struct -> NLStruct
      -> SPEN -> GSPEN: pairs that learn under the SPEN's term, or its term that learns on over Struct's pairs

Predictions are the labels whose probability is above a threshold, chosen on dev.

Unary makes few errors on the rows that it has learned from, so that other systems learn little from its
scores. With `draws`, its dropout and flips stay on while they learn: every batch has errors to correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from gspen_ner.components import Section
from gspen_ner.head import GSPENHead
from gspen_ner.polytopes import Polytope
from gspen_ner.scorers.graph import GraphScorer
from gspen_ner.training import Examples, System, Trained, predictions
from gspen_ner.training.tensors import Judge
from recipes.multilabel.metrics import best_threshold, example_f1
from recipes.multilabel.settings import MultilabelRecipe
from recipes.studies.data import StudyData
from recipes.studies.feature_net import PairNet
from recipes.studies.settings import options_for
from recipes.studies.systems import Graph, StudySystems, SystemResult


@dataclass(frozen=True, kw_only=True)
class MultilabelResult(SystemResult):
    """How the training of a system went; F1 in percent, averaged over examples."""

    threshold: float
    dev_f1: float
    test_f1: float
    refitted_f1: float | None = None
    """F1 on test of the system trained again on train and dev together."""


class MultilabelSystems(StudySystems):
    """The systems of one seed.

    Args:
        recipe, data, seed, folder: as of `StudySystems`.
        chosen: results without the dev rows by system, if these are now among the training rows: thresholds
            and numbers of epochs are taken from there.
    """

    result_class = MultilabelResult
    output = "marginals"

    def __init__(
        self,
        recipe: MultilabelRecipe,
        data: StudyData,
        seed: int,
        folder: Path,
        chosen: Mapping[str, MultilabelResult] = MappingProxyType({}),
    ) -> None:
        labels = data.train.labels.shape[1]
        super().__init__(recipe, data, Graph(labels, 2, star_edges(data.train.labels)), seed, folder)
        self.chosen, self.unary_scale = chosen, labels

    @cached_property
    def gspen(self) -> System:
        """GSPEN: new pairs under the frozen SPEN term, or the SPEN term over the frozen pairs of Struct."""
        settings = self.recipe.gspen
        _ = self.spen  # trained before the GSPEN draws random numbers
        if settings.learns == "term":
            return self.with_term("gspen", settings, self.struct)

        def make() -> System:
            head = self.make_term("region_mlp", settings, settings.inference, True)
            return self.on_top(self.over_graph, self.make_pairs(settings), head).freeze("head")

        return self.trained("gspen", make, settings)

    def make_pairs(self, settings: Section) -> nn.Module:
        features = self.data.train.inputs.shape[1]
        return PairNet(features, len(self.graph.edges), **options_for(PairNet, settings))

    def make_term(self, name: str, options: Section, inference: Any, with_edges: bool) -> GSPENHead:
        """Return a new term; the term of a GSPEN is the trained SPEN's, which reads no pairs."""
        if name != "region_mlp":
            return super().make_term(name, options, inference, with_edges)
        head = super().make_term(name, self.recipe.spen, inference, False)
        if with_edges:
            head.get_submodule("term").load_state_dict(self.spen.get_submodule("head.term").state_dict())
        return head

    def on_top(
        self, polytope: Callable[[int], Polytope], pairs: nn.Module | None, head: GSPENHead, *frozen: str
    ) -> System:
        """Return a system that scores features itself, by the frozen Unary."""
        system = System(GraphScorer(polytope, self.unary.get_submodule("scorer.nodes"), pairs), head)
        return system.freeze("scorer.nodes", *frozen, dropout=self.recipe.draws)

    @property
    def scores(self) -> Mapping[str, Examples]:
        """Features: systems on top of Unary score them themselves."""
        return self.data.splits

    @property
    def versions(self) -> Sequence[Examples]:
        """The training rows; all epochs have the same."""
        return [self.data.train]

    def judge(self, name: str) -> Judge:
        return lambda marginals, labels: best_threshold(marginals[..., 1], labels)[1]

    def trained(self, name: str, make: Callable[[], System], settings: Any) -> System:
        """Return a trained system; after a refit, with as many epochs as dev has chosen."""
        if name in self.chosen:
            rows = len(self.data.train)
            updates = self.chosen[name].updates * rows // (rows - len(self.data.dev))
            settings = settings.model_copy(update={"max_updates": updates, "evaluate_every": updates})
        return super().trained(name, make, settings)

    def measure(
        self, name: str, system: System, settings: Any, splits: Mapping[str, Examples], trained: Trained
    ) -> dict[str, Any]:
        if name in self.chosen:
            threshold, dev_f1 = self.chosen[name].threshold, self.chosen[name].dev_f1
        else:
            threshold, f1 = best_threshold(_of_yes(system, splits["dev"]), splits["dev"].labels)
            dev_f1 = 100 * f1
        test_f1 = 100 * example_f1(_of_yes(system, splits["test"]), splits["test"].labels, threshold)
        return {"threshold": threshold, "dev_f1": dev_f1, "test_f1": test_f1}


def star_edges(labels: Tensor) -> list[tuple[int, int]]:
    """Return the pairs of the most frequent label, the first of equally frequent ones, with all others.

    Example:
        >>> import torch
        >>> star_edges(torch.tensor([[0, 1, 1], [0, 1, 0]]))
        [(1, 0), (1, 2)]
    """
    centre = int(labels.sum(0).numpy().argmax())
    return [(centre, other) for other in range(labels.shape[1]) if other != centre]


def _of_yes(system: System, examples: Examples) -> Tensor:
    """Return the probability of each label."""
    return predictions(system, examples.inputs, "marginals")[..., 1]
