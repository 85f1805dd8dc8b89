"""Wrong tags of an image."""

import pytest
import torch

from recipes.tagging.systems import hamming


def test_hamming():
    labels = torch.zeros(4, 24, dtype=torch.int64)
    predictions = labels.clone()
    predictions[0, :5] = 1
    labels[1, 3] = 1
    for kind in (torch.int64, torch.bool, torch.float32):
        assert hamming(predictions.to(kind), labels) == 6 / 4
    assert hamming(labels, labels) == 0
    assert hamming(1 - labels, labels) == 24


def test_bad_predictions():
    zeros = torch.zeros(2, 3)
    for predictions, labels in ((zeros, zeros[:1]), (zeros[0], zeros[0]), (zeros[:0], zeros[:0])):
        with pytest.raises(ValueError, match=r"expected predictions and labels as \[images, tags\], got"):
            hamming(predictions, labels)
    with pytest.raises(ValueError, match="expected predictions that are 0 or 1"):
        hamming(zeros + 0.5, zeros)
    with pytest.raises(ValueError, match="expected labels that are 0 or 1"):
        hamming(zeros, zeros + torch.nan)
