"""System: a scorer, and a head over its potentials. Every tagger of this package is one.

    inputs -> potentials, polytope, context -> head -> loss, solution, labels

`GSPENForTokenClassification` and `GSPENTagger` are systems that belong to their libraries too, and score
sentences in these libraries' manner. The paper's systems on a factor graph are:

    Unary      scores of single nodes             over simplices
    Struct     + tables of pairs                  over the graph
    SPEN       Unary's scores, a global term      over simplices
    NLStruct   Struct's scores, the term NLStruct over the graph
    GSPEN      Struct's scores, a global term     over the graph
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gspen_ner.head import GSPENHead, HeadLoss
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Polytope
from gspen_ner.solvers import Solution
from gspen_ner.terms import Context

logger = logging.getLogger(__name__)
SystemName = Literal["unary", "struct", "spen", "gspen"]
"""The systems that a tagger can be: without or with scores of neighbouring labels, and a global term."""


class Scored(NamedTuple):
    """Scores of a batch, their polytope and the context of the term.

    Args:
        potentials: scores of labels and of pairs of labels.
        polytope: where their marginals live.
        context: mask, document numbers and mentions.
    """

    potentials: Parts
    polytope: Polytope
    context: Context

    def select(self, rows: Int[Tensor, " K"]) -> Scored:
        """Return some examples of the batch; of a term that couples documents, whole documents only."""
        potentials, polytope, context = self
        return Scored(potentials.select(rows), polytope.select(rows), context.select(rows))

    @staticmethod
    def join(batches: Sequence[Scored]) -> Scored:
        """Return several batches as one."""
        potentials, polytopes, contexts = zip(*batches, strict=True)
        return Scored(Parts.join(potentials), polytopes[0].join(polytopes[1:]), Context.join(contexts))


class Inference(NamedTuple):
    """Scores of a batch before and after inference.

    Args:
        potentials: scores of the base model.
        theta: scores of base model and term together, whose best labelling is the prediction.
        polytope: where their marginals live.
        solution: the solver's result; None without a term.
    """

    potentials: Parts
    theta: Parts
    polytope: Polytope
    solution: Solution | None


class SystemLoss(NamedTuple):
    """The mean loss of a batch, and how its inference went; None without a term."""

    loss: Float[Tensor, ""]
    steps: Float[Tensor, ""] | None = None
    """Mean number of inference steps."""
    negative: Float[Tensor, ""] | None = None
    """Share of the examples whose inference ended below the gold labels."""


class System(nn.Module):
    """A scorer and a head over its potentials.

    Args:
        scorer: returns the potentials of inputs and the polytope that they live on.
        head: the global term and its inference; by default none, and the loss is the likelihood.

    Inputs are whatever the scorer takes. Of a mapping, `documents` and `mentions` go into the term's context
    (see `Context`). Scores that were computed before (`Scored`) are taken as they are.

    Example:
        >>> from gspen_ner import Chain, PaddedMLP
        >>> def scorer(nodes):
        ...     return Parts(nodes, torch.zeros(3, 3)), Chain(torch.full((len(nodes),), nodes.shape[1]))
        >>> system = System(scorer, GSPENHead(PaddedMLP(num_labels=3, max_length=4)))
        >>> system.argmax(torch.tensor([[[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]]))
        tensor([[1, 0]])
    """

    scorer: Callable[..., tuple[Parts, Polytope]]
    head: GSPENHead
    keep_documents_together = "give each document's sentences the same number, and put them into one batch"
    """Advice to users whose training batches hold single sentences of documents."""

    def __init__(self, scorer: Callable[..., tuple[Parts, Polytope]], head: GSPENHead | None = None) -> None:
        super().__init__()
        self.scorer = scorer
        self.head = GSPENHead(cost=0.0) if head is None else head

    def score(self, inputs: Any) -> Scored:
        """Return the scores of inputs."""
        if isinstance(inputs, Scored):
            return inputs
        potentials, polytope = self.scorer(inputs)
        return Scored(potentials, polytope, context_of(inputs, potentials, polytope))

    def forward(self, inputs: Any, labels: Int[Tensor, "B N"]) -> SystemLoss:
        """Return the mean loss of a batch."""
        return self.loss(self.score(inputs), labels)

    def losses(self, scored: Scored, labels: Int[Tensor, "B N"]) -> HeadLoss:
        """Return the loss of each example of a batch of scores."""
        potentials, polytope, context = scored
        if self.couples_documents and self.training:
            self._warn_of_lone_sentences(context)
        return self.head.loss(potentials, polytope, labels, context)

    def loss(self, scored: Scored, labels: Int[Tensor, "B N"]) -> SystemLoss:
        """Return the mean loss of a batch of scores."""
        result = self.losses(scored, labels)
        if result.solution is None:
            return SystemLoss(result.loss.mean())
        steps = result.solution.steps.float().mean()
        return SystemLoss(result.loss.mean(), steps, result.negative.float().mean())

    def infer(self, inputs: Any, record_trace: bool = False) -> Inference:
        """Return the scores of inputs and, if there is a term, what inference makes of them."""
        scored = self.score(inputs)
        if self.head.term is None:
            return Inference(scored.potentials, scored.potentials, scored.polytope, None)
        solution = self.head.infer(*scored, record_trace)
        return Inference(scored.potentials, solution.theta, scored.polytope, solution)

    def argmax(self, inputs: Any) -> Int[Tensor, "B N"]:
        """Return the best labelling of each example; -1 on padding."""
        inference = self.infer(inputs)
        return inference.polytope.argmax(inference.theta)

    def marginals(self, inputs: Any) -> Float[Tensor, "B N L"]:
        """Return the probability of every label, at the temperature that the system is trained with."""
        inference = self.infer(inputs)
        if inference.solution is not None:
            return inference.solution.marginals.nodes
        potentials = inference.potentials * (1 / (self.head.temperature or 1.0))
        return inference.polytope.sums(potentials, with_edges=False)[1].nodes

    def steps(self, inputs: Any) -> Int[Tensor, " B"]:
        """Return the number of inference steps of each example; zeros without a term."""
        inference = self.infer(inputs)
        if inference.solution is None:
            return torch.zeros(len(inference.potentials.nodes), dtype=torch.long)
        return inference.solution.steps

    @property
    def couples_documents(self) -> bool:
        """Whether the term scores documents as a whole, so that their sentences must share a batch."""
        return self.head.couples_documents

    @property
    def base_parts(self) -> Sequence[str]:
        """Names of the submodules of the base model: all but the head."""
        return [name for name, _ in self.named_children() if name != "head"]

    @property
    def base_frozen(self) -> bool:
        """Whether training leaves the base model as it is."""
        return bool(self._frozen) and self._frozen.keys() >= set(self.base_parts)

    _frozen: Mapping[str, bool] = {}
    """Names of frozen submodules, and whether each keeps its dropout in training."""
    _unlearned: frozenset[str] = frozenset()
    """Names of the parameters that `freeze` has disabled."""

    def freeze(self, *parts: str, dropout: bool = False) -> Self:
        """Let training leave submodules as they are.

        Args:
            parts: names of submodules, such as `"scorer.pairs"`; by default the base model.
            dropout: whether their dropout stays on in training, so that what learns on top of them meets
                errors to correct.

        Example:
            >>> system = System(nn.Dropout()).freeze()
            >>> system.train().scorer.training, system.head.training
            (False, True)
        """
        parts = parts or tuple(self.base_parts)
        unknown = [part for part in parts if part not in dict(self.named_modules())]
        if unknown:
            raise ValueError(
                f"expected names of submodules, got {unknown[0]!r}: the system has none of that name"
            )
        for name, parameter in self._parameters_of(parts):
            if parameter.requires_grad:
                self._unlearned |= {name}
                parameter.requires_grad_(False)
        self._frozen = {**self._frozen, **dict.fromkeys(parts, dropout)}
        return self.train(self.training)

    def unfreeze(self) -> Self:
        """Re-enable the parameters that `freeze` disabled."""
        for name, parameter in self.named_parameters():
            if name in self._unlearned:
                parameter.requires_grad_(True)
        self._frozen, self._unlearned = {}, frozenset()
        return self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode; frozen submodules without dropout stay in evaluation mode."""
        super().train(mode)
        for name, dropout in self._frozen.items():
            self.get_submodule(name).train(mode and dropout)
        return self

    def _parameters_of(self, parts: Sequence[str]) -> Iterator[tuple[str, nn.Parameter]]:
        for part in parts:
            for name, parameter in self.get_submodule(part).named_parameters():
                yield f"{part}.{name}", parameter

    _warned = False

    def _warn_of_lone_sentences(self, context: Context) -> None:
        """Warn once that a document term learns nothing from sentences that stand alone."""
        documents = context.documents
        if self._warned or documents is None or not 1 < len(documents) == len(documents.unique()):
            return
        self._warned = True
        logger.warning(
            "the global term couples the sentences of a document, but no two sentences of this batch belong "
            "to one document: %s",
            self.keep_documents_together,
        )


def context_of(inputs: Any, potentials: Parts, polytope: Polytope) -> Context:
    """Return the context of a batch: which nodes there are and, of a mapping, documents and mentions."""
    nodes = potentials.nodes
    mask = polytope.mask(nodes.shape[1]).expand(len(nodes), -1)
    if not isinstance(inputs, Mapping):
        return Context(mask)
    return Context(mask, inputs.get("documents"), inputs.get("mentions"))
