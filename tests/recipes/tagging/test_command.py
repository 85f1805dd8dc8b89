"""`python -m recipes.tagging` as users run it: a tiny run of all systems on generated images."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch import nn

from gspen_ner.training import SCORE_SOURCES, predictions
from recipes.studies import systems as study_systems
from recipes.tagging.__main__ import app
from recipes.tagging.settings import TaggingRecipe
from recipes.tagging.study import TaggingStudy
from recipes.tagging.systems import TaggingSystems, hamming
from tests.helpers import killed_at, weights_of
from tests.recipes.commands import (
    assert_not_trained_again,
    load_study,
    results_of,
    run_command,
    train_study,
)

SYSTEMS = ["unary", "struct", "spen", "nlstruct", "gspen"]
SHORT = {
    "max_updates": 4,
    "evaluate_every": 2,
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "inference": {"solver": {"name": "frank_wolfe", "start": "maximiser"}, "temperature": 0.0},
}
TINY = {
    "task": "tagging",
    "data": {"name": "generated", "rows": [200, 60, 60], "features": 40, "tags": 6},
    "seeds": [1, 2],
    "graph": {"sweeps": 100},
    "scores": {"name": "cross_fit", "folds": 2},
    "unary": {"hidden": 16, "input_dropout": 0.1, "max_updates": 60, "learning_rate": 0.01},
    "struct": {"max_updates": 20, "evaluate_every": 10, "learning_rate": 0.01, "temperature": 0.0},
    "spen": {"hidden": 8, **SHORT},
    "gspen": {"hidden": 8, **SHORT},
    "nlstruct": SHORT,
}


def write(file, **changes):
    file.write_text(yaml.safe_dump(TINY | changes))
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder and output of a run; not to be changed."""
    folder = tmp_path_factory.mktemp("tagging")
    return train_study(app, write(folder / "tiny.yaml"), folder / "run")


def systems_of(folder, seed=1):
    study = study_of(folder / "recipe.yaml", folder)
    return TaggingSystems(study.recipe, study.data, seed, folder / f"seed-{seed}")


def study_of(file, folder):
    return TaggingStudy(load_study(TaggingRecipe, file), folder)


def test_the_folder_has_everything(trained):
    folder, _ = trained
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    systems = {f"seed-{seed}/{name}" for seed in (1, 2) for name in SYSTEMS}
    folds = {f"seed-{seed}/unary-fold-{fold}" for seed in (1, 2) for fold in (1, 2)}
    assert found == {
        "recipe.yaml", "log.txt", "results.json", "figures/curves.png", "figures/curves.json",
        *(f"{name}/{file}" for name in systems | folds for file in ("result.json", "model.safetensors")),
    }  # fmt: skip


def test_it_says_what_came_out(trained):
    folder, output = trained
    assert "200 train, 60 dev, 60 test images, 40 features, 6 tags" in output
    assert "mean ± standard deviation of 2 seeds" in output
    for name in ("Unary", "Struct", "SPEN", "NLStruct", "GSPEN"):
        assert f"│ {name} " in output
    assert [(result["seed"], result["system"]) for result in results_of(folder)] == [
        (seed, name) for seed in (1, 2) for name in SYSTEMS
    ]


def test_losses_are_those_of_the_saved_systems_which_are_the_best_on_dev(trained):
    folder, _ = trained
    systems = systems_of(folder)
    for result in results_of(folder)[: len(SYSTEMS)]:
        splits = systems.splits(result["system"])
        system = getattr(systems, result["system"])
        for name, split in splits.items():
            loss = hamming(predictions(system, split.inputs), split.labels)
            assert result[f"{name}_loss"] == pytest.approx(loss)
        assert result["dev_loss"] == min(point["dev"] for point in result["curve"])


def test_the_picture_shows_the_curves_of_all_seeds(trained):
    folder, _ = trained
    found = json.loads((folder / "figures" / "curves.json").read_text())
    runs = [result["curve"] for result in results_of(folder) if result["system"] == "gspen"]
    for split, panel in (("train", "training images"), ("dev", "validation images"), ("test", "test images")):
        curves = {curve["name"]: curve for curve in found["panels"][panel]}
        assert list(curves) == ["Unary", "Struct", "SPEN", "NLStruct", "GSPEN"]
        assert curves["GSPEN"]["x"] == [point["epoch"] for point in runs[0]]
        means = [(one[split] + other[split]) / 2 for one, other in zip(*runs, strict=True)]
        assert curves["GSPEN"]["mean"] == pytest.approx(means)
    assert set(found["inference steps"]) == {"SPEN", "NLStruct", "GSPEN"}
    assert Image.open(folder / "figures" / "curves.png").size[0] > 800


def test_a_run_that_is_there_is_not_trained_again(trained, tmp_path, monkeypatch):
    assert_not_trained_again(app, write(tmp_path / "tiny.yaml"), trained[0], monkeypatch)


def test_a_run_that_was_killed_goes_on_and_comes_out_the_same(trained, tmp_path):
    recipe = write(tmp_path / "tiny.yaml", seeds=[1], systems=["struct", "gspen"])
    with killed_at(study_systems, "fit", call=5):
        study_of(recipe, tmp_path / "run").train()
    results = study_of(recipe, tmp_path / "run").train()
    expected = [result for result in results_of(trained[0])[:5] if result["system"] in ("struct", "gspen")]
    assert [result.test_loss for result in results[1:]] == [result["test_loss"] for result in expected]


def test_terms_leave_what_they_stand_on_as_it_is(trained):
    for name in ("spen", "gspen", "nlstruct"):
        weights = weights_of(trained[0] / "seed-1" / name)
        assert weights
        assert all(part.startswith("head.") for part in weights)


def test_a_new_gspen_predicts_what_its_struct_predicts(trained):
    systems = systems_of(trained[0])
    gspen, inputs = systems.gspen, systems.scores["test"].inputs
    torch.nn.init.zeros_(gspen.head.term.mlp.output.weight)
    assert torch.equal(predictions(gspen, inputs), predictions(systems.struct, inputs))
    assert not predictions(gspen, inputs, "steps").any()


@pytest.mark.parametrize("reads", [True, False])
def test_the_term_reads_potentials_or_beliefs_only(reads, tmp_path):
    changes = {"gspen": TINY["gspen"] | {"read_potentials": reads}, "systems": ["gspen"], "seeds": [1]}
    study = study_of(write(tmp_path / "tiny.yaml", **changes), tmp_path / "run")
    gspen = TaggingSystems(study.recipe, study.data, 1, tmp_path / "run").gspen
    assert gspen.head.term.mlp.input.in_features == 12 + 15 * 4 + 12 * reads


def test_other_systems_learn_from_scores_by_unary_models_that_have_not_seen_the_image(trained):
    systems = systems_of(trained[0])
    images, (scores,) = systems.data.train, systems.versions
    assert torch.equal(scores.labels, images.labels)
    for fold in (0, 1):
        unary = systems.make_unary()
        unary.load_state_dict(weights_of(trained[0] / "seed-1" / f"unary-fold-{fold + 1}"))
        expected = predictions(unary, images.inputs[fold::2], "nodes")
        torch.testing.assert_close(scores.inputs[fold::2], expected)


@pytest.mark.parametrize(("name", "versions"), [("plain", 1), ("dropout_draws", 3)])
def test_other_systems_learn_from_any_score_source(name, versions, trained):
    systems = systems_of(trained[0])
    source = SCORE_SOURCES.section_for(SCORE_SOURCES.make({"name": name}))
    systems.recipe = systems.recipe.model_copy(update={"scores": source})
    assert len(systems.versions) == versions
    scores = systems.scores["train"].inputs
    assert all(torch.equal(version.inputs, scores) == (name == "plain") for version in systems.versions)


def test_inference_by_messages_is_near_the_exact_one(trained, tmp_path):
    exact = systems_of(trained[0])
    near = systems_of(trained[0])
    near.recipe = type(near.recipe)(**near.recipe.model_dump() | {"graph": {"inference": "messages"}})
    assert (exact.polytope.oracle, near.polytope.oracle, near.polytope.max_sweeps) == ("cut", "messages", 10)
    inputs = exact.scores["test"].inputs
    same = (predictions(exact.struct, inputs) == predictions(near.struct, inputs)).float().mean()
    assert same > 0.95


def test_matrices_are_read(tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "features.npz", draw.random((100, 5)))
    np.savez(tmp_path / "tags.npz", draw.integers(0, 2, (100, 4)))
    data = {
        "name": "matrices", "features": str(tmp_path / "features.npz"), "tags": str(tmp_path / "tags.npz"),
        "sizes": [60, 20],
    }  # fmt: skip
    study = study_of(write(tmp_path / "tiny.yaml", data=data), tmp_path / "run")
    assert "60 train, 20 dev, 20 test images, 5 features, 4 tags" in study.describe_data()


def write_images(folder):
    """Images and annotations in MIRFLICKR's layout, and how a recipe names them."""
    draw = np.random.default_rng(0)
    for name in ("images", "annotations"):
        (folder / name).mkdir()
    for number in range(1, 21):
        pixels = draw.integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"im{number}.jpg")
    for tag in ("sea", "sky", "tree"):
        chosen = sorted(draw.choice(20, 8, replace=False) + 1)
        (folder / "annotations" / f"{tag}.txt").write_text("".join(f"{number}\n" for number in chosen))
    return {"name": "images", **{name: str(folder / name) for name in ("images", "annotations")}}


def test_images_go_through_a_network_of_torchvisions(tmp_path, monkeypatch):
    def network(name, weights):
        assert (name, weights) == ("resnet18", None)
        return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 5))

    models = SimpleNamespace(get_model=network)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    data = write_images(tmp_path) | {"backbone": "resnet18"}
    study = study_of(write(tmp_path / "tiny.yaml", data=data), tmp_path / "run")
    assert "8 train, 4 dev, 8 test images, 12 features, 3 tags" in study.describe_data()


def test_without_torchvision_the_error_shows_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    recipe = write(tmp_path / "tiny.yaml", data=write_images(tmp_path))
    result = run_command(app, recipe, "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert "torchvision is not installed: pip install 'gspen-ner[tagging]'" in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"name": "matrices", "tags": "x"}}, "data.features: missing"),
        ({"data": {"name": "matrices", "features": "no.mat", "tags": "no.mat"}}, "no.mat: no such file"),
        ({"data": {"name": "pixels"}}, "data"),
        ({"data": {"name": "generated", "tag": 3}}, "data.tag: unknown key; did you mean data.tags?"),
        (
            {"scores": {"name": "cross_fit", "folds": 1}},
            "scores.folds: Input should be greater than or equal to 2",
        ),
        ({"gspen": {"inference": {"solver": {"name": "saddle_point"}}}}, "saddle_point is for nlstruct only"),
    ],
)
def test_recipes_that_cannot_be_are_refused_in_a_line(changes, message, tmp_path):
    result = run_command(app, write(tmp_path / "tiny.yaml", **changes), "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()
