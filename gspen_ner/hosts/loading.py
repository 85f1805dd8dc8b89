"""A trained model from its folder, whatever host it lives in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gspen_ner.ner.predictions import SentenceTagger

HUGGING_FACE_FILE, FLAIR_FILE = "config.json", "model.pt"


def find_model(path: str | Path, places: Sequence[str] = ("", "model")) -> Path:
    """The folder that holds a model: the one given, or one of these in that of a run."""
    for place in places:
        folder = Path(path) / place
        if (folder / HUGGING_FACE_FILE).is_file() or (folder / FLAIR_FILE).is_file():
            return folder
    inside = ", nor in ".join(place or "it" for place in places)
    raise ValueError(f"{path}: no model here (neither {HUGGING_FACE_FILE} nor {FLAIR_FILE} in {inside})")


def model_files(path: str | Path) -> list[Path]:
    """The files that what a model says depends on."""
    folder = find_model(path)
    if _is_flair(folder):
        return [folder / FLAIR_FILE]
    return sorted(file for file in folder.iterdir() if file.is_file() and file.name != "README.md")


def load_tagger(path: str | Path) -> SentenceTagger:
    """The model in a folder, or the best one of a run."""
    folder = find_model(path)
    if _is_flair(folder):
        from gspen_ner.hosts.flair.prediction import FlairTagger

        return FlairTagger.load(folder / FLAIR_FILE)
    from gspen_ner.hosts.huggingface.tagger import Tagger

    return Tagger.load(folder)


def _is_flair(folder: Path) -> bool:
    """Flair's file is a pickle: it is read only where nothing claims to be a model of ours."""
    return not (folder / HUGGING_FACE_FILE).exists()
