"""Confidences from probabilities: what is fitted is what was distorted, and little data does no harm."""

import json

import numpy as np
import pytest
from scipy.special import expit

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.confidence import Confidence, Confidences


def distorted(slope, offset, count=5000):
    """Probabilities that are too sure, and which of their entities are right."""
    random = np.random.default_rng(3)
    odds = random.normal(2, 3, count)
    return expit(odds), random.random(count) < expit(slope * odds + offset)


@pytest.mark.parametrize(("slope", "offset"), [(0.5, -0.3), (1.0, 0.0), (1.6, 0.4)])
def test_a_known_distortion_is_found(slope, offset):
    probabilities, right = distorted(slope, offset)
    confidence = Confidence.fit(probabilities, probabilities, right)
    assert confidence.slope == pytest.approx(slope, abs=0.1)
    assert confidence.offset == pytest.approx(offset, abs=0.1)
    assert confidence(probabilities, probabilities).mean() == pytest.approx(right.mean(), abs=1e-3)


def test_it_is_a_function_of_the_mean_of_both_probabilities():
    confidence = Confidence(slope=0.5, offset=-0.2)
    assert confidence(0.9, 0.3) == pytest.approx(expit(0.5 * np.log(0.6 / 0.4) - 0.2))
    [[scored]] = confidence.of([[ScoredSpan(Span(0, 1, "A"), 0.9)]], [[0.3]])
    assert scored == (Span(0, 1, "A"), pytest.approx(float(confidence(0.9, 0.3))))
    assert confidence.of([[], [ScoredSpan(Span(0, 1, "A"), 0.9)]])[1][0].probability == confidence(0.9, 0.9)


def test_little_data_do_no_harm():
    assert Confidence.fit([], [], []) == Confidence(slope=1.0, offset=0.0)
    assert float(Confidence()(0.7, 0.7)) == pytest.approx(0.7), "the identity"
    one_wrong = Confidence.fit([0.9], [0.9], [False])
    assert 0.3 < float(one_wrong(0.9, 0.9)) < 0.9
    no_error = Confidence.fit([0.99] * 500, [0.99] * 500, [True] * 500)
    assert 0.99 < float(no_error(0.99, 0.99)) < 1


def test_a_likelier_entity_is_never_less_sure():
    probabilities = [0.6] * 50 + [0.99] * 50
    confidence = Confidence.fit(probabilities, probabilities, [True] * 50 + [False] * 50)
    assert confidence.slope == 0
    assert float(confidence(0.6, 0.6)) == pytest.approx(0.5, abs=0.05)


def test_certain_entities_have_finite_odds():
    values = Confidence(slope=1.0)([0.0, 1.0, 1.0000001], [0.0, 1.0, 1.0])
    assert (np.diff(values) >= 0).all()
    assert 0 < values.min() < values.max() < 1


def test_files_hold_plain_data():
    confidences = Confidences(full=Confidence(slope=0.4, threshold=0.45), tokens=0.7)
    assert Confidences.read(json.loads(json.dumps(confidences.model_dump()))) == confidences


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (5, "confidences: .* got 5"),
        ({"full": {"slope": -1.0}}, "confidences.full.slope: .* got -1.0"),
        ({"full": {"slope": "0.5"}}, "confidences.full.slope: .* got '0.5'"),
        ({"base": {"offset": float("nan")}}, "confidences.base.offset: .* got nan"),
        ({"base": {"threshold": 1.0}}, "confidences.base.threshold: .* got 1.0"),
        ({"tokens": 0.0}, "confidences.tokens: .* got 0.0"),
        ({"odds": 1.0}, "confidences.odds: .* got 1.0"),
    ],
)
def test_other_data_are_refused(entry, message):
    with pytest.raises(ValueError, match=message):
        Confidences.read(entry)
