"""What a tagger says of sentences, and how its scores become that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm.auto import tqdm

from gspen_ner.decode import Decoder, ScoredSpan, label_lists, scored_entities
from gspen_ner.labels import Labels, Span, tags_of_spans
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain
from gspen_ner.solvers import Solution


class Labelling(NamedTuple):
    """One of the k best labellings of a sentence: its entities and its probability."""

    entities: list[Span]
    probability: float


@dataclass(frozen=True)
class Workings:
    """How a prediction came about.

    Args:
        base_marginals: the probability of each label of each token, without the global term.
        marginals: likewise with it; `base_marginals` itself if there is none.
        residuals: of inference, before its first and after each of its steps; empty without a global term.
        converged: whether the last of them is below the tolerance.
    """

    base_marginals: Float[np.ndarray, "T L"]
    marginals: Float[np.ndarray, "T L"]
    residuals: tuple[float, ...] = ()
    converged: bool = True


@dataclass(frozen=True)
class Prediction:
    """What a model says of one sentence.

    Args:
        tokens: the sentence.
        entities: with their exact marginal probabilities.
        base_entities: what the model says without its global term.
        k_best: the best labellings, best first; empty if they were not asked for.
        workings: how it came about; None if that was not asked for, or the sentence has no tokens.
    """

    tokens: tuple[str, ...]
    entities: list[ScoredSpan]
    base_entities: list[ScoredSpan]
    k_best: list[Labelling]
    workings: Workings | None = None

    @property
    def tags(self) -> list[str]:
        """The entities as BIO tags."""
        return tags_of_spans([entity.span for entity in self.entities], len(self.tokens), "BIO")


class Scored(NamedTuple):
    """Scores of some sentences as chains, to decode.

    Args:
        rows: which sentences.
        base: of the base model alone.
        theta: with the global term; `base` itself if there is none.
        chain: of both.
        solution: of inference with the global term, if there is one.
        decoder: how entities are found in both; see `scored_entities`.
    """

    rows: list[int]
    base: Parts
    theta: Parts
    chain: Chain
    solution: Solution | None = None
    decoder: Decoder = "viterbi"

    def without_base(self) -> Scored:
        """The same for those who do not ask what the base model says: it is then not decoded."""
        return self._replace(base=self.theta)


class SentenceTagger(ABC):
    """A trained model in use, whatever host it lives in; a host says how sentences are scored."""

    labels: Labels
    system: str
    """`"unary"`, `"struct"`, `"spen"` or `"gspen"`."""

    @property
    @abstractmethod
    def couples_documents(self) -> bool:
        """Whether the sentences of a document are inferred together."""

    @abstractmethod
    def scores(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        record_trace: bool = False,
    ) -> Iterator[Scored]:
        """Scores of all sentences that have words, a batch at a time, in any order; `theta` is decoded.

        Args:
            sentences: tokens of each.
            documents: equal numbers for sentences of one document; None if each stands alone.
            record_trace: whether solutions tell of every step of inference.
        """

    def tag(
        self,
        sentences: Sequence[Sequence[str]],
        documents: Sequence[int] | None = None,
        k_best: int = 0,
        workings: bool = False,
    ) -> list[Prediction]:
        """Entities of sentences; a progress bar appears if it takes long and someone is watching.

        Args:
            sentences: tokens of each.
            documents: equal numbers for sentences of one document; None if each stands alone.
            k_best: how many labellings to give besides.
            workings: also say how each prediction came about.
        """
        scored = watched(self.scores(sentences, documents, workings), len(sentences))
        return predict_all(sentences, scored, self.labels, k_best, workings)


def watched(scored: Iterable[Scored], sentences: int) -> Iterator[Scored]:
    """The same, with a progress bar if it takes long and someone is watching."""
    with tqdm(total=sentences, desc="tagging", delay=2, leave=False, disable=None) as bar:
        for batch in scored:
            yield batch
            bar.update(len(batch.rows))


def predict_all(
    sentences: Sequence[Sequence[str]],
    scored: Iterable[Scored],
    labels: Labels,
    k_best: int = 0,
    workings: bool = False,
) -> list[Prediction]:
    """What the scores of a tagger say of all its sentences.

    Args:
        sentences: tokens of each.
        scored: what the tagger's `scores` gives of them; with their trace, if workings are wanted.
        labels: the tagger's.
        k_best: labellings to give besides.
        workings: also say how each prediction came about.
    """
    found = [Prediction(tuple(tokens), [], [], []) for tokens in sentences]
    for batch in scored:
        words = [sentences[row] for row in batch.rows]
        some = predictions_of(words, batch, labels, k_best, workings)
        for row, prediction in zip(batch.rows, some, strict=True):
            found[row] = prediction
    return found


def predictions_of(
    sentences: Sequence[Sequence[str]], scored: Scored, labels: Labels, k_best: int, workings: bool = False
) -> list[Prediction]:
    """What the scores of a batch say of its sentences.

    Args:
        sentences: tokens of each.
        scored: their scores.
        labels: of these.
        k_best: labellings to give besides.
        workings: also say how each prediction came about.
    """
    _, base, theta, chain, solution, decoder = scored
    full = scored_entities(theta, chain, labels, decoder)
    alone = full if theta is base else scored_entities(base, chain, labels, decoder)
    best = _labellings(theta, chain, labels, k_best) if k_best else [[] for _ in sentences]
    how = workings_of(base, theta, chain, solution) if workings else [None] * len(sentences)
    return [
        Prediction(tuple(tokens), entities, base_entities, labellings, own_workings)
        for tokens, entities, base_entities, labellings, own_workings in zip(
            sentences, full, alone, best, how, strict=True
        )
    ]


def workings_of(base: Parts, theta: Parts, chain: Chain, solution: Solution | None) -> list[Workings]:
    """How the predictions of a batch came about.

    Args:
        base: scores of the base model alone.
        theta: scores with the global term; `base` itself if there is none.
        chain: of both.
        solution: of inference with the global term, with its trace.
    """
    before = _node_marginals(base, chain)
    after = before if theta is base else _node_marginals(theta, chain)
    if solution is None or solution.trace is None:
        return [Workings(*tables) for tables in zip(before, after, strict=True)]
    residuals = zip(solution.trace.residual.T.tolist(), solution.steps.tolist(), strict=True)
    walked = [tuple(row[: steps + 1]) for row, steps in residuals]
    rows = zip(before, after, walked, solution.converged.tolist(), strict=True)
    return [Workings(*row) for row in rows]


def _node_marginals(theta: Parts, chain: Chain) -> list[np.ndarray]:
    nodes = chain.sums(theta, with_edges=False)[1].nodes.float().cpu().numpy()
    return [table[:length] for table, length in zip(nodes, chain.lengths.tolist(), strict=True)]


def _labellings(theta: Parts, chain: Chain, labels: Labels, k: int) -> list[list[Labelling]]:
    scores, paths = chain.k_best(theta, k)
    probabilities = (scores - chain.log_partition(theta)[:, None]).exp()
    return [
        [
            Labelling(labels.spans_of_indices(path), probability)
            for path, probability in zip(label_lists(row), chances, strict=True)
            if path
        ]
        for row, chances in zip(paths, probabilities.tolist(), strict=True)
    ]
