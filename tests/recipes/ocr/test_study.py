"""The OCR study: which systems it trains, on what, and that it trains no system twice."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from gspen_ner.recipe import Inference
from recipes.ocr.inference_study import study_cases
from recipes.ocr.letters import read_letters
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.study import OCRStudy
from recipes.studies import systems as study_systems
from recipes.studies.systems import StudySystems
from tests.helpers import killed_at, same_weights, weights_of
from tests.recipes.commands import load_study

WORDS = "aboutcdehilrw"  # the letters of the first five words
TINY = (
    "data.words=5", "data.dev=40", "data.test=40", "alphas=[0.3]", "alpha=0.3", "sizes=[60]", "size=60",
    "seeds=[1]", "unary.hidden=50", "unary.learning_rate=0.003", "unary.max_updates=60",
    "struct.learning_rate=0.05", "struct.max_updates=20", "struct.evaluate_every=10",
    "spen.hidden=[20]", "spen.learning_rate=0.05", "spen.max_updates=4", "spen.evaluate_every=2",
    "spen.inference.max_steps=3",
    "gspen.hidden=[20]", "gspen.learning_rate=0.05", "gspen.max_updates=3", "gspen.evaluate_every=1",
    "gspen.inference.max_steps=3",
    "nlstruct.hidden=50", "nlstruct.max_updates=1", "nlstruct.dev_examples=8",
    "nlstruct.inference.max_steps=2",
    "study.max_steps=[2]", "study.max_updates=2",
)  # fmt: skip
SYSTEMS = ["unary", "struct", "struct_without_entropy", "spen", "nlstruct", "gspen"]


def write_letters(file):
    """Write the letters that the words need, drawn once: drawing takes seconds."""
    drawn = read_letters()
    rows = torch.isin(drawn.labels, torch.tensor([ord(letter) - 97 for letter in WORDS]))
    labels = np.array([chr(97 + label) for label in drawn.labels[rows].tolist()])
    np.savez(file, images=drawn.images[rows].numpy(), label=labels, font=drawn.group[rows].numpy())
    return file


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    return write_letters(tmp_path_factory.mktemp("letters") / "letters.npz")


@pytest.fixture(scope="module")
def trained(letters, tmp_path_factory):
    """Folder and results of all systems; not to be changed."""
    folder = tmp_path_factory.mktemp("run")
    return folder, make_run(folder, letters).train()


def make_run(folder, letters, *changes):
    """A tiny run that has trained nothing yet, without a study."""
    chosen = [*TINY, f"data.letters={letters}", "study.max_steps=[]", *changes]
    return OCRStudy(load_study(OCRRecipe, "ocr/ocr.yaml", chosen), folder)


def times_of(folder):
    """When each system's results were written."""
    return {file.parent.name: file.stat().st_mtime_ns for file in folder.rglob("result.json")}


def without_times(result):
    return {key: value for key, value in asdict(result).items() if key != "seconds_an_epoch"}


class TestStudyCases:
    def test_both_bases_and_solvers_with_and_without_entropy_by_both_rules_of_steps(self):
        cases = list(study_cases((5, 20), Inference(tolerance=0.5)))
        assert len({name for name, _, _ in cases}) == len(cases) == 2 * 2 * 2 * 2 * 2
        for name, base, inference in cases:
            start, of_base, solver, entropy, steps_of, steps = name.split("-")
            assert (start, of_base, solver, int(steps)) == (
                "study",
                base,
                inference.solver.name,
                inference.max_steps,
            )
            assert inference.temperature == {"entropy": 1, "none": 0}[entropy]
            assert (steps_of == "paper") == (inference.solver.schedule in ("sqrt", "harmonic"))
            assert inference.tolerance == 0.5

    def test_the_papers_frank_wolfe_goes_to_vertices(self):
        for name, _, inference in study_cases((5,), Inference()):
            if inference.solver.name == "frank_wolfe":
                assert inference.solver.oracle == ("vertex" if "-paper-" in name else "smooth")


class TestCells:
    def test_sizes_are_compared_at_one_alpha_and_alphas_at_one_size(self, letters, tmp_path, monkeypatch):
        seen = []

        def results(self):
            seen.append((self.alpha, self.size, self.seed, len(self.data.train), self.folder))
            return []

        monkeypatch.setattr(StudySystems, "results", results)
        changes = ("alphas=[0.2,0.3]", "sizes=[30,60]", "seeds=[4,5]")
        assert make_run(tmp_path, letters, *changes).train() == []
        assert [cell[:3] for cell in seen] == [
            (alpha, size, seed)
            for alpha, size in ((0.2, 60), (0.3, 30), (0.3, 60))
            for seed in (4, 5)
        ]  # fmt: skip
        assert all(words == size for _, size, _, words, _ in seen)
        assert seen[0][4] == tmp_path / "alpha-0.2" / "size-60" / "seed-4"

    def test_systems_are_those_of_the_recipe_with_what_they_stand_on(self, letters, tmp_path):
        results = make_run(tmp_path, letters, "systems=[spen]").train()
        assert [result.system for result in results] == ["unary", "spen"]
        assert set(times_of(tmp_path)) == {"unary", "spen"}
        results = make_run(tmp_path, letters, "systems=[gspen]").train()
        assert [result.system for result in results] == ["unary", "struct", "gspen"]

    def test_the_data_is_described(self, letters, tmp_path):
        description = make_run(tmp_path, letters).describe_data()
        assert f"images from {letters}, without f, g, j," in description
        assert description.endswith("2 photographs behind them; 5 words: other about which there would")


class TestTraining:
    def test_results_are_in_percent_and_written(self, trained):
        folder, results = trained
        assert [result.system for result in results] == SYSTEMS
        assert json.loads((folder / "results.json").read_text()) == [asdict(result) for result in results]
        for result in results:
            assert (result.alpha, result.size, result.seed) == (0.3, 60, 1)
            assert 0 <= result.test_words <= result.test_letters <= 100
            assert result.test_words * 40 / 100 == pytest.approx(round(result.test_words * 40 / 100))
            assert result.seconds_an_epoch > 0

    def test_neighbouring_letters_help(self, trained):
        unary, struct, *_ = trained[1]
        assert struct.test_words > unary.test_words + 20

    def test_the_same_seed_gives_the_same_and_another_something_else(self, trained, letters, tmp_path):
        folder, results = trained
        again = make_run(tmp_path, letters, "seeds=[1,2]", "systems=[spen,gspen]").train()
        names = [result.system for result in again if result.seed == 1]
        expected = [without_times(result) for result in results if result.system in names]
        assert [without_times(result) for result in again if result.seed == 1] == expected
        for name in names:
            first, same, other = (
                weights_of(place / "alpha-0.3" / "size-60" / seed / name)
                for place, seed in ((folder, "seed-1"), (tmp_path, "seed-1"), (tmp_path, "seed-2"))
            )
            assert same_weights(first, same)
            assert not same_weights(first, other)

    def test_a_global_term_leaves_what_it_stands_on_as_it_is(self, trained):
        weights = weights_of(trained[0] / "alpha-0.3" / "size-60" / "seed-1" / "gspen")
        assert weights
        assert all(name.startswith("head.") for name in weights)


def test_a_run_that_was_killed_trains_what_is_missing(letters, tmp_path):
    run = make_run(tmp_path / "killed", letters, "systems=[gspen]")
    with killed_at(study_systems, "fit", call=3):
        run.train()
    before = times_of(run.folder)
    assert set(before) == {"unary", "struct"}
    results = make_run(run.folder, letters, "systems=[gspen]").train()
    assert times_of(run.folder).items() > before.items()
    whole = make_run(tmp_path / "whole", letters, "systems=[gspen]").train()
    assert [without_times(result) for result in results] == [without_times(result) for result in whole]


def test_of_several_hidden_sizes_the_best_on_dev_is_kept(letters, tmp_path):
    changes = ("systems=[gspen]", "gspen.hidden=[4,20,8]")
    *_, kept = make_run(tmp_path, letters, *changes).train()
    place = tmp_path / "alpha-0.3" / "size-60" / "seed-1"
    tried = {
        hidden: json.loads((place / f"gspen-{hidden}" / "result.json").read_text()) for hidden in (4, 20, 8)
    }
    best = max(tried, key=lambda hidden: tried[hidden]["dev_words"])
    assert asdict(kept) == tried[best] | {"system": "gspen"}

    for best in (8, 4):  # a system that is there is read, so results that are made up choose
        for hidden, entries in tried.items():
            changed = entries | {"dev_words": 99.0 if hidden == best else 0.0}
            (place / f"gspen-{hidden}" / "result.json").write_text(json.dumps(changed))
        for file in (place / "gspen").iterdir():
            file.unlink()
        (place / "gspen").rmdir()
        *_, kept = make_run(tmp_path, letters, *changes).train()
        assert (kept.system, kept.hidden, kept.dev_words) == ("gspen", best, 99.0)
        assert same_weights(weights_of(place / "gspen"), weights_of(place / f"gspen-{best}"))


def test_inference_by_messages(letters, tmp_path):
    results = make_run(tmp_path, letters, "systems=[gspen]", "graph.inference=messages").train()
    unary, struct, gspen = (result.test_words for result in results)
    assert min(struct, gspen) > unary + 20


def test_letters_that_are_too_few_are_refused(letters, tmp_path):
    with pytest.raises(ValueError, match=r"\(missing: fgjkmnpqsvxyz\).* got 100"):
        make_run(tmp_path, letters, "data.words=100")
