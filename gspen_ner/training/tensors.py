"""Training of systems on tensors in memory: the plain loop, and its two stages.

    base, dev scores  ->  fit (loss, clip, step)  ->  evaluate on dev  ->  the best weights

There are no checkpoints: it is for what trains in minutes. BiLSTMs and transformers on sentences are trained
by the hosts of Hugging Face and Flair.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from gspen_ner.components import Section
from gspen_ner.head import GSPENHead
from gspen_ner.training.documents import balanced_batches, rows_of_documents
from gspen_ner.training.score_sources import DEFAULT_SCORES, ScoreSource
from gspen_ner.training.stages import needs_make_base, version_at
from gspen_ner.training.system import Scored, System

PREDICTION_BATCH = 512
Output = Literal["argmax", "marginals", "steps", "nodes"]
Judge = Callable[[Tensor, Tensor], float]
"""From predictions and gold labels to a score; larger is better."""


class TensorTraining(Section):
    """How a system is trained: until its score on dev has not risen for a while.

    Example:
        >>> TensorTraining(learning_rate=0.01).patience
        5
    """

    optimizer: Literal["adam", "sgd"] = Field("adam", description="how weights are updated")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd")
    learning_rate: float = Field(1e-4, gt=0, description="learning rate of the first update")
    schedule: Literal["constant", "linear"] = Field(
        "constant", description="learning-rate schedule; linear falls to 0 at max_updates"
    )
    batch_size: int = Field(128, ge=1, description="examples of an update; of documents, about so many")
    clip: float = Field(1.0, ge=0, description="largest norm of a gradient; 0 for no limit")
    max_updates: int = Field(5000, ge=1, description="number of updates after which training ends")
    evaluate_every: int = Field(40, ge=1, description="updates between evaluations on dev; at least an epoch")
    patience: int = Field(5, ge=1, description="evaluations without a better score before training stops")


@dataclass(frozen=True)
class Examples:
    """Inputs and gold labels of one split, in memory.

    Args:
        inputs: a tensor, a mapping of tensors, or scores; the first axis is the example.
        labels: gold labels; -1 on padding.
        documents: document of each example, whose examples stay in one batch; by default each is its own.

    Example:
        >>> examples = Examples(torch.zeros(3, 5), torch.tensor([[0], [1], [0]]))
        >>> len(examples), examples.first(2).labels.flatten().tolist()
        (3, [0, 1])
    """

    inputs: Any
    labels: Tensor
    documents: Int[Tensor, " N"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor) -> Examples:
        return self.select(rows)

    def first(self, count: int) -> Examples:
        """Return the first `count` examples."""
        return self.select(torch.arange(min(count, len(self))))

    def select(self, rows: Tensor) -> Examples:
        """Return the examples of the given numbers, or where `rows` is true."""
        if rows.dtype == torch.bool:
            rows = rows.nonzero().flatten()
        documents = None if self.documents is None else self.documents[rows]
        return Examples(_select(self.inputs, rows), self.labels[rows], documents)


@dataclass(frozen=True)
class Trained:
    """How a training went."""

    score: float
    """The best score on dev."""
    updates: int
    """Updates until the best score on dev."""
    seconds_an_epoch: float
    """Mean time of the updates of an epoch, without evaluation."""
    inference_steps: float
    """Mean number of inference steps of a training example in the last epoch; 0 without a term."""
    negative_losses: float
    """Share of the examples whose inference ended below the gold labels, in the last epoch."""
    curve: tuple[dict[str, float], ...] = ()
    """The `epoch` of each evaluation, and the scores of dev and of each watched split."""


def fit(
    system: System,
    train: Examples | Sequence[Examples],
    dev: Examples,
    judge: Judge,
    training: TensorTraining,
    seed: int,
    output: Output = "argmax",
    watch: Mapping[str, Examples] = MappingProxyType({}),
) -> Trained:
    """Train the parameters that require gradients, and keep the best weights on dev.

    Args:
        system: the system.
        train: training examples, or versions of them, of which each epoch takes the next.
        dev: examples that decide which weights are best.
        judge: compares predictions with gold labels.
        training: settings.
        seed: seed of dropout and of the order of examples.
        output: what the judge gets as predictions: the best labels (`"argmax"`) or `"marginals"`.
        watch: more splits that are scored at each evaluation, for the `curve`; they decide nothing.
    """
    return _Fit(system, train, dev, judge, training, seed, output, watch).run()


def predictions(system: System, inputs: Any, output: Output = "argmax") -> Tensor:
    """Return predicted labels, probabilities, inference steps or node scores of any number of inputs.

    Args:
        system: the system.
        inputs: inputs as in `Examples`.
        output: what is returned; `"nodes"` are the scorer's scores of nodes.
    """
    with _evaluating(system):
        return torch.cat([_output(system, part, output) for part in _chunks(inputs)])


def train_term(
    system: System,
    head: GSPENHead,
    train: Examples,
    dev: Examples,
    judge: Judge,
    *,
    make_base: Callable[[], System] | None = None,
    scores: ScoreSource = DEFAULT_SCORES,
    base_training: TensorTraining | None = None,
    training: TensorTraining | None = None,
    seed: int = 1,
) -> System:
    """Train a global term on top of a trained system; the system itself stays as it is.

    Args:
        system: the trained base model.
        head: a new head with a term.
        train: training examples of the base model.
        dev: examples that decide which weights are best.
        judge: compares predicted and gold labels.
        make_base: makes a new base model, which cross-fitting trains for each fold.
        scores: which scores the term learns from; by default `CrossFit(2)`.
        base_training: how base models of folds are trained; by default `TensorTraining()`.
        training: how the term is trained; by default Adam with a learning rate of 0.01.
        seed: seed of everything random.

    Returns:
        The base model's scorer with the trained head.

    Example:
        >>> from gspen_ner import Convolution, Parts, Simplex
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <...>
        >>> labels = torch.randint(3, (40, 6))
        >>> train = Examples(torch.nn.functional.one_hot(labels, 3) + torch.randn(40, 6, 3), labels)
        >>> def scorer(nodes):
        ...     return Parts(nodes), Simplex(torch.ones(nodes.shape[:2], dtype=torch.bool))
        >>> better = train_term(
        ...     System(scorer), GSPENHead(Convolution(3, hidden=4)), train, train,
        ...     judge=lambda predicted, gold: (predicted == gold).double().mean().item(),
        ...     make_base=lambda: System(scorer), training=TensorTraining(max_updates=4))
        >>> better.head.term.filters.weight.shape
        torch.Size([4, 3, 5])
    """
    host = TensorHost(make_base, train, dev, judge, base_training or TensorTraining(), seed)
    versions = scores.versions(host, system)
    upgraded = System(system.scorer, head).freeze()
    score_dev = replace(dev, inputs=score_all(system, dev.inputs))
    fit(upgraded, versions, score_dev, judge, training or TensorTraining(learning_rate=0.01), seed)
    return upgraded


class TensorHost:
    """Trains and scores systems on tensors in memory, for score sources.

    Args:
        make_base: makes a new base model; needed by cross-fitting only.
        train: training examples.
        dev: examples that decide which weights are best.
        judge: compares predicted and gold labels.
        training: how base models are trained.
        seed: seed of weights, dropout and the order of examples.
    """

    fold_seed = None

    def __init__(
        self,
        make_base: Callable[[], System] | None,
        train: Examples,
        dev: Examples,
        judge: Judge,
        training: TensorTraining,
        seed: int,
    ) -> None:
        self.make_base, self.train, self.dev = make_base, train, dev
        self.judge, self.training, self.seed = judge, training, seed

    @property
    def documents(self) -> Sequence[int]:
        """Document of each training example."""
        documents = self.train.documents
        return range(len(self.train)) if documents is None else documents.tolist()

    def fit(self, name: str, rows: Sequence[int], epochs: int | None) -> System:
        """Return a new base model, trained on some of the training examples."""
        if self.make_base is None:
            raise needs_make_base("these cannot be made from a trained one")
        examples, training = self.train.select(torch.tensor(rows)), self.training
        if epochs is not None:
            updates = epochs * -(-len(rows) // training.batch_size)
            training = training.model_copy(update={"max_updates": updates})
        return self.train_base(name, examples, training)

    def train_base(self, name: str, examples: Examples, training: TensorTraining) -> System:
        """Return a new base model, trained on examples; a subclass may keep it under its name."""
        assert self.make_base is not None
        torch.manual_seed(self.seed)
        system = self.make_base()
        if any(weight.requires_grad for weight in system.parameters()):
            fit(system, examples, self.dev, self.judge, training, self.seed)
        return system

    def load(self, folder: str, name: str) -> System:
        """Refuse: systems on tensors in memory are not kept in folders."""
        raise ValueError(f"{folder}: base models in memory have no folders: leave out models_of")

    def score(self, base: System, rows: Sequence[int] | None = None, draw: int | None = None) -> Examples:
        """Return training examples whose inputs are scores."""
        examples = self.train if rows is None else self.train.select(torch.tensor(rows))
        with torch.random.fork_rng():
            if draw is not None:
                torch.manual_seed(draw)
            return replace(examples, inputs=score_all(base, examples.inputs, dropout=draw is not None))

    def join(self, parts: Sequence[tuple[Sequence[int], Examples]]) -> Examples:
        """Return all training examples in their order."""
        order = torch.tensor([row for rows, _ in parts for row in rows]).argsort()
        scored = Scored.join([examples.inputs for _, examples in parts]).select(order)
        return replace(self.train, inputs=scored)


def score_all(system: System, inputs: Any, dropout: bool = False) -> Scored:
    """Return the scores of any number of inputs, computed in batches."""
    with _evaluating(system):
        system.train(dropout)
        scored = Scored.join([system.score(part) for part in _chunks(inputs)])
    return scored._replace(potentials=scored.potentials.detach())  # transitions may be parameters


class _Fit:
    """One call of `fit`."""

    def __init__(
        self,
        system: System,
        train: Examples | Sequence[Examples],
        dev: Examples,
        judge: Judge,
        training: TensorTraining,
        seed: int,
        output: Output,
        watch: Mapping[str, Examples],
    ) -> None:
        self.system, self.training, self.seed, self.output, self.judge = system, training, seed, output, judge
        self.versions = [train] if isinstance(train, Examples) else list(train)
        self.splits = {"dev": dev} | dict(watch)
        self.learned = {name: w for name, w in system.named_parameters() if w.requires_grad}
        if not self.learned:
            raise ValueError("expected parameters that require a gradient, got none: everything is frozen")
        if not self.versions or not len(self.versions[0]):
            raise ValueError("expected training examples, got none")
        if len({len(examples) for examples in self.versions}) > 1:
            sizes = ", ".join(str(len(examples)) for examples in self.versions)
            raise ValueError(f"expected versions of the same training examples, got sizes {sizes}")
        self.best: dict[str, Tensor] = {}
        self.best_score, self.best_update, self.not_better = -math.inf, 0, 0
        self.curve: list[dict[str, float]] = []
        self.inference: list[tuple[float, float]] = []
        self.times: list[float] = []
        weights = list(self.learned.values())
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(weights, training.learning_rate)
        if training.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(weights, training.learning_rate, training.momentum)
        falls = training.schedule == "linear"
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: max(0.0, 1 - step / training.max_updates) if falls else 1.0
        )

    def run(self) -> Trained:
        training = self.training
        an_epoch = len(self._epoch(0))
        every = max(training.evaluate_every, an_epoch)
        torch.manual_seed(self.seed)
        self.system.train()
        progress = tqdm(total=training.max_updates, desc="training", unit="update", leave=False, disable=None)
        update = 0
        for batch in self._batches():
            self._update(batch)
            update += 1
            progress.update()
            if update % every == 0:
                self._evaluate(update, an_epoch)
            if update == training.max_updates or self.not_better >= training.patience:
                break
        progress.close()
        if update % every:
            self._evaluate(update, an_epoch)
        with torch.no_grad():
            for name, weight in self.learned.items():
                weight.copy_(self.best[name])
        steps, negative = (statistics.fmean(v) for v in zip(*self.inference[-an_epoch:], strict=True))
        seconds = an_epoch * statistics.fmean(self.times[1:] or self.times)  # the first may compile kernels
        return Trained(self.best_score, self.best_update, seconds, steps, negative, tuple(self.curve))

    def _batches(self) -> Iterator[Examples]:
        epoch = 0
        while True:
            examples: Any = self.versions[version_at(epoch, len(self.versions))]
            yield from DataLoader(examples, sampler=self._epoch(epoch), batch_size=None)
            epoch += 1

    def _epoch(self, epoch: int) -> Sequence[Tensor]:
        """Return the numbers of the examples of each batch of an epoch."""
        chance = torch.Generator().manual_seed(self.seed + epoch)
        first, size = self.versions[0], self.training.batch_size
        if first.documents is None:
            return torch.randperm(len(first), generator=chance).split(size)
        documents = rows_of_documents(first.documents.tolist())
        order = torch.randperm(len(documents), generator=chance).tolist()
        count = min(-(-len(first) // size), len(documents))
        return [torch.tensor(rows) for rows in balanced_batches(documents, order, count)]

    def _update(self, batch: Examples) -> None:
        start = time.perf_counter()
        result = self.system(batch.inputs, batch.labels)
        result.loss.backward()
        if self.training.clip:
            nn.utils.clip_grad_norm_(self.system.parameters(), self.training.clip)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.inference.append((float(result.steps or 0.0), float(result.negative or 0.0)))
        self.times.append(time.perf_counter() - start)

    def _evaluate(self, update: int, an_epoch: int) -> None:
        """Score all splits, and keep the weights if they are the best on dev so far."""
        scores = {
            name: self.judge(predictions(self.system, examples.inputs, self.output), examples.labels)
            for name, examples in self.splits.items()
        }
        if math.isnan(scores["dev"]):
            raise ValueError("expected a score of dev, got nan")
        self.curve.append({"epoch": round(update / an_epoch, 3)} | scores)
        if scores["dev"] > self.best_score:
            self.best = {name: weight.detach().clone() for name, weight in self.learned.items()}
            self.best_score, self.best_update, self.not_better = scores["dev"], update, 0
        else:
            self.not_better += 1


@contextmanager
def _evaluating(system: System) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the system is in the mode in which it was."""
    was_training = system.training
    system.eval()
    with torch.no_grad():
        yield
    system.train(was_training)


def _output(system: System, inputs: Any, output: Output) -> Tensor:
    return system.score(inputs).potentials.nodes if output == "nodes" else getattr(system, output)(inputs)


def _select(inputs: Any, rows: Tensor) -> Any:
    if isinstance(inputs, Mapping):
        return {name: tensor[rows] for name, tensor in inputs.items()}
    return inputs.select(rows) if isinstance(inputs, Scored) else inputs[rows]


def _count(inputs: Any) -> int:
    if isinstance(inputs, Mapping):
        return len(next(iter(inputs.values())))
    return len(inputs.potentials.nodes) if isinstance(inputs, Scored) else len(inputs)


def _chunks(inputs: Any) -> Iterator[Any]:
    return (_select(inputs, rows) for rows in torch.arange(_count(inputs)).split(PREDICTION_BATCH))
