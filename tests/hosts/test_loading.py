"""Which host a folder's model belongs to: what is loaded is also what a model's digest is of."""

from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.loading import FLAIR_FILE, HUGGING_FACE_FILE, load_tagger, model_files
from tests.tiny import make_model


def test_beside_a_model_of_ours_a_pickle_is_neither_loaded_nor_taken_for_the_model(tmp_path):
    make_model().save_pretrained(tmp_path)
    (tmp_path / FLAIR_FILE).write_bytes(b"no pickle")
    assert isinstance(load_tagger(tmp_path), Tagger)
    names = {file.name for file in model_files(tmp_path)}
    assert {HUGGING_FACE_FILE, "model.safetensors", "vocabulary.json"} <= names
    assert "README.md" not in names


def test_a_folder_of_flair_s_is_its_one_file(tmp_path):
    (tmp_path / "model").mkdir()
    for name in (FLAIR_FILE, "notes.txt"):
        (tmp_path / "model" / name).write_bytes(b"")
    assert model_files(tmp_path) == [tmp_path / "model" / FLAIR_FILE]
