"""How unsure a tagger is of a sentence, in the distribution `p(y) ~ exp <theta, y>` that it decodes with.

    entropy   H(p), of whole labellings; per token, if long sentences shall not come first for their length
    margin    1 - (p(best) - p(second best))
    span      1 - the probability of the least probable entity found; where none is found, 1 - p(best)

theta is the tagger's with its global term. All are exact.
"""

from __future__ import annotations

from typing import Literal, get_args

from gspen_ner.ner.predictions import Prediction, Scored

Measure = Literal["entropy", "margin", "span"]


def uncertainties(
    scored: Scored, predictions: list[Prediction], measure: Measure, per_token: bool = False
) -> list[float]:
    """The uncertainty of each sentence of a batch.

    Args:
        scored: the tagger's scores of the batch.
        predictions: what they say.
        measure: see this module's header.
        per_token: divide the entropy by the number of tokens.
    """
    theta, chain = scored.theta, scored.chain
    if measure not in get_args(Measure):
        raise ValueError(f"measure must be one of {', '.join(get_args(Measure))}, got {measure!r}")
    if per_token and measure != "entropy":
        raise ValueError(f"only entropy can be taken per token, not {measure}")
    if measure == "entropy":
        entropy = chain.distribution_entropy(theta).clamp_min(0.0)
        return (entropy / chain.lengths if per_token else entropy).tolist()
    scores, _ = chain.k_best(theta, 2)
    best, second = (scores - chain.log_partition(theta)[:, None]).exp().clamp(0.0, 1.0).T.tolist()
    if measure == "margin":
        return [1 - (first - other) for first, other in zip(best, second, strict=True)]
    least = [min((entity.probability for entity in p.entities), default=None) for p in predictions]
    return [1 - (chance if lowest is None else lowest) for chance, lowest in zip(best, least, strict=True)]
