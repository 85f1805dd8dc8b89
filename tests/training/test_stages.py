"""What hosts share that train in stages."""

import json

import pytest
import torch
from torch import nn

from gspen_ner.training.stages import scoring, write_history


@pytest.mark.parametrize("mode", [True, False])
def test_scoring_leaves_mode_and_random_numbers_as_they_are(mode):
    model, ones = nn.Dropout(0.5).train(mode), torch.ones(100, requires_grad=True)
    before = torch.get_rng_state()
    drawn = []
    for draw in (None, 0, 1, 0):
        with scoring(model, draw):
            drawn.append(1.0 * model(ones))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training == mode
    assert not any(scores.requires_grad for scores in drawn)
    without, first, second, again = drawn
    assert torch.equal(without, ones)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_a_history_takes_the_place_of_the_one_of_its_stage(tmp_path):
    file = tmp_path / "metrics.jsonl"
    write_history(file, "base", [{"epoch": 1}])
    write_history(file, "term", [{"epoch": 1}])
    write_history(file, "base", [{"epoch": 1}, {"epoch": 2}])
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(entry["stage"], entry["epoch"]) for entry in entries] == [("term", 1), ("base", 1), ("base", 2)]
