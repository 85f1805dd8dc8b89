"""What docs/guide.md shows of training with tensors in memory, run as it stands there."""

import re
import textwrap
from pathlib import Path

import torch

TEXT = (Path(__file__).parents[1] / "docs" / "guide.md").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)]


def test_two_stages_with_tensors_in_memory():
    (code,) = [block for block in BLOCKS if "System(Scorer())" in block]
    names = {"__name__": "guide"}
    exec(code, names)
    system, upgraded, dev = names["system"], names["upgraded"], names["dev"]
    assert names["accuracy"](system.argmax(dev.inputs), dev.labels) > 0.8
    assert upgraded.argmax(dev.inputs).shape == dev.labels.shape
    assert upgraded.scorer is system.scorer
    assert any(weight.abs().sum() > 0 for weight in upgraded.head.term.parameters())
    assert torch.isfinite(upgraded.marginals(dev.inputs)).all()
