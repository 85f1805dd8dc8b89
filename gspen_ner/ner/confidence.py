"""Confidences of entities: a model's exact probabilities, corrected by how often such entities were right.

    confidence = sigmoid(slope * logit((p + p_base) / 2) + offset)

p is the probability of an entity with the global term, p_base under the base model's chain; without a term
both are the same. `calibrate` fits slope and offset on held-out sentences. What is predicted stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, ValidationError

from gspen_ner.components import NonNegative, Positive
from gspen_ner.decode import THRESHOLD, ScoredSpan

SMALLEST = 1e-5  # of a probability and of its complement: less is little more than rounding errors


class Confidence(BaseModel):
    """How sure one system is of its entities: see the header of this module.

    Args:
        slope: factor of the log odds; below 1 for a system that is too sure.
        offset: summand of the log odds.
        threshold: probability above which the decoder `spans` predicts an entity; see `scored_entities`.

    Example:
        >>> confidence = Confidence.fit([0.99] * 10, [0.99] * 10, [True] * 8 + [False] * 2)
        >>> round(float(confidence(0.99, 0.99)), 2), round(float(confidence(0.5, 0.5)), 2)
        (0.81, 0.46)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    slope: NonNegative = 1.0
    offset: float = 0.0
    threshold: Annotated[float, Gt(0), Lt(1)] = THRESHOLD

    @classmethod
    def fit(
        cls,
        probabilities: Sequence[float],
        base_probabilities: Sequence[float],
        right: Sequence[bool],
        threshold: float = THRESHOLD,
    ) -> Self:
        """Return the likeliest slope and offset under a normal prior around 1 and 0 with deviation 1.

        Args:
            probabilities: probability of each predicted entity.
            base_probabilities: the same without the global term.
            right: whether each of them is right.
            threshold: threshold by which they were predicted.
        """
        from scipy.optimize import minimize  # which `import gspen_ner` does not import

        odds, signs = _log_odds(probabilities, base_probabilities), np.where(right, 1.0, -1.0)

        def loss(values: np.ndarray) -> float:
            misfit = np.logaddexp(0.0, -signs * (values[0] * odds + values[1])).sum()
            return misfit + ((values - (1.0, 0.0)) ** 2).sum() / 2

        bounds = [(0.0, None), (None, None)]  # a likelier entity is never less sure
        slope, offset = minimize(loss, (1.0, 0.0), method="L-BFGS-B", bounds=bounds).x
        return cls(slope=float(slope), offset=float(offset), threshold=threshold)

    def __call__(self, probabilities: ArrayLike, base_probabilities: ArrayLike) -> np.ndarray:
        """Return the confidences in entities, given their probabilities with and without the global term."""
        return 1 / (1 + np.exp(-self.slope * _log_odds(probabilities, base_probabilities) - self.offset))

    def of(
        self, entities: Sequence[Sequence[ScoredSpan]], base: Sequence[Sequence[float]] | None = None
    ) -> list[list[ScoredSpan]]:
        """Return the entities of sentences with confidences in place of probabilities.

        Args:
            entities: entities of each sentence with their probabilities.
            base: the same probabilities without the global term; by default there is no term.
        """
        given = [entity.probability for row in entities for entity in row]
        before = given if base is None else [probability for row in base for probability in row]
        confidences = iter(self(given, before).tolist())
        return [[ScoredSpan(entity.span, next(confidences)) for entity in row] for row in entities]


class Confidences(BaseModel):
    """The confidences of a tagger, as its model keeps them.

    Args:
        full: of the model with its global term, or of the base model if there is none.
        base: of the base model.
        tokens: exponent of the probabilities of tokens' labels, which are then normalised: what the
            token-classification pipeline of transformers gives. The likeliest label stays the likeliest.

    Example:
        >>> Confidences.read({"full": {"slope": 0.5, "offset": -0.1}, "base": {}}).full
        Confidence(slope=0.5, offset=-0.1, threshold=0.5)
    """

    model_config = Confidence.model_config

    full: Confidence = Confidence()
    base: Confidence = Confidence()
    tokens: Positive = 1.0

    @classmethod
    def read(cls, entry: Any) -> Self:
        """Return what a model file holds.

        Raises:
            ValueError: names the value that is refused.
        """
        try:
            return cls.model_validate(entry)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, ("confidences", *problem["loc"])))
            raise ValueError(f"{where}: {problem['msg']}, got {problem['input']!r}") from None


def _log_odds(probabilities: ArrayLike, base_probabilities: ArrayLike) -> np.ndarray:
    """Return the log odds of the mean of two probabilities."""
    mean = (np.asarray(probabilities, float) + np.asarray(base_probabilities, float)) / 2
    return np.log(mean.clip(SMALLEST, 1)) - np.log((1 - mean).clip(SMALLEST, 1))
