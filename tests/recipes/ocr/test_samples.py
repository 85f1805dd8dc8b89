"""The picture of OCR data: there, of the right size, with every letter of it, and without pyplot."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from gspen_ner.training import Examples
from recipes.ocr.report import draw_samples


def split(brightness, count=5):
    images = torch.full((count, 5, 28, 28), brightness, dtype=torch.uint8)
    labels = torch.tensor([[2, 11, 14, 18, 4]]).repeat(count, 1)
    return Examples(images, labels)


def pixels(file):
    with Image.open(file) as image:
        assert image.format == "PNG"
        return np.array(image.convert("L"))


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_column_for_each_alpha_and_a_row_for_each_word(tmp_path, rows):
    draw_samples({0.3: split(50), 0.5: split(120), 0.7: split(190)}, tmp_path / "x", rows=rows)
    picture = pixels(tmp_path / "x.png")
    third = picture.shape[1] // 3
    for column, brightness in enumerate((50, 120, 190)):
        here = np.abs(picture[:, column * third : (column + 1) * third].astype(int) - brightness) <= 1
        lines = here.sum(1) > third / 2
        assert (np.diff(lines.astype(int)) == 1).sum() == rows  # strips, one below the other
        strip = here[lines].mean(0) > 0.9
        assert (np.diff(strip.astype(int)) == 1).sum() == 5  # letters, side by side
    assert (picture < 20).sum() > 100 * rows  # captions


def test_one_column_drawn_twice_is_the_same(tmp_path):
    draw_samples({0.5: split(120)}, tmp_path / "picture", rows=2)
    first = (tmp_path / "picture.png").read_bytes()
    draw_samples({0.5: split(120)}, tmp_path / "picture", rows=2)
    assert (tmp_path / "picture.png").read_bytes() == first


@pytest.mark.parametrize(("data", "rows"), [({}, 1), ({0.5: split(9)}, 0), ({0.5: split(9, count=2)}, 3)])
def test_rows_that_there_are_not(tmp_path, data, rows):
    with pytest.raises(ValueError, match=f"expected from 1 to .* rows, as there are words, got {rows}"):
        draw_samples(data, tmp_path / "x", rows=rows)
    assert not (tmp_path / "x.png").exists()


def test_libraries_for_pictures_are_loaded_when_needed_only(tmp_path):
    code = f"""
import sys
from pathlib import Path
import torch
from gspen_ner.training import Examples
from recipes.ocr.report import draw_samples
assert not {{"PIL", "matplotlib", "sklearn"}} & set(sys.modules)
split = Examples(torch.zeros(1, 5, 28, 28).byte(), torch.zeros(1, 5).long())
draw_samples({{0.5: split}}, Path({str(tmp_path / "x")!r}), 1)
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "x.png").exists()
