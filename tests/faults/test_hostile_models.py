"""Model folders that are torn, of another version or malicious are refused, and none of their code is run."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from gspen_ner.hosts.huggingface import GSPENForTokenClassification, Tagger
from gspen_ner.hosts.huggingface.config import LAYOUT
from gspen_ner.hosts.huggingface.model import load_model
from tests.tiny import gspen_ner, make_model
from tests.tiny_transformer import NAMES, save_encoder


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Folders of a BiLSTM-CNN and of a transformer."""
    folder = tmp_path_factory.mktemp("sound")
    make_model("gspen").save_pretrained(folder / "words")
    encoder = save_encoder(folder / "encoder")
    GSPENForTokenClassification.from_encoder(encoder, NAMES).save_pretrained(folder / "pieces")
    return folder


@pytest.fixture
def words(sound, tmp_path):
    return shutil.copytree(sound / "words", tmp_path / "words")


@pytest.fixture
def pieces(sound, tmp_path):
    return shutil.copytree(sound / "pieces", tmp_path / "pieces")


@pytest.fixture
def marker(tmp_path):
    """A file that is there if something was run."""
    return tmp_path / "marker"


def changed(file, **entries):
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def refused(folder, message):
    """By the library and by the commands, in a line."""
    for read in (Tagger.load, GSPENForTokenClassification.from_pretrained):
        with pytest.raises(ValueError, match=message) as caught:
            read(folder)
        assert str(caught.value).startswith(str(folder))
        assert str(caught.value).count("not a model that can be read") <= 1
    (folder.parent / "text.txt").write_text("Anna left.")
    output = folder.parent / "out.conll"
    for arguments in (
        ("evaluate", folder, "newswire:1:1"),
        ("predict", folder, folder.parent / "text.txt", "--output", output),
    ):
        result = gspen_ner(*arguments)
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == 1
        assert "error:" in result.output
        assert "Traceback" not in result.output
    assert not output.exists()


def test_sound_folders_are_read(words, pieces):
    assert load_model(words).config.layout == LAYOUT
    assert load_model(pieces).reader is not None


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.pt"])
def test_a_pickle_is_never_run(name, words, marker):
    (words / "model.safetensors").unlink()
    (words / name).write_bytes(pickle.dumps(Payload(marker)))
    refused(words, "not a model that can be read")
    assert not marker.exists()
    pickle.loads((words / name).read_bytes())
    assert marker.exists(), "or else the payload proves nothing"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "training_args.bin"])
def test_a_pickle_beside_a_model_is_not_looked_at(name, words, marker):
    torch.save(Payload(marker), words / name)
    Tagger.load(words)
    assert gspen_ner("evaluate", words, "newswire:1:1").exit_code == 0
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
)
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_file_that_was_cut_off(name, part, pieces):
    content = (pieces / name).read_bytes()
    (pieces / name).write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ValueError, match="model"):
        load_model(pieces)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"layout": 3}, "newer version of gspen_ner: layout 3"),
        ({"layout": "x"}, "newer version"),
        ({"chain_labels": [], "labels": ["O"]}, "older version of gspen_ner"),
        ({"model_type": "bert"}, "expected a model of type gspen_ner, got 'bert'"),
        ({"scorer": {"units": 3}}, "units|trained_words"),
        ({"scorer": 5}, "not a model"),
        ({"confidences": {"full": {"slope": -1.0}}}, "confidences.full.slope: .* got -1.0"),
        ({"auto_map": {"AutoConfig": "evil.Config"}}, "auto_map is not read"),
        ({"transformers_weights": "../../x.safetensors"}, "transformers_weights is not read"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config is not read"),
        ({"attn_implementation": "evil/kernel"}, "expected one of .* got 'evil/kernel'"),
        ({"num_labels": 10**9}, "num_labels: the weights are not of a model of 1000000000"),
    ],
)
def test_another_version_or_entries_that_do_harm(entries, message, words):
    changed(words / "config.json", **entries)
    refused(words, message)


@pytest.mark.parametrize(
    ("model", "section", "key", "value"),
    [
        ("words", "scorer", "hidden", 10**12),
        ("words", "scorer", "word_size", 10**6),
        ("words", "scorer", "trained_words", 10**6),
        ("words", "scorer", "width", -(10**12)),
        ("pieces", "scorer", "pieces", 10**13),
        ("pieces", "scorer", "pieces", 10**6),
        ("pieces", "encoder", "num_hidden_layers", 10**9),
        ("pieces", "encoder", "hidden_size", 10**6),
        ("pieces", "encoder", "vocab_size", 10**12),
        ("pieces", "encoder", "num_labels", 10**9),
        ("pieces", "encoder", "model_type", "../../evil"),
        ("pieces", "encoder", "auto_map", {"AutoModel": "evil--evil.Model"}),
    ],
)
def test_sizes_that_the_weights_do_not_have(model, section, key, value, sound, tmp_path):
    folder = shutil.copytree(sound / model, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    changed(folder / "config.json", **{section: config[section] | {key: value}})
    with pytest.raises(ValueError, match=r"not a model that can be read|do not fit"):
        load_model(folder)


@pytest.mark.parametrize("name", ["../other.safetensors", "/other.safetensors", "model.bin"])
def test_weights_in_other_places(name, words, tmp_path):
    (words / "model.safetensors").rename(tmp_path / "other.safetensors")
    index = {"metadata": {}, "weight_map": {"scorer.emissions.bias": name}}
    (words / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(words, "expected files beside it")


@pytest.mark.parametrize(
    "entries",
    [
        {"tokenizer_file": "/etc/passwd"},
        {"vocab_file": "../../x"},
        {"fast_tokenizer_files": ["../x.json"]},
        {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}},
    ],
)
def test_tokenizers_of_other_places(entries, pieces):
    changed(pieces / "tokenizer_config.json", **entries)
    refused(pieces, "is not read")


@pytest.mark.parametrize("options", [{}, {"use_safetensors": False}])
def test_from_pretrained_reads_no_pickle(options, words, marker):
    torch.save(Payload(marker), words / "pytorch_model.bin")
    assert GSPENForTokenClassification.from_pretrained(words, **options).config.system == "gspen"
    (words / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors: no such file"):
        GSPENForTokenClassification.from_pretrained(words.parent, subfolder="words", **options)
    assert not marker.exists()


def test_code_in_the_folder_is_not_run(pieces, marker):
    (pieces / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Config: pass\n")
    changed(pieces / "config.json", auto_map={"AutoConfig": "evil.Config"})
    refused(pieces, "auto_map")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json"])
def test_links_out_of_the_folder(name, words, tmp_path):
    (words / name).rename(tmp_path / name)
    (words / name).symlink_to(tmp_path / name)
    refused(words, f"{name} is a link out of the folder")


def test_a_folder_of_the_hub_s_cache_is_made_of_links(words, tmp_path):
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "abc", tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    words.rename(blobs)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(Path("../../blobs", file.name))
    assert load_model(snapshot).config.system == "gspen"


def test_devices_and_pipes(words):
    (words / "vocabulary.json").unlink()
    os.mkfifo(words / "vocabulary.json")
    refused(words, "neither a file nor a folder")


def test_a_vocabulary_of_another_model(words):
    changed(words / "vocabulary.json", words=[f"word {number}" for number in range(10_000)])
    refused(words, "fixed_words, as config.json says")


def test_an_adapter_of_another_model(words):
    (words / "adapter_config.json").write_text('{"base_model_name_or_path": "../../x"}')
    refused(words, "an adapter of another")
