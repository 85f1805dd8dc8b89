"""Score sources: which scores of the training data a global term learns from.

A base model is almost always right on the data that it was trained on. A term that learns from those scores
meets no errors to correct, and learns little. Two sources have errors as in new text:

    Plain           scores of the base model as it is
    DropoutDraws    scores of the base model with its dropout on, several times over
    CrossFit        scores by models that were trained on the other parts of the data

A source is a value; how to train and to score is the business of a host (`ScoringHost`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated, Any, Protocol, TypeVar

from annotated_types import Ge

from gspen_ner.components import Count, Registry

Base = TypeVar("Base", contravariant=True)
Scores = TypeVar("Scores")


class ScoringHost(Protocol[Base, Scores]):
    """What a source asks of a library: to train base models, and to score training examples.

    Attributes:
        documents: number of the document of each training example; examples of a document stay together.
        fold_seed: seed of the division into folds; None divides documents in their order.
    """

    @property
    def documents(self) -> Sequence[int]: ...

    @property
    def fold_seed(self) -> int | None: ...

    def fit(self, name: str, rows: Sequence[int], epochs: int | None) -> Any:
        """Return a new base model, trained on some of the training examples.

        Args:
            name: name of the training, for folders and logs.
            rows: numbers of the examples.
            epochs: number of epochs; None for as many as the base model's.
        """

    def load(self, folder: str, name: str) -> Any:
        """Return the base model that a training of this name has left in the folder of another run."""

    def score(self, base: Base, rows: Sequence[int] | None = None, draw: int | None = None) -> Scores:
        """Return the scores of training examples.

        Args:
            base: the model that scores.
            rows: numbers of the examples, scored by a model that has not seen them; None for all examples.
            draw: number of a draw of dropout masks; None scores without dropout.
        """

    def join(self, parts: Sequence[tuple[Sequence[int], Scores]]) -> Scores:
        """Return the scores of all examples, from parts with the numbers of their examples."""


class ScoreSource(Protocol):
    """Which scores of the training data a term learns from."""

    def versions(self, host: ScoringHost[Any, Scores], base: Any) -> list[Scores]:
        """Return versions of the scores of all training examples; each epoch takes the next."""


SCORE_SOURCES: Registry[ScoreSource] = Registry("score source")
"""Score sources by the names that recipes use."""


@SCORE_SOURCES.register("plain")
class Plain:
    """Scores of the base model as it is: right for a base model that has not seen the training data.

    Example:
        >>> SCORE_SOURCES.entry_of(Plain())
        {'name': 'plain'}
    """

    def __init__(self) -> None:
        pass

    def versions(self, host: ScoringHost[Any, Scores], base: Any) -> list[Scores]:
        return [host.score(base)]


@SCORE_SOURCES.register("dropout_draws")
class DropoutDraws:
    """Scores of the base model with its dropout on: cheap, and nearly as good as cross-fitting.

    Args:
        draws: number of versions of the scores, each with dropout masks of its own.

    Example:
        >>> SCORE_SOURCES.make({"name": "dropout_draws"}).draws
        3
    """

    def __init__(self, draws: Count = 3) -> None:
        self.draws = draws

    def versions(self, host: ScoringHost[Any, Scores], base: Any) -> list[Scores]:
        return [host.score(base, draw=draw) for draw in range(self.draws)]


@SCORE_SOURCES.register("cross_fit")
class CrossFit:
    """Out-of-fold scores; trains one model per fold.

    Args:
        folds: number of parts of the training documents; each is scored by a model trained on all others.
        epochs: epochs of each of these models; by default as many as the base model's.
        models_of: folder of a run whose models of the same folds are used again; by default they are trained.

    Example:
        >>> CrossFit(folds=3).divide([7, 7, 8, 9], seed=None)
        [[0, 1], [2], [3]]
    """

    def __init__(
        self,
        folds: Annotated[int, Ge(2)] = 2,
        epochs: Count | None = None,
        models_of: str | None = None,
    ) -> None:
        self.folds, self.epochs, self.models_of = folds, epochs, models_of

    def versions(self, host: ScoringHost[Any, Scores], base: Any) -> list[Scores]:
        parts = self.divide(host.documents, host.fold_seed)
        scored = []
        for fold, rows in enumerate(parts):
            others = sorted(row for part in parts if part is not rows for row in part)
            name = f"fold-{fold + 1}"
            if self.models_of is None:
                model = host.fit(name, others, self.epochs)
            else:
                model = host.load(self.models_of, name)
            scored.append((rows, host.score(model, rows)))
        return [host.join(scored)]

    def divide(self, documents: Sequence[int], seed: int | None) -> list[list[int]]:
        """Return the numbers of the examples of each fold, in their order.

        Args:
            documents: document of each example.
            seed: seed of the division; None divides documents in their order.
        """
        different = sorted(set(documents))
        if len(different) < self.folds:
            raise ValueError(
                f"expected at least {self.folds} training documents for {self.folds} folds, "
                f"got {len(different)}"
            )
        if seed is not None:
            random.Random(seed).shuffle(different)
        fold_of = {document: number % self.folds for number, document in enumerate(different)}
        parts: list[list[int]] = [[] for _ in range(self.folds)]
        for row, document in enumerate(documents):
            parts[fold_of[document]].append(row)
        return parts


DEFAULT_SCORES: ScoreSource = CrossFit()
"""The score source of every `train_term` by default."""
