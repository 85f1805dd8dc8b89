"""A trained model from its folder, whatever host it lives in."""

from __future__ import annotations

from pathlib import Path

from gspen_ner.tasks.predictions import SentenceTagger

FLAIR_FILE = "model.pt"


def load_tagger(path: str | Path) -> SentenceTagger:
    """The model in a folder, or the best one of a run."""
    folder = Path(path)
    for place in (folder, folder / "model"):
        if (place / "config.json").is_file():
            from gspen_ner.hosts.huggingface.tagger import Tagger

            return Tagger.load(place)
        if (place / FLAIR_FILE).is_file():
            from gspen_ner.hosts.flair.sentences import FlairTagger

            return FlairTagger.load(place / FLAIR_FILE)
    raise ValueError(f"{folder}: no model here (neither config.json nor {FLAIR_FILE}, nor a folder model)")
