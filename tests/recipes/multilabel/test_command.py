"""`python -m recipes.multilabel` as users run it: a tiny run of all systems on generated rows."""

import json
import shutil

import pytest
import torch
import yaml
from PIL import Image

from gspen_ner.training import fit, predictions
from recipes.multilabel.__main__ import app
from recipes.multilabel.metrics import best_threshold, example_f1
from recipes.multilabel.settings import MultilabelRecipe
from recipes.multilabel.systems import MultilabelSystems
from recipes.studies import systems as study_systems
from recipes.studies.data import generate_rows
from tests.recipes.commands import (
    assert_not_trained_again,
    load_study,
    results_of,
    run_command,
    train_study,
)

SYSTEMS = ["unary", "struct", "spen", "nlstruct", "gspen"]
READS = {"read_potentials": False, "last_label_only": True}
INFERENCE = {"temperature": 0.1, "max_steps": 10}
TINY = {
    "task": "multilabel",
    "data": {"format": "generated", "rows": [120, 60, 60], "features": 30, "labels": 6},
    "seeds": [1, 2],
    "unary": {"hidden": 16, "input_dropout": 0.1, "max_updates": 60, "learning_rate": 0.01},
    "struct": {"hidden": 8, "max_updates": 20, "evaluate_every": 10, "learning_rate": 0.01},
    "spen": {"hidden": 4, **READS, "max_updates": 20, "evaluate_every": 10, "inference": INFERENCE},
    "gspen": {"hidden": 8, "max_updates": 20, "evaluate_every": 10, "inference": INFERENCE},
    "nlstruct": {"hidden": 8, "max_updates": 10, "evaluate_every": 10, "inference": INFERENCE},
}


def write(file, **changes):
    file.write_text(yaml.safe_dump(TINY | changes))
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder and output of a run; not to be changed."""
    folder = tmp_path_factory.mktemp("multilabel")
    return train_study(app, write(folder / "tiny.yaml"), folder / "run")


def systems_in(folder, recipe):
    return MultilabelSystems(
        load_study(MultilabelRecipe, recipe), generate_rows((120, 60, 60), 30, 6, 0), 1, folder
    )


def test_the_folder_has_everything(trained):
    folder, _ = trained
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    systems = {f"seed-{seed}/{name}" for seed in (1, 2) for name in SYSTEMS}
    assert found == {
        "recipe.yaml", "log.txt", "results.json", "figures/f1.png", "figures/f1.json",
        *(f"{name}/{file}" for name in systems for file in ("result.json", "model.safetensors")),
    }  # fmt: skip


def test_it_says_what_came_out(trained):
    folder, output = trained
    assert "120 train, 60 dev, 60 test rows, 30 features, 6 labels" in output
    assert "mean ± standard deviation of 2 seeds" in output
    for name in ("Unary", "Struct", "SPEN", "NLStruct", "GSPEN"):
        assert f"│ {name} " in output
    results = results_of(folder)
    assert [(result["seed"], result["system"]) for result in results] == [
        (seed, name) for seed in (1, 2) for name in SYSTEMS
    ]
    assert all(result["inference_steps"] > 0 for result in results if result["system"] == "nlstruct")


def test_the_picture_shows_the_means(trained):
    folder, _ = trained
    bars = {bar["name"]: bar for bar in json.loads((folder / "figures" / "f1.json").read_text())["bars"]}
    found = [result["test_f1"] for result in results_of(folder) if result["system"] == "gspen"]
    assert bars["GSPEN"]["seeds"] == found
    assert bars["GSPEN"]["value"] == pytest.approx(sum(found) / 2)
    assert Image.open(folder / "figures" / "f1.png").size[0] > 500


def test_a_run_that_is_there_is_not_trained_again(trained, tmp_path, monkeypatch):
    assert_not_trained_again(app, write(tmp_path / "tiny.yaml"), trained[0], monkeypatch)


def test_thresholds_are_chosen_on_dev_and_scores_are_those_of_the_saved_systems(trained):
    folder, _ = trained
    systems = systems_in(folder / "seed-1", folder / "recipe.yaml")
    data = systems.data
    for result in results_of(folder)[: len(SYSTEMS)]:
        system = getattr(systems, result["system"])
        dev, test = (
            predictions(system, systems.data.splits[split].inputs, "marginals")[..., 1]
            for split in ("dev", "test")
        )
        threshold, f1 = best_threshold(dev, data.dev.labels)
        assert threshold == pytest.approx(result["threshold"])
        assert 100 * f1 == pytest.approx(result["dev_f1"])
        assert 100 * example_f1(test, data.test.labels, threshold) == pytest.approx(result["test_f1"])


def test_a_refit_learns_from_dev_too_with_what_dev_has_chosen(trained, tmp_path, monkeypatch):
    calls = []

    def watched(system, train, dev, judge, training, *rest):
        rows = len(train.labels if isinstance(system, study_systems.UnarySystem) else train[0].labels)
        calls.append((rows, training.max_updates))
        return fit(system, train, dev, judge, training, *rest)

    recipe = write(tmp_path / "tiny.yaml", refit=True, seeds=[1], systems=["struct"])
    monkeypatch.setattr(study_systems, "fit", watched)
    result = run_command(app, recipe, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    first = results_of(trained[0])[:2]
    again = results_of(tmp_path / "run")
    for before, after in zip(first, again, strict=True):
        stored = json.loads((tmp_path / "run/seed-1/refitted" / after["system"] / "result.json").read_text())
        assert {key: after[key] for key in ("threshold", "dev_f1", "test_f1")} == {
            key: before[key] for key in ("threshold", "dev_f1", "test_f1")
        }
        assert stored["threshold"] == before["threshold"]
        assert after["refitted_f1"] == stored["test_f1"]
    assert calls == [(120, 60), (120, 20), *((180, before["updates"] * 3 // 2) for before in first)]
    assert "test F1, refitted" in " ".join(result.output.split())


@pytest.mark.parametrize("draws", [False, True])
def test_with_draws_unary_errs_anew_in_training_and_only_there(draws, tmp_path):
    changes = {"draws": draws, "unary": TINY["unary"] | {"input_dropout": 0.5, "max_updates": 1}}
    systems = systems_in(tmp_path, write(tmp_path / "tiny.yaml", **changes))
    data = systems.data
    unary = predictions(systems.unary, data.dev.inputs, "marginals")
    struct = systems.struct
    torch.nn.init.zeros_(struct.scorer.pairs.tables.weight)
    torch.nn.init.zeros_(struct.scorer.pairs.tables.bias)
    torch.testing.assert_close(predictions(struct, data.dev.inputs, "marginals"), unary)
    rows = data.train.inputs, data.train.labels
    struct.train()
    assert bool(struct(*rows).loss != struct(*rows).loss) is draws
    struct.eval()
    assert struct(*rows).loss == struct(*rows).loss
    assert not any(weight.requires_grad for weight in struct.scorer.nodes.parameters())


def test_gspen_keeps_what_it_stands_on(trained):
    folder, _ = trained
    systems = systems_in(folder / "seed-1", folder / "recipe.yaml")
    learned = {name for name, weight in systems.gspen.named_parameters() if weight.requires_grad}
    assert {name.split(".")[1] for name in learned} == {"pairs"}
    mine, its = systems.gspen.head.term.state_dict(), systems.spen.head.term.state_dict()
    assert all((mine[name] == its[name]).all() for name in its)


def test_gspens_term_learns_on_over_structs_pairs(trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run/seed-1/gspen")
    recipe = write(tmp_path / "tiny.yaml", gspen=TINY["gspen"] | {"learns": "term", "max_updates": 1})
    systems = systems_in(tmp_path / "run/seed-1", recipe)
    assert systems.gspen.scorer.pairs is systems.struct.scorer.pairs
    learned = {name for name, weight in systems.gspen.named_parameters() if weight.requires_grad}
    assert {name.split(".")[0] for name in learned} == {"head"}
    moved = systems.gspen.head.term.mlp.input.weight - systems.spen.head.term.mlp.input.weight
    assert 0 < moved.abs().max() < 0.01, "an update away from where it started"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"format": "bibtex"}, "data: folder: needed by bibtex data"),
        ({"format": "generated", "folder": "x"}, "data: folder: not used by generated data"),
        ({"format": "bibtex", "folder": "nowhere"}, "nowhere"),
        ({"format": "arff", "folder": "x"}, "data.format"),
    ],
)
def test_data_that_cannot_be_are_refused_in_a_line(data, message, tmp_path):
    result = run_command(app, write(tmp_path / "tiny.yaml", data=data), "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


def write_arff(file, split, names):
    """Rows in Mulan's sparse layout: features first, then the labels, under their names."""
    width = split.inputs.shape[1]
    header = "".join(f"@attribute {name} {{0,1}}\n" for name in [*(f"word{n}" for n in range(width)), *names])
    rows = (
        [column for column, value in enumerate([*features, *labels]) if value]
        for features, labels in zip(split.inputs.tolist(), split.labels.tolist(), strict=True)
    )
    lines = ("{" + ",".join(f"{column} 1" for column in row) + "}\n" for row in rows)
    file.write_text(f"@relation bookmarks\n{header}@data\n{''.join(lines)}")


def test_bookmarks_as_published(tmp_path):
    data, names = generate_rows((120, 40, 40), 30, 6, 0), [f"TAG_{number}" for number in range(6)]
    for name, split in (("train", data.train), ("dev", data.dev), ("test", data.test)):
        write_arff(tmp_path / f"bookmarks-{name}.arff", split, names)
    inside = "".join(f'<label name="{name}"></label>' for name in names)
    (tmp_path / "bookmarks.xml").write_text(
        f'<labels xmlns="http://mulan.sourceforge.net/labels">{inside}</labels>'
    )
    few = [f"{system}.max_updates=6" for system in SYSTEMS]
    changes = [f"data.folder={tmp_path}", "seeds=[3]", "struct.hidden=8", "gspen.hidden=8", *few]
    sets = [part for change in changes for part in ("--set", change)]
    result = run_command(app, "bookmarks", *sets, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "120 train, 40 dev, 40 test rows, 30 features, 6 labels" in result.output
    assert [found["system"] for found in results_of(tmp_path / "run")] == SYSTEMS
    recipe = load_study(MultilabelRecipe, "multilabel/bookmarks.yaml", changes)
    systems = MultilabelSystems(recipe, data, 3, tmp_path / "run" / "seed-3")
    first, _, _, second, *_ = systems.unary.scorer.nodes.layers
    assert (first.p, second.p) == (0.0, 0.5)
    assert systems.spen.head.term.mlp.input.out_features == 15
