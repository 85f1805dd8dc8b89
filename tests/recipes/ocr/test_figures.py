"""Pictures of the OCR study: which are drawn, with which numbers, and that JSON has the same."""

import json
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from recipes.ocr.report import draw_pictures
from recipes.studies.results import SYSTEMS
from tests.recipes.ocr.test_report import RECIPE, made_up, made_up_study, result, words_of

NAMES = ("accuracy_by_alpha", "accuracy_by_size", "inference_study", "seconds_an_epoch")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The folder of the pictures of all that there can be."""
    folder = tmp_path_factory.mktemp("figures")
    draw_pictures(RECIPE, made_up() + made_up_study(), folder)
    return folder


def numbers(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def colours(file):
    """The share of pixels that have each colour, such as (0, 114, 178)."""
    with Image.open(file) as image:
        assert image.format == "PNG"
        found = image.convert("RGB").getcolors(maxcolors=1 << 24)
    pixels = sum(count for count, _ in found)
    return {colour: count / pixels for count, colour in found}


def test_every_picture_has_its_numbers_beside_it(drawn):
    assert sorted(file.name for file in drawn.iterdir()) == sorted(
        f"{name}{suffix}" for name in NAMES for suffix in (".json", ".png")
    )


@pytest.mark.parametrize("name", NAMES)
def test_pictures_show_coloured_marks_on_white(drawn, name):
    found = colours(drawn / f"{name}.png")
    assert found[255, 255, 255] > 0.5
    for colour in ((213, 94, 0), (0, 114, 178), (230, 159, 0), (0, 158, 115)):
        assert found[colour] > 1e-4


@pytest.mark.parametrize(("by", "xs"), [("alpha", [0.3, 0.5, 0.7]), ("size", [200, 1000])])
def test_accuracies_are_means_with_their_deviations(drawn, by, xs):
    found = numbers(drawn, f"accuracy_by_{by}")
    assert "3 seeds" in found["title"]
    assert list(found["panels"]) == ["whole words", "single letters"]
    words, letters = found["panels"].values()
    assert [line["name"] for line in words] == [line["name"] for line in letters] == list(SYSTEMS.values())
    for system, line in zip(SYSTEMS, words, strict=True):
        cells = [(x, 1000) if by == "alpha" else (0.5, x) for x in xs]
        assert line["x"] == xs
        assert line["mean"] == pytest.approx([words_of(system, *cell, 2) for cell in cells])
        assert line["standard_deviation"] == pytest.approx([1.0] * len(xs))
        assert line["seeds"] == [3] * len(xs)
    assert all(line["mean"] == [80.0] * len(xs) for line in letters)


def test_times_are_medians(drawn):
    found = numbers(drawn, "seconds_an_epoch")
    assert [bar["name"] for bar in found["bars"]] == list(SYSTEMS.values())
    assert found["x"] == "seconds an epoch"
    for bar in found["bars"]:
        assert (bar["value"], bar["seeds"]) == (0.04, [0.01, 0.04, 0.09])
        assert bar["standard_deviation"] == pytest.approx(np.std([0.01, 0.04, 0.09], ddof=1))
        assert bar["label"] == "0.04 s  (1.0 times Struct)"


def test_the_study_has_a_panel_for_each_rule_of_steps(drawn):
    found = numbers(drawn, "inference_study")
    assert list(found["panels"]) == ["our step sizes", "the paper's step sizes"]
    for lines in found["panels"].values():
        assert len({line["name"] for line in lines}) == len(lines) == 8
        assert all(line["x"] == [3, 10] for line in lines)
    first = found["panels"]["our step sizes"][0]
    assert first["name"] == "mirror descent with entropy, from Struct"
    assert first["mean"] == [41.5, 42.5]


def drawn_lines(results, folder):
    """What `errorbar` is called with for each line, and where, while the pictures are drawn."""
    calls = []
    original = Axes.errorbar

    def watched(self, x, y, yerr=None, **looks):
        if "marker" in looks:  # those of bars have none
            calls.append((list(x), list(y), yerr, looks, self))
        return original(self, x, y, yerr=yerr, **looks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Axes, "errorbar", watched)
        draw_pictures(RECIPE, results, folder)
    return calls


def test_what_json_holds_is_what_is_drawn(tmp_path):
    calls = drawn_lines(made_up() + made_up_study(), tmp_path)
    lines = [
        line
        for name in ("accuracy_by_alpha", "accuracy_by_size", "inference_study")
        for panel in numbers(tmp_path, name)["panels"].values()
        for line in panel
    ]
    written = [(line["x"], line["mean"], line["standard_deviation"]) for line in lines]
    assert [call[:3] for call in calls] == written


def test_points_and_their_error_bars_are_inside_the_axes(tmp_path):
    for x, y, deviation, _, panel in drawn_lines(made_up() + made_up_study(), tmp_path):
        left, right = panel.get_xlim()
        bottom, top = panel.get_ylim()
        assert left < min(x) <= max(x) < right
        assert bottom < min(np.subtract(y, deviation)) <= max(np.add(y, deviation)) < top


def test_dashes_are_for_struct_without_entropy(tmp_path):
    calls = drawn_lines(made_up_study(seeds=(1,)), tmp_path)
    lines = [line for panel in numbers(tmp_path, "inference_study")["panels"].values() for line in panel]
    for (*_, looks, panel), line in zip(calls, lines, strict=True):
        without = "from Struct without entropy" in line["name"]
        assert looks["linestyle"] == ("--" if without else "-")
        assert ("markerfacecolor" in looks) == without
        assert panel.get_xscale() == "log"


def test_each_line_has_a_colour_and_a_marker_of_its_own_and_sizes_a_logarithmic_axis(tmp_path):
    calls = drawn_lines(made_up(seeds=(1,)), tmp_path)
    for look in ("color", "marker"):
        assert len({call[3][look] for call in calls[:6]}) == 6
    assert {tuple(call[0]): call[4].get_xscale() for call in calls} == {
        (0.3, 0.5, 0.7): "linear",
        (200, 1000): "log",
    }


def test_one_seed_has_no_error_bars(tmp_path):
    calls = drawn_lines(made_up(seeds=(1,)) + made_up_study(seeds=(1,)), tmp_path)
    assert all(call[2] is None for call in calls)
    for name in NAMES[:3]:
        found = numbers(tmp_path, name)
        assert "one seed" in found["title"]
        lines = [line for panel in found["panels"].values() for line in panel]
        assert {value for line in lines for value in line["standard_deviation"]} == {None}
    assert {bar["standard_deviation"] for bar in numbers(tmp_path, "seconds_an_epoch")["bars"]} == {None}


@pytest.mark.filterwarnings("error")
def test_seeds_may_differ_from_point_to_point(tmp_path):
    results = [result("gspen", words=40.0), result("gspen", seed=2, words=44.0), result("gspen", alpha=0.7)]
    draw_pictures(RECIPE, results, tmp_path)
    (line,) = numbers(tmp_path, "accuracy_by_alpha")["panels"]["whole words"]
    assert line["mean"] == [42.0, 50.0]
    assert line["standard_deviation"] == [pytest.approx(8**0.5), None]


@pytest.mark.parametrize(
    ("results", "names"),
    [
        ([], ()),
        (made_up(seeds=(1,)), (NAMES[0], NAMES[1], NAMES[3])),
        (made_up_study(seeds=(1,)), (NAMES[2],)),
        ([result("gspen", alpha=0.3)], (NAMES[0],)),
        ([result("spen")], (NAMES[0], NAMES[1], NAMES[3])),
    ],
)
@pytest.mark.filterwarnings("error")
def test_pictures_without_data_are_not_written(tmp_path, results, names):
    draw_pictures(RECIPE, results, tmp_path)
    assert {file.stem for file in tmp_path.iterdir()} == set(names)


def test_drawing_again_replaces_what_is_there_by_the_same(tmp_path):
    contents = []
    for _ in range(2):
        draw_pictures(RECIPE, made_up_study(), tmp_path)
        contents.append({file.name: file.read_bytes() for file in tmp_path.iterdir()})
    assert contents[0] == contents[1]


def test_an_error_while_drawing_leaves_the_old_picture(tmp_path, monkeypatch):
    def full(self, file, **options):
        file.write_text("a part")
        raise OSError(28, "No space left on device")

    (tmp_path / "inference_study.png").write_text("old")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(OSError, match="No space left"):
        draw_pictures(RECIPE, made_up_study(seeds=(1,)), tmp_path)
    assert (tmp_path / "inference_study.png").read_text() == "old"
    assert not list(tmp_path.glob("*.new"))


def test_matplotlib_is_loaded_when_needed_only_and_never_pyplot(tmp_path):
    code = f"""
import sys
from pathlib import Path
from types import SimpleNamespace
from recipes.ocr.report import draw_pictures
assert not {{"matplotlib", "transformers"}} & set(sys.modules)
result = SimpleNamespace(system="unary", alpha=0.3, size=200, test_words=50.0, test_letters=80.0)
draw_pictures(SimpleNamespace(alpha=0.5, size=200), [result], Path({str(tmp_path)!r}))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "accuracy_by_alpha.png").is_file()
