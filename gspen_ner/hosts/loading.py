"""Finding and loading a trained model by its folder, whatever its host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gspen_ner.ner.predictions import SentenceTagger

HUGGING_FACE_FILE, FLAIR_FILE = "config.json", "model.pt"


def find_model(path: str | Path, subfolders: Sequence[str] = ("", "model")) -> Path:
    """Return the folder that holds a model.

    Args:
        path: folder of a model or of a run.
        subfolders: folders in it to look into, in this order; `""` is the folder itself.
    """
    for name in subfolders:
        folder = Path(path) / name
        if (folder / HUGGING_FACE_FILE).is_file() or (folder / FLAIR_FILE).is_file():
            return folder
    inside = ", nor in ".join(name or "it" for name in subfolders)
    raise ValueError(f"{path}: no model here (neither {HUGGING_FACE_FILE} nor {FLAIR_FILE} in {inside})")


def model_files(path: str | Path) -> list[Path]:
    """Return the files on which a model's predictions depend."""
    folder = find_model(path)
    if is_flair(folder):
        return [folder / FLAIR_FILE]
    return sorted(file for file in folder.iterdir() if file.is_file() and file.name != "README.md")


def load_tagger(path: str | Path) -> SentenceTagger:
    """Return the tagger of a model's folder, or of the best model of a run's folder."""
    folder = find_model(path)
    if is_flair(folder):
        from gspen_ner.hosts.flair.prediction import FlairTagger

        return FlairTagger.load(folder / FLAIR_FILE)
    from gspen_ner.hosts.huggingface.tagger import Tagger

    return Tagger.load(folder)


def is_flair(folder: Path) -> bool:
    """Return whether Flair's file is to be read: a pickle, so only if there is no config.json beside it."""
    return not (folder / HUGGING_FACE_FILE).exists()
