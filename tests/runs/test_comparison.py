"""Runs are compared seed by seed, with the base model that they share."""

import json
import shutil
from dataclasses import replace

import pytest

from gspen_ner.labels import Span
from gspen_ner.ner.intervals import paired_gain
from gspen_ner.runs.comparison import best_on_dev, compare_runs
from gspen_ner.runs.run import SplitEntities, read_results
from tests.tiny import gspen_ner, train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of a CRF, each with two terms on top; one of them with everything trained."""
    folder = tmp_path_factory.mktemp("study")
    found = []
    for seed in (1, 2):
        base = train(folder / f"crf-{seed}", system="struct", terms=[], seed=seed)
        shared = {"seed": seed, "base": str(base / "base" / "best")}
        found += [base, train(folder / f"document-{seed}", **shared)]
        found.append(
            train(folder / f"everything-{seed}", **shared, term_training={"freeze": "none", "epochs": 1})
        )
    return found


def copied(run, folder):
    return shutil.copytree(run, folder / run.name)


def test_every_system_stands_beside_the_crf_of_its_seed(runs):
    crf, document, everything = compare_runs(runs)
    assert [system.name for system in (crf, document, everything)] == ["CRF", "document", "everything"]
    assert crf.seeds == document.seeds == everything.seeds == (1, 2)
    assert crf.gains is None
    for system in (document, everything):
        expected = [
            100 * (read_results(run / "results.json").test.full.score.f1 - base)
            for run, base in zip(
                [run for run in runs if run.name.startswith(system.name)],
                [read_results(run / "results.json").test.base.score.f1 for run in runs[::3]],
                strict=True,
            )
        ]
        assert system.gains.values == pytest.approx(expected)
        low, high = system.bootstrap.interval
        assert 100 * low <= system.gains.mean <= 100 * high


def test_the_order_of_runs_does_not_matter(runs):
    assert [s.test_f1 for s in compare_runs(runs)[1:]] == [s.test_f1 for s in compare_runs(runs[::-1])[:0:-1]]


def test_dev_chooses_among_the_systems_with_all_seeds(runs):
    systems = compare_runs(runs)
    means = [system.dev_f1.mean for system in systems]
    assert best_on_dev(systems) is systems[means.index(max(means))]
    crf, document, everything = systems
    only_first = [crf, replace(document, candidates=document.candidates[:1]), everything]
    assert best_on_dev(only_first) is max(crf, everything, key=lambda system: system.dev_f1.mean)
    assert best_on_dev([only_first[1], replace(crf, candidates=crf.candidates[1:])]) is None


def test_as_a_command(runs):
    shown = gspen_ner("compare", *runs)
    assert shown.exit_code == 0, shown.output
    figures = f"{compare_runs(runs)[1].test_f1:.2f}"
    assert figures in shown.output
    assert "of 2 seeds" in shown.output
    written = gspen_ner("compare", "--markdown", *runs).output
    assert figures in written
    assert written.count("\n| ") == 4, "a rule and three systems below the header"
    choice = f"Best on dev, of the systems with all seeds: {best_on_dev(compare_runs(runs)).name}."
    assert choice in written
    assert choice in shown.output


def test_reliability_is_that_of_all_seeds_together(runs):
    document = compare_runs(runs)[1]
    bins = [read_results(run / "results.json").test.full.calibration.bins for run in runs[1::3]]
    sizes = [size for each in bins for _, _, size in each]
    assert sum(size for _, _, size in document.reliability.values()) == sum(sizes) > 0
    for tenth, (confidence, accuracy, size) in document.reliability.items():
        own = [said for each in bins for said in each if tenth / 10 <= said[0] <= (tenth + 1) / 10]
        assert accuracy * size == pytest.approx(sum(right * number for _, right, number in own))
        assert confidence * size == pytest.approx(sum(sure * number for sure, _, number in own))


def test_reliability_as_a_command(runs):
    tenth, (confidence, accuracy, size) = max(compare_runs(runs)[1].reliability.items())
    cell = f"{100 * confidence:.1f}: {100 * accuracy:.1f}"
    written = gspen_ner("compare", "--reliability", "--markdown", *runs).output.splitlines()
    assert f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f} |" in written[0]
    assert f"{cell}, {size:,}" in next(line for line in written if line.startswith("| document"))
    assert cell in gspen_ner("compare", "--reliability", *runs).output


def test_a_run_without_its_base_among_the_others_is_refused(runs):
    result = gspen_ner("compare", runs[2])
    assert result.exit_code != 0
    assert "no base model with seed 1" in result.output


def test_base_models_that_differ_are_refused(runs, tmp_path):
    other = copied(runs[0], tmp_path)
    found = SplitEntities.load(other, "test")
    SplitEntities(found.gold, [[Span(0, 9, "X")] for _ in found.base], None).save(other, "test")
    with pytest.raises(ValueError, match="two base models that differ with seed 1"):
        compare_runs([*runs, other])


def test_other_test_data_is_refused(runs, tmp_path):
    other = copied(runs[3], tmp_path)
    found = SplitEntities.load(other, "test")
    SplitEntities([[Span(0, 1, "PER")] for _ in found.gold], found.base, None).save(other, "test")
    with pytest.raises(ValueError, match="expected the same test data"):
        compare_runs([runs[0], other])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("entities-test.json", "{}", "not a file of entities"),
        ("entities-test.json", '{"gold": [[]], "base": [], "full": null}', "of the same sentences"),
        ("results.json", "[]", "not the results of one run"),
        ("results.json", None, "is .* a finished run"),
        ("entities-test.json", None, "no such file"),
    ],
)
def test_damaged_runs_are_refused(runs, tmp_path, name, content, message):
    other = copied(runs[0], tmp_path)
    if content is None:
        (other / name).unlink()
    else:
        (other / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        compare_runs([other])


def test_found_entities_are_those_of_the_results(runs):
    for run in runs:
        entities, results = SplitEntities.load(run, "dev"), json.loads((run / "results.json").read_text())
        assert (entities.full is None) == (results["dev"]["full"] is None)
        right = sum(len(set(g) & set(f)) for g, f in zip(entities.gold, entities.base, strict=True))
        total = sum(map(len, entities.gold)) + sum(map(len, entities.base))
        assert results["dev"]["base"]["score"]["micro"]["f1"] == pytest.approx(2 * right / max(total, 1))


def test_a_gain_over_several_seeds_is_that_of_their_means():
    gold = [[Span(0, 1, "LOC")]] * 40
    half = [gold[0]] * 20 + [[]] * 20
    gain = paired_gain(gold, [half, [[]] * 40], [half, gold])
    assert gain.interval == pytest.approx((0.5, 0.5))  # +0 and +1, whatever is drawn
    assert gain.better == 1.0
    assert paired_gain(gold, [half], [half]).better == 0.0
