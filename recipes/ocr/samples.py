"""A picture of OCR data: the same words at several interpolation factors, as in the paper's sample figure."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import torch
from jaxtyping import UInt8

from gspen_ner.files import write_whole
from recipes.ocr.words import OCRSplit

_GAP = 2  # white pixels between letters


def sample_figure(by_alpha: dict[float, OCRSplit], file: Path, rows: int = 3) -> None:
    """Draw the first words of each split into a PNG file, a column for each alpha.

    A JSON file beside it says which words they are.

    Args:
        by_alpha: data made with equal seeds show the same words in each column.
        file: is overwritten.
        rows: how many words.
    """
    fewest = min((len(split.labels) for split in by_alpha.values()), default=0)
    if not 1 <= rows <= fewest:
        raise ValueError(f"expected from 1 to {fewest} rows, as there are words, got {rows}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.7 * len(by_alpha), 0.35 + 0.76 * rows), layout="constrained")
    panels = figure.subplots(rows, len(by_alpha), squeeze=False, gridspec_kw={"wspace": 0.06})
    words: dict[str, list[str]] = {}
    for column, (alpha, split) in enumerate(by_alpha.items()):
        for row in range(rows):
            panel = panels[row, column]
            panel.imshow(_strip(split, row), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            panel.set_axis_off()
            word = "".join(ascii_lowercase[label] for label in split.labels[row].tolist())
            words.setdefault(f"{alpha:g}", []).append(word)
            panel.text(0.5, -0.06, word, transform=panel.transAxes, ha="center", va="top")
        panels[0, column].set_title(rf"$\alpha$ = {alpha:g}")
    figure.savefig(file, format="png", dpi=200)
    write_whole(file.with_suffix(".json"), json.dumps({"words by alpha": words}, indent=2) + "\n")


def _strip(split: OCRSplit, row: int) -> UInt8[np.ndarray, "28 columns"]:
    """The letters of a word side by side."""
    letters = split.images[row]
    gap = letters.new_full((letters.shape[1], _GAP), 255)
    parts = [part for letter in letters for part in (letter, gap)]
    return torch.cat(parts[:-1], dim=1).numpy()
