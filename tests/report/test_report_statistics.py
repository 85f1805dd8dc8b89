"""What the report measures: convergence, learning curves, marginals in few bytes, and everything together."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.ner.metrics import evaluate_predictions
from gspen_ner.ner.predictions import Prediction, Workings
from gspen_ner.report.sentences import packed, sentence_entries, unpacked
from gspen_ner.report.statistics import Curve, convergence, read_curves
from gspen_ner.report.svg import round_ticks
from tests.report.report_examples import news

TABLE = np.full((1, 2), 0.5, dtype=np.float32)


def walked(*residuals, converged=True):
    return Prediction(("a",), [], [], [], Workings(TABLE, TABLE, residuals, converged))


class TestConvergence:
    def test_steps_are_counted_and_residuals_kept_to_the_end(self):
        summary = convergence([walked(4.0, 0.1), walked(8.0, 4.0, 2.0, converged=False), walked(0.5)])
        assert summary.steps == [1, 1, 1]
        assert summary.converged == pytest.approx(2 / 3)
        assert [row[1] for row in summary.residuals] == [4.0, 0.5, 0.5]

    def test_no_inference_no_convergence(self):
        assert convergence([Prediction(("a",), [], [], []), walked()]) is None

    def test_an_infinite_first_residual(self):
        summary = convergence([walked(np.inf, 0.5), walked(np.inf, 0.1)])
        assert summary.residuals[0] is None
        assert summary.residuals[1][1] == pytest.approx(0.3)


class TestCurves:
    def test_a_run_has_a_curve_a_stage(self, trained):
        base, term = read_curves(trained)
        assert (base.stage, term.stage) == ("base", "term")
        assert [epoch for epoch, _ in base.f1] == [1, 2, 3, 4, 5, 6]
        assert [epoch for epoch, _ in base.loss] == [1, 2, 3, 4, 5, 6]
        lines = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
        assert base.f1[-1][1] == [e["eval_f1"] for e in lines if e["stage"] == "base" and "eval_f1" in e][-1]

    def test_a_model_without_a_run_has_no_curve(self, trained):
        assert read_curves(trained / "model") == []

    def test_losses_may_be_missing_or_nan(self, tmp_path):
        lines = [{"stage": "base", "epoch": 1, "eval_f1": 0.5}, {"stage": "base", "epoch": 1, "loss": np.nan}]
        (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
        assert read_curves(tmp_path) == [Curve("base", [(1, 0.5)], [])]

    def test_numbers_too_large_are_left_out(self, tmp_path):
        line = f'{{"stage": "base", "epoch": 1, "eval_f1": {"9" * 5000}}}'
        (tmp_path / "metrics.jsonl").write_text(line)
        assert read_curves(tmp_path) == [Curve("base", [], [])]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "metrics.jsonl:2: not JSON"),
            ("[" * 3000, "metrics.jsonl:2: not JSON"),
            ("[]", "metrics.jsonl:2: expected an object with a stage"),
            ('{"stage": "base", "loss": "x"}', "metrics.jsonl:2: expected a number as loss, got 'x'"),
        ],
    )
    def test_invalid_metrics_are_refused(self, line, message, tmp_path):
        (tmp_path / "metrics.jsonl").write_text(f'{{"stage": "base"}}\n{line}\n')
        with pytest.raises(ValueError, match=message):
            read_curves(tmp_path)


@given(st.integers(1, 30), st.integers(1, 300), st.integers(0, 2**16))
def test_packed_marginals_are_as_they_were_to_a_byte(tokens, labels, seed):
    table = np.random.default_rng(seed).dirichlet(np.full(labels, 0.1), tokens)
    assert np.abs(unpacked(packed(table), tokens, labels) - table).max() <= 0.5 / 255 + 1e-9


def test_likely_tables_are_packed_into_few_bytes():
    table = np.eye(17)[np.zeros(30, dtype=int)]
    assert len(packed(table)) <= 30 * 8 + 4


@given(st.floats(-1000, 1000), st.floats(0, 1000), st.integers(2, 8))
def test_ticks_are_few_and_cover_the_range(low, width, about):
    ticks = round_ticks(low, low + width, about)
    assert ticks[0] <= low + 1e-6
    assert ticks[-1] >= low + width - 1e-6
    assert 2 <= len(ticks) <= about + 3
    assert ticks == sorted(set(ticks))


def test_statistics_are_those_of_evaluate():
    example = news()
    statistics = example.statistics
    assert statistics.names == ["CRF", "CRF + GSPEN"]
    assert statistics.evaluation == evaluate_predictions(example.file.sentences, example.predictions, True)
    assert statistics.documents == 12
    for counted, assessment in zip(statistics.confusions, statistics.assessments, strict=True):
        for number, entity_type in enumerate(statistics.types):
            score = assessment.score.types[entity_type]
            assert counted.taken_for[number][number] == round(score.recall * score.support)
    assert statistics.convergence is not None


def test_a_plain_crf_has_one_of_everything():
    statistics = news(system="struct").statistics
    assert statistics.names == ["CRF"]
    assert (statistics.convergence, statistics.evaluation.changes, statistics.has_term) == (None, None, False)
    assert len(statistics.confusions) == len(statistics.intervals.systems) == len(statistics.assessments) == 1


def test_changes_of_the_sentences_add_up():
    example = news()
    entries = sentence_entries(example.file.sentences, example.predictions, example.statistics.types, True)
    changes = example.statistics.evaluation.changes
    sums = [sum(column) for column in zip(*(entry["x"] for entry in entries), strict=True)]
    assert sums == [changes.fixed, changes.broken, changes.same]
