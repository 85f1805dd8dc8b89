"""Tables of the OCR study: means and deviations over seeds of each system."""

import re
import statistics

import pytest
from rich.console import Console

from gspen_ner.runs.tables import OverSeeds
from recipes.ocr.inference_study import StudyCase, study_cases
from recipes.ocr.report import accuracies, at_one_cell, inference_curves, ocr_tables
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.systems import OCRResult
from recipes.studies.results import SYSTEMS
from tests.recipes.commands import load_study

CHANGES = ["alphas=[0.7,0.3,0.5]", "sizes=[1000,200]", "study.max_steps=[3,10]"]
RECIPE = load_study(OCRRecipe, "ocr/ocr.yaml", CHANGES)
TITLES = (
    "test accuracy by alpha, 1000 training words",
    "test accuracy by training size, alpha 0.5",
    "what training takes",
    "GSPEN's inference",
)


def result(system, alpha=0.5, size=1000, seed=1, words=50.0, letters=80.0, **others):
    """A result that was made up."""
    entries = {"seconds_an_epoch": 1.0, "inference_steps": 0.0, "negative_losses": 0.0} | others
    accuracy = {
        "test_words": words,
        "test_letters": letters,
        "dev_words": words - 1,
        "dev_letters": letters - 1,
    }
    cell = {"system": system, "alpha": alpha, "size": size, "seed": seed, "hidden": 0, "updates": 100}
    return OCRResult(**cell, **accuracy, **entries)


def words_of(system, alpha, size, seed):
    """Another number for each."""
    return 10.0 * list(SYSTEMS).index(system) + 10 * (1 - alpha) + size / 200 + seed


def made_up(seeds=(1, 2, 3)):
    """All systems in all cells of the recipe."""
    cells = [(alpha, 1000) for alpha in RECIPE.alphas] + [(0.5, 200)]
    return [
        result(
            system, alpha, size, seed, words_of(system, alpha, size, seed), seconds_an_epoch=seed**2 * 0.01
        )
        for alpha, size in cells
        for seed in seeds
        for system in SYSTEMS
    ]


def made_up_study(seeds=(1, 2)):
    cases = study_cases(RECIPE.study.max_steps, RECIPE.gspen.inference)
    return [
        result(name, seed=seed, words=float(40 + number + seed))
        for number, (name, _, _) in enumerate(cases)
        for seed in seeds
    ]


def shown(results, recipe=RECIPE):
    """Title and rows of each table as texts."""
    found = {}
    for table in ocr_tables(recipe, results):
        console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        console.print(table)
        lines = console.export_text().splitlines()
        rows = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines if line[:1] in "│┃"]
        start = next(number for number, line in enumerate(lines) if line.startswith("┏"))
        found[" ".join(line.strip() for line in lines[:start])] = rows
    return found


def row_of(rows, *names):
    (found,) = [row[len(names) :] for row in rows if tuple(row[: len(names)]) == names]
    return found


def test_there_are_four_tables_with_titles_that_say_what_they_hold():
    titles = list(shown(made_up() + made_up_study()))
    for title, start in zip(titles, TITLES, strict=True):
        assert title.startswith(start)
    assert titles[0].endswith("(%, mean ± standard deviation of 3 seeds)")
    assert titles[3].endswith("(%, mean ± standard deviation of 2 seeds)")


def test_accuracy_by_alpha_and_by_size():
    by_alpha, by_size, *_ = shown(made_up()).values()
    assert [row[0] for row in by_alpha[2:]] == list(SYSTEMS.values())
    assert by_alpha[0][1::2] == ["alpha 0.3", "alpha 0.5", "alpha 0.7"]
    assert by_alpha[1][1:3] == ["words", "letters"]
    assert by_size[0][1:] == ["size 200", "size 200", "size 1000", "size 1000"]
    for system, name in SYSTEMS.items():
        means = [words_of(system, alpha, 1000, 2) for alpha in (0.3, 0.5, 0.7)]
        assert row_of(by_alpha, name)[::2] == [f"{mean:.1f} ± 1.0" for mean in means]
        assert set(row_of(by_alpha, name)[1::2]) == {"80.0 ± 0.0"}
        means = [words_of(system, 0.5, size, 2) for size in (200, 1000)]
        assert row_of(by_size, name)[::2] == [f"{mean:.1f} ± 1.0" for mean in means]


def test_one_seed_has_no_deviation():
    tables = shown(made_up(seeds=(4,)) + made_up_study(seeds=(4,)))
    assert not [cell for rows in tables.values() for row in rows for cell in row if "±" in cell]
    assert ["one seed" in title for title in tables] == [True, True, False, True]
    assert row_of(next(iter(tables.values())), "Struct")[0] == f"{words_of('struct', 0.3, 1000, 4):.1f}"


def test_times_are_medians_and_compared_with_struct():
    results = [result("struct", seed=seed, seconds_an_epoch=s) for seed, s in enumerate((0.2, 0.1, 9.0))]
    results += [
        result("gspen", seed=seed, seconds_an_epoch=s, inference_steps=steps, negative_losses=negative)
        for seed, (s, steps, negative) in enumerate(
            [(3.0, 10.0, 0.02), (5.0, 20.0, 0.05), (99.0, 60.0, 0.08)]
        )
    ]
    rows = next(rows for title, rows in shown(results).items() if title.startswith("what training takes"))
    assert row_of(rows, "Struct") == ["0.200", "1.0", "", ""]
    assert row_of(rows, "GSPEN") == ["5.000", "25.0", "30.0", "5.0"]


def test_without_struct_there_is_nothing_to_compare_with():
    rows = next(rows for title, rows in shown([result("spen")]).items() if title.startswith("what"))
    assert row_of(rows, "SPEN") == ["1.000", "", "0.0", "0.0"]


def test_times_are_those_of_the_recipes_alpha_and_size():
    others = [
        result("struct", alpha=0.3, seconds_an_epoch=7.0),
        result("struct", size=200, seconds_an_epoch=8.0),
    ]
    assert at_one_cell(RECIPE, others) == []
    here = result("struct", seconds_an_epoch=2.0)
    assert at_one_cell(RECIPE, [*others, here]) == [here]


def test_the_study_has_a_row_for_each_case_and_a_column_for_each_number_of_steps():
    (rows,) = shown(made_up_study()).values()
    assert rows[0] == ["solver", "entropy", "step sizes", "from", "3 steps", "10 steps"]
    assert len(rows) == 1 + 16
    assert row_of(rows, "mirror descent", "yes", "ours", "Struct") == ["41.5 ± 0.7", "42.5 ± 0.7"]
    last = row_of(rows, "Frank-Wolfe", "no", "the paper's", "Struct without entropy")
    assert last == ["71.5 ± 0.7", "72.5 ± 0.7"]


def test_the_names_of_the_study_are_read_as_they_are_written():
    found = inference_curves(made_up_study(seeds=(1,)))
    assert len(found) == 16
    for name, base, inference in study_cases((3, 10), RECIPE.gspen.inference):
        steps = "ours" if "-ours-" in name else "paper"
        case = StudyCase(base, inference.solver.name, inference.temperature == 1, steps)
        assert list(found[case]) == [3, 10]


def test_systems_that_were_not_trained_have_no_row_and_missing_cells_are_empty():
    results = [result("unary"), result("unary", alpha=0.3), result("gspen")]
    rows = next(iter(shown(results).values()))
    assert [row[0] for row in rows[2:]] == ["Unary", "GSPEN"]
    assert row_of(rows, "GSPEN") == ["", "", "50.0", "80.0"]


@pytest.mark.parametrize(
    ("results", "starts"),
    [
        ([], ()),
        (made_up(), TITLES[:3]),
        (made_up_study(), TITLES[3:]),
        ([result("gspen", alpha=0.3)], TITLES[:1]),
        ([result("gspen", size=200)], TITLES[1:2]),
        ([result("gspen-500")], ()),
    ],
)
def test_tables_without_rows_are_left_out(results, starts):
    titles = list(shown(results))
    assert len(titles) == len(starts)
    assert all(title.startswith(start) for title, start in zip(titles, starts, strict=True))


def test_numbers_over_seeds():
    values = (3.0, 4.0, 8.0)
    number = OverSeeds(values)
    assert (number.mean, number.median, number.deviation) == (5.0, 4.0, statistics.stdev(values))
    assert OverSeeds((3.0,)).deviation is None


def test_curves_are_in_order_whatever_the_recipes_is():
    found = accuracies(RECIPE, made_up(), "alpha", "test_words")
    assert list(found) == list(SYSTEMS.values())
    assert list(found["SPEN"]) == [0.3, 0.5, 0.7]
    assert found["SPEN"][0.7].values == tuple(words_of("spen", 0.7, 1000, seed) for seed in (1, 2, 3))
