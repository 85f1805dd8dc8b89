"""A picture of OCR data: the same words with several weights of the background, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gspen_ner.training import Examples
from recipes.studies.pictures import write_picture

_GAP = 2  # white pixels between letters


def draw_samples(by_alpha: Mapping[float, Examples], file: Path, rows: int = 3) -> None:
    """Draw the first words of each split, a column for each alpha, and write which words they are as JSON.

    Args:
        by_alpha: words; data made with equal seeds show the same words in each column.
        file: path without suffix, of the picture and its JSON file.
        rows: number of words.
    """
    fewest = min(map(len, by_alpha.values()), default=0)
    if not 1 <= rows <= fewest:
        raise ValueError(f"expected from 1 to {fewest} rows, as there are words, got {rows}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.7 * len(by_alpha), 0.35 + 0.76 * rows), layout="constrained")
    panels = figure.subplots(rows, len(by_alpha), squeeze=False, gridspec_kw={"wspace": 0.06})
    words: dict[str, list[str]] = {}
    for column, (alpha, examples) in enumerate(by_alpha.items()):
        for row in range(rows):
            panel = panels[row, column]
            strip = _strip(examples.inputs[row])
            panel.imshow(strip, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            panel.set_axis_off()
            word = "".join(ascii_lowercase[label] for label in examples.labels[row].tolist())
            words.setdefault(f"{alpha:g}", []).append(word)
            panel.text(0.5, -0.06, word, transform=panel.transAxes, ha="center", va="top")
        panels[0, column].set_title(rf"$\alpha$ = {alpha:g}")
    write_picture(file, {"words by alpha": words}, figure)


def _strip(letters: UInt8[Tensor, "5 28 28"]) -> UInt8[np.ndarray, "28 columns"]:
    """Return the letters of a word side by side."""
    gap = letters.new_full((letters.shape[1], _GAP), 255)
    parts = [part for letter in letters for part in (letter, gap)]
    return torch.cat(parts[:-1], dim=1).numpy()
