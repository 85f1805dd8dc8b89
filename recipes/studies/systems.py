"""The paper's five systems on one data set, stated once; a study adds its data, networks and metrics.

    Unary -> Struct -> GSPEN
                    -> NLStruct
          -> SPEN

A system is trained on top of others, which stay as they are. Each has a folder of its own; a system that is
in its folder is not trained again:

    SYSTEM/result.json  SYSTEM/model.safetensors (the parameters that it learned)
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gspen_ner.components import Section
from gspen_ner.files import mend_folder, write_folder
from gspen_ner.graphs import FactorGraph
from gspen_ner.head import GSPENHead, make_head
from gspen_ner.polytopes import POLYTOPES, Polytope, Simplex
from gspen_ner.recipe import Inference
from gspen_ner.scorers.graph import GraphScorer, PairTables
from gspen_ner.terms import TERMS
from gspen_ner.training import (
    SCORE_SOURCES,
    Examples,
    Scored,
    System,
    SystemLoss,
    TensorTraining,
    Trained,
    fit,
    predictions,
)
from gspen_ner.training.tensors import Judge, Output, TensorHost
from recipes.studies.data import StudyData
from recipes.studies.feature_net import FeatureNet
from recipes.studies.results import SYSTEMS
from recipes.studies.settings import options_for

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """How the training of a system went; a study adds its metrics."""

    system: str
    seed: int
    updates: int
    """Updates until the best score on dev."""
    seconds_an_epoch: float
    inference_steps: float
    """Mean number of inference steps of a training example."""
    negative_losses: float
    """Share of the training examples whose inference ended below the gold labels."""


class Graph(NamedTuple):
    """Nodes with equally many labels, and the pairs of nodes that are scored together."""

    num_nodes: int
    num_labels: int
    edges: Sequence[tuple[int, int]]

    def factors(self) -> FactorGraph:
        """Return the factor graph, for polytopes."""
        return FactorGraph.of_edges([self.num_labels] * self.num_nodes, self.edges)


class UnarySystem(System):
    """Scores of single nodes, trained by cross-entropy.

    Args:
        scorer: scores of the nodes.
        scale: factor of the loss, which is a mean over all nodes of a batch.
    """

    def __init__(self, scorer: GraphScorer, scale: float = 1.0) -> None:
        super().__init__(scorer)
        self.scale = scale

    def loss(self, scored: Scored, labels: Tensor) -> SystemLoss:
        scores = scored.potentials.nodes
        return SystemLoss(self.scale * nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()))


class StudySystems(ABC):
    """The five systems of one data set and seed.

    Args:
        recipe: how each system is made and trained.
        data: examples.
        graph: nodes and pairs of an example.
        seed: seed of weights, dropout and the order of examples.
        folder: gets a folder for each system.
    """

    result_class: ClassVar[type[SystemResult]]
    output: ClassVar[Output] = "argmax"
    """Predictions that systems are judged by on dev: labels or marginals."""
    watched: ClassVar[tuple[str, ...]] = ()
    """Splits besides dev that are scored at each evaluation."""
    unary_scale = 1.0

    def __init__(self, recipe: Any, data: StudyData, graph: Graph, seed: int, folder: Path) -> None:
        self.recipe, self.data, self.graph = recipe, data, graph
        self.seed, self.folder = seed, folder

    def make_net(self) -> nn.Module:
        """Return a new network from inputs to scores of nodes: by default from rows of features."""
        features = self.data.train.inputs.shape[1]
        return FeatureNet(features, self.graph.num_nodes, **options_for(FeatureNet, self.recipe.unary))

    def make_pairs(self, settings: Section) -> nn.Module:
        """Return new scores of pairs: by default a table for each edge."""
        return PairTables(len(self.graph.edges), self.graph.num_labels)

    @abstractmethod
    def judge(self, name: str) -> Judge:
        """Return what decides which weights of a system are best on dev."""

    @abstractmethod
    def measure(
        self, name: str, system: System, settings: Section, splits: Mapping[str, Examples], trained: Trained
    ) -> dict[str, Any]:
        """Return the metrics of a trained system: the study's own fields of its result."""

    # Systems

    @cached_property
    def unary(self) -> System:
        """Unary: scores of single nodes."""
        return self.trained("unary", self.make_unary, self.recipe.unary)

    @cached_property
    def struct(self) -> System:
        """Struct: scores of pairs on top of Unary."""
        return self.make_struct("struct", self.recipe.struct)

    @cached_property
    def spen(self) -> System:
        """SPEN: a global term on top of Unary."""
        return self.with_term("spen", self.recipe.spen)

    @cached_property
    def gspen(self) -> System:
        """GSPEN: a global term on top of Struct."""
        return self.with_term("gspen", self.recipe.gspen, self.struct)

    @cached_property
    def nlstruct(self) -> System:
        """NLStruct: a nonlinear function of Struct's scores."""
        return self.with_term("nlstruct", self.recipe.nlstruct, self.struct, "nlstruct")

    def results(self) -> list[Any]:
        """Return the results of the recipe's systems and of those that they build on; train missing ones."""
        _ = self.unary
        for name in SYSTEMS:
            if name in self.recipe.systems:
                getattr(self, name)
        return [self.result(name) for name in SYSTEMS if name in vars(self)]

    def make_unary(self) -> System:
        """Return a new Unary."""
        return UnarySystem(GraphScorer(self.over_nodes, self.make_net()), self.unary_scale)

    def make_struct(self, name: str, settings: Any) -> System:
        """Train scores of pairs on top of Unary."""

        def make() -> System:
            head = GSPENHead(temperature=settings.temperature, cost=settings.cost)
            return self.on_top(self.over_graph, self.make_pairs(settings), head)

        return self.trained(name, make, settings)

    def with_term(
        self, name: str, settings: Any, struct: System | None = None, term: str = "region_mlp"
    ) -> System:
        """Train a global term on top of a Struct, by default on top of Unary."""

        def make() -> System:
            head = self.make_term(term, settings, settings.inference, struct is not None)
            if struct is None:
                return self.on_top(self.over_nodes, None, head)
            return self.on_top(self.over_graph, struct.get_submodule("scorer.pairs"), head, "scorer.pairs")

        return self.trained(name, make, settings)

    # Parts of systems

    def over_nodes(self, batch: int) -> Simplex:
        """Return the polytope of a batch over single nodes."""
        return Simplex(torch.ones(batch, self.graph.num_nodes, dtype=torch.bool))

    def over_graph(self, batch: int) -> Polytope:
        """Return the polytope of a batch over nodes and pairs."""
        return self.polytope.select(torch.zeros(batch, dtype=torch.long))

    @cached_property
    def polytope(self) -> Polytope:
        """The recipe's polytope over nodes and pairs, of one example."""
        return POLYTOPES.make(
            self.recipe.polytope.model_dump(),
            graph=self.graph.factors(),
            counting_numbers="unit",
            lengths=torch.tensor([self.graph.num_nodes]),
        )

    def make_term(self, name: str, options: Section, inference: Inference, with_edges: bool) -> GSPENHead:
        """Return a new global term, which may read the marginals of pairs, with its inference."""
        entry = {"name": name, **options_for(TERMS.classes[name], options)}
        sizes = {
            "num_labels": self.graph.num_labels,
            "num_nodes": self.graph.num_nodes,
            "num_edges": len(self.graph.edges) * with_edges,
        }
        return make_head([entry], inference.model_dump(), **sizes)

    def on_top(
        self, polytope: Callable[[int], Polytope], pairs: nn.Module | None, head: GSPENHead, *frozen: str
    ) -> System:
        """Return a system on top of Unary, with frozen submodules."""
        system = System(GraphScorer(polytope, pairs=pairs), head)
        return system.freeze(*frozen) if frozen else system

    # Training

    def splits(self, name: str) -> Mapping[str, Examples]:
        """Return the examples of a system: Unary's inputs, or Unary's scores of them."""
        return self.data.splits if name == "unary" else self.scores

    @cached_property
    def scores(self) -> Mapping[str, Examples]:
        """Unary's scores of all examples."""
        return {
            name: replace(examples, inputs=predictions(self.unary, examples.inputs, "nodes"))
            for name, examples in self.data.splits.items()
        }

    @cached_property
    def versions(self) -> Sequence[Examples]:
        """Versions of the training examples of all systems but Unary, by the recipe's score source."""
        source = SCORE_SOURCES.make(self.recipe.scores.model_dump())
        versions = source.versions(_FoldsInFolders(self), self.unary)
        return [replace(examples, inputs=examples.inputs.potentials.nodes) for examples in versions]

    def trained(self, name: str, make: Callable[[], System], settings: Any) -> System:
        """Return a trained system: from its folder, or trained and written there."""

        def train(system: System) -> dict[str, Any]:
            splits = self.splits(name)
            trained = fit(
                system,
                splits["train"] if name == "unary" else self.versions,
                splits["dev"],
                self.judge(name),
                settings,
                self.seed,
                self.output,
                {split: splits[split] for split in self.watched},
            )
            metrics = self.measure(name, system, settings, splits, trained)
            numbers = (
                f"{key.replace('_', ' ')} {value:.4g}" for key, value in metrics.items() if key != "curve"
            )
            logger.info(
                "%s, seed %d: %s; %d updates, %.2f s/epoch",
                name, self.seed, ", ".join(numbers), trained.updates, trained.seconds_an_epoch,
            )  # fmt: skip
            costs = ("updates", "seconds_an_epoch", "inference_steps", "negative_losses")
            metrics |= {cost: getattr(trained, cost) for cost in costs}
            return asdict(self.result_class(system=name, seed=self.seed, **metrics))

        return self.stored(name, make, train)

    # Folders

    def stored(self, name: str, make: Callable[[], System], train: Callable[[System], Any]) -> System:
        """Return a new system with the weights of its folder; train it and write them if there are none."""
        torch.manual_seed(self.seed)
        system, folder = make(), self.folder / name
        mend_folder(folder)
        if (folder / "result.json").exists():
            weights = load_file(folder / "model.safetensors")
            if system.load_state_dict(weights, strict=False).unexpected_keys:
                raise ValueError(f"{folder}: expected weights of this version, got those of an older one")
            return system
        result = train(system)
        learned = {key: value for key, value in system.named_parameters() if value.requires_grad}
        self.write(name, {key: value.detach().contiguous() for key, value in learned.items()}, result)
        return system

    def result(self, name: str) -> Any:
        """Return the result of a trained system."""
        file = self.folder / name / "result.json"
        return self.result_class(**json.loads(file.read_text(encoding="utf-8")))

    def write(self, name: str, weights: dict[str, Tensor], result: Mapping[str, Any]) -> None:
        """Write a system's folder atomically."""

        def fill(folder: Path) -> None:
            save_file(weights, folder / "model.safetensors")
            (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

        write_folder(self.folder / name, fill)


class _FoldsInFolders(TensorHost):
    """Keeps the Unary models of cross-fitting in folders, so that a resumed run does not train them again."""

    def __init__(self, systems: StudySystems) -> None:
        data, training = systems.data, systems.recipe.unary
        super().__init__(
            systems.make_unary, data.train, data.dev, systems.judge("unary"), training, systems.seed
        )
        self.systems = systems

    def train_base(self, name: str, examples: Examples, training: TensorTraining) -> System:
        def train(system: System) -> dict[str, float]:
            logger.info("unary, seed %d: %s", self.seed, name)
            trained = fit(system, examples, self.dev, self.judge, training, self.seed)
            return {"dev_score": trained.score, "updates": trained.updates}

        assert self.make_base is not None
        return self.systems.stored(f"unary-{name}", self.make_base, train)
