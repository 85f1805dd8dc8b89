"""The moving average of the weights."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gspen_ner.hosts.huggingface.checkpoints import AVERAGE_FILE, WeightAverage


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.free = nn.Parameter(torch.tensor([1.0, -2.0]))
        self.fixed = nn.Parameter(torch.tensor([5.0]), requires_grad=False)


def state(step):
    return SimpleNamespace(global_step=step, is_world_process_zero=True)


def begin(average, model, step=0, folder="."):
    average.on_train_begin(SimpleNamespace(output_dir=str(folder)), state(step), None, model=model)


def train(average, model, steps, first=1):
    """Move the weights by a known amount and tell the average about it; returns them all."""
    seen = []
    for step in range(first, first + steps):
        with torch.no_grad():
            model.free.add_(torch.tensor([0.5, float(step)]))
        average.on_step_end(None, state(step), None, model=model)
        seen.append(model.free.detach().clone())
    return seen


@pytest.mark.parametrize("decay", [0.05, 0.4, 0.99])
def test_it_is_the_one_computed_by_hand(decay):
    model, average = Model(), WeightAverage(decay)
    begin(average, model)
    expected = model.free.detach().double().clone()
    for step, weights in enumerate(train(average, model, 30), 1):
        now = min(decay, (1 + step) / (10 + step))
        expected = now * expected + (1 - now) * weights.double()
    with average.in_place(model):
        torch.testing.assert_close(model.free.detach().double(), expected, rtol=1e-5, atol=1e-5)


def test_weights_that_are_not_trained_are_left_alone():
    model, average = Model(), WeightAverage(0.9)
    begin(average, model)
    assert list(average.weights) == ["free"]
    model.fixed.data.fill_(7.0)
    with average.in_place(model):
        assert model.fixed.tolist() == [7.0]


def test_it_takes_the_place_of_the_weights_and_gives_it_back():
    model, average = Model(), WeightAverage(0.9)
    begin(average, model)
    last = train(average, model, 5)[-1]
    with average.in_place(model):
        averaged = model.free.detach().clone()
        assert not torch.equal(averaged, last)
    assert torch.equal(model.free, last)
    with average.in_place(model):
        assert torch.equal(model.free, averaged), "the same again"


def test_an_error_gives_the_weights_back_too():
    model, average = Model(), WeightAverage(0.9)
    begin(average, model)
    last = train(average, model, 5)[-1]
    with pytest.raises(RuntimeError, match="mishap"), average.in_place(model):
        raise RuntimeError("mishap")
    assert torch.equal(model.free, last)


def test_training_goes_on_after_a_look_at_the_average():
    watched, other = (Model(), WeightAverage(0.9)), (Model(), WeightAverage(0.9))
    for model, average in (watched, other):
        begin(average, model)
    for step in range(1, 8):
        for model, average in (watched, other):
            train(average, model, 1, first=step)
        with watched[1].in_place(watched[0]):
            pass
    assert torch.equal(watched[0].free, other[0].free)
    assert torch.equal(watched[1].weights["free"], other[1].weights["free"])


def test_without_decay_nothing_is_averaged(tmp_path):
    model, average = Model(), WeightAverage(0.0)
    begin(average, model)
    last = train(average, model, 5)[-1]
    with average.in_place(model):
        assert torch.equal(model.free, last)
    average.on_save(SimpleNamespace(output_dir=str(tmp_path)), state(5), None)
    assert not list(tmp_path.iterdir())


def test_a_saved_average_goes_on_as_if_nothing_had_happened(tmp_path):
    model, average = Model(), WeightAverage(0.9)
    begin(average, model)
    train(average, model, 5)
    (tmp_path / "checkpoint-5").mkdir()
    average.on_save(SimpleNamespace(output_dir=str(tmp_path)), state(5), None)
    assert (tmp_path / "checkpoint-5" / AVERAGE_FILE).is_file()

    again, resumed = Model(), WeightAverage(0.9)
    again.free.data.copy_(model.free)
    begin(resumed, again, step=5, folder=tmp_path)
    train(average, model, 3, first=6)
    train(resumed, again, 3, first=6)
    assert torch.equal(resumed.weights["free"], average.weights["free"])


@pytest.mark.parametrize("decay", [-0.1, 1.0, 2.0])
def test_a_decay_that_makes_no_sense_is_refused(decay):
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\)"):
        WeightAverage(decay)
