"""`python -m recipes.ocr` as users run it: a tiny run of all systems and of the study of inference."""

import json
import re
import shlex
import shutil

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from recipes.ocr.__main__ import app
from recipes.studies import systems as study_systems
from tests.helpers import same_weights, weights_of
from tests.recipes.commands import run_command
from tests.recipes.ocr.test_study import SYSTEMS, TINY, times_of, write_letters

CELL = "alpha-0.3/size-60/seed-1"
PICTURES = ("accuracy_by_alpha", "accuracy_by_size", "inference_study", "seconds_an_epoch")


def train(letters, folder, *options, changes=()):
    chosen = [*TINY, f"data.letters={letters}", *changes]
    sets = [part for change in chosen for part in ("--set", change)]
    return run_command(app, "ocr", *sets, "--output", folder, *options)


def plain(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    return write_letters(tmp_path_factory.mktemp("letters") / "letters.npz")


@pytest.fixture(scope="module")
def trained(letters, tmp_path_factory):
    """Folder and output of a run; not to be changed."""
    folder = tmp_path_factory.mktemp("ocr") / "run"
    result = train(letters, folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


def tables_in(output):
    """Return the output from the first table on, without times, which differ."""
    return re.sub(r"│ +[0-9]+\.[0-9]{3} │ +[0-9.]+ │", "", output[output.index("test accuracy by alpha") :])


def test_the_folder_has_everything(trained):
    folder, _ = trained
    assert {file.name for file in folder.iterdir()} == {
        "recipe.yaml", "log.txt", "results.json", "figures", "alpha-0.3",
    }  # fmt: skip
    assert {file.name for file in (folder / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in ("samples", *PICTURES) for suffix in ("png", "json")
    }
    names = {file.name for file in (folder / CELL).iterdir()}
    assert set(SYSTEMS) < names
    assert len([name for name in names if name.startswith("study-")]) == len(names) - len(SYSTEMS) == 16
    for name in names:
        assert {file.name for file in (folder / CELL / name).iterdir()} == {
            "model.safetensors",
            "result.json",
        }
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["unary"]["hidden"] == 50
    assert not list(folder.rglob("*.new"))


def test_it_describes_its_data_and_shows_tables(trained):
    folder, output = trained
    assert "5 words: other about which there would" in output
    for words in ("test accuracy by alpha, 60", "by training size, alpha 0.3", "what training takes"):
        assert words in plain(output)
    for name in (
        "Unary",
        "Struct without entropy",
        "SPEN",
        "NLStruct",
        "GSPEN",
        "Frank-Wolfe",
        "the paper's",
    ):
        assert name in output
    assert f"are in {folder / 'figures'}" in output
    log = (folder / "log.txt").read_text()
    assert (
        len(
            re.findall(
                r"alpha 0.3, size 60, .* test words [0-9.]+, test letters [0-9.]+; [0-9]+ updates", log
            )
        )
        == len(SYSTEMS) + 16
    )


def test_tables_and_pictures_show_the_results(trained):
    folder, output = trained
    results = {entry["system"]: entry for entry in json.loads((folder / "results.json").read_text())}
    assert len(results) == len(SYSTEMS) + 16
    struct = results["struct"]
    assert f"│ Struct │ {struct['test_words']:.1f} │ {struct['test_letters']:.1f} │" in plain(output)
    words = json.loads((folder / "figures" / "accuracy_by_alpha.json").read_text())["panels"]["whole words"]
    assert [line["mean"] for line in words] == [[results[system]["test_words"]] for system in SYSTEMS]
    study = json.loads((folder / "figures" / "inference_study.json").read_text())["panels"]
    drawn = [line["mean"][0] for lines in study.values() for line in lines]
    assert sorted(drawn) == sorted(entry["test_words"] for name, entry in results.items() if "study" in name)


@pytest.mark.parametrize("name", ["samples", *PICTURES])
def test_pictures_are_pictures(trained, name):
    with Image.open(trained[0] / "figures" / f"{name}.png") as image:
        image.load()
        assert image.format == "PNG"
        assert min(image.size) > 100
        assert len(image.convert("L").getcolors()) > 50


def test_resumed_it_trains_nothing_again(trained, letters, tmp_path, monkeypatch):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    before = times_of(folder)
    monkeypatch.setattr(study_systems, "fit", None)
    result = train(letters, folder, "--resume")
    assert result.exit_code == 0, result.output
    assert times_of(folder) == before
    assert tables_in(result.output).replace(str(folder), "") == tables_in(trained[1]).replace(
        str(trained[0]), ""
    )
    assert (folder / "results.json").read_text() == (trained[0] / "results.json").read_text()


def test_weights_of_another_version_are_refused(trained, letters, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    save_file({"pairs.tables": torch.zeros(4, 26, 26)}, folder / CELL / "struct" / "model.safetensors")
    result = train(letters, folder, "--resume")
    assert result.exit_code == 1
    assert "struct: expected weights of this version" in plain(result.output)


@pytest.mark.parametrize("name", ["unary", "gspen"])
def test_resumed_it_trains_what_is_missing(name, trained, letters, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    before = times_of(folder)
    shutil.rmtree(folder / CELL / name)
    result = train(letters, folder, "--resume")
    assert result.exit_code == 0, result.output
    after = times_of(folder)
    assert [system for system in before if after[system] != before[system]] == [name]
    assert same_weights(weights_of(folder / CELL / name), weights_of(trained[0] / CELL / name))


def test_without_resume_a_run_is_left_alone(trained, letters):
    result = train(letters, trained[0])
    assert result.exit_code == 1
    assert "holds a run already: continue it with --resume" in plain(result.output)


def test_another_recipe_cannot_go_on(trained, letters):
    result = train(letters, trained[0], "--resume", changes=["gspen.max_updates=4"])
    assert result.exit_code == 1
    assert "is a run of another recipe" in plain(result.output)


def test_interrupted_it_shows_how_to_resume(letters, tmp_path, monkeypatch):
    original, changes = study_systems.fit, ["study.max_steps=[]", "systems=[struct]"]

    def interrupt(system, *args):
        if not isinstance(system, study_systems.UnarySystem):
            raise KeyboardInterrupt
        return original(system, *args)

    with monkeypatch.context() as patch:
        patch.setattr(study_systems, "fit", interrupt)
        result = train(letters, tmp_path / "run", changes=changes)
    assert result.exit_code == 130
    assert set(times_of(tmp_path)) == {"unary"}
    (command,) = re.findall(r"resume with: python -m recipes.ocr (.*)", result.output)
    result = run_command(app, *shlex.split(command))
    assert result.exit_code == 0, result.output
    assert set(times_of(tmp_path)) == {"unary", "struct"}
    assert not (tmp_path / "run" / "figures" / "inference_study.png").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("alpha=0.9", "alpha and size must be among alphas and sizes, got 0.9 and 60"),
        ("alpha=1.5", "alpha: Input should be less than or equal to 1"),
        ("size=61", "alpha and size must be among alphas and sizes"),
        ("data.letters=none.npz", "none.npz: no such file or folder"),
        ("data.letters=${NOWHERE}/x", "NOWHERE is not set"),
        ("data.backgrounds=none", "none: expected a folder of photographs"),
        ("data.words=1000", "got 1000"),
        ("gspen.hiden=[3]", "gspen.hiden: unknown key; did you mean gspen.hidden?"),
        ("systems=[crf]", "systems.0"),
        ("graph.inference=guess", "graph.inference"),
        ("polytope.name=guess", "polytope: unknown name 'guess'; expected 'chain', 'local', 'tree'"),
        ("seeds=[]", "seeds"),
        ("seeds=[1,1]", "seeds: expected different entries, got [1, 1]"),
        ("gspen.inference.solver.name=saddle_point", "saddle_point is for nlstruct only"),
        ("scores.name=guess", "scores"),
    ],
)
def test_errors_come_before_anything_is_written(change, message, letters, tmp_path):
    result = train(letters, tmp_path / "run", changes=[change])
    assert result.exit_code == 1
    assert message in plain(result.output)
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()
