"""Training of graph systems: what is watched, how rates fall, what is kept."""

import pytest
import torch
from torch import nn

from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions, train_system
from gspen_ner.polytopes import Simplex
from gspen_ner.systems import GraphSystem, SystemLoss
from recipes.studies.settings import SystemTraining


class Counter(nn.Module):
    """Scores whose only weight falls by its learning rate with each update."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs, labels):
        return SystemLoss(self.weight.sum())

    def predict(self, inputs):
        return self.weight.detach().expand(len(inputs))


def examples(rows=8):
    return Examples(torch.zeros(rows, 1), torch.zeros(rows, dtype=torch.long))


def settings(**changes):
    plain = {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 1.0, "clip": 0.0, "batch_size": 4}
    return SystemTraining(**plain | {"evaluate_every": 2, "patience": 100} | changes)


def weight_and_rows(found, labels):
    return float(found[0]) * 100 - len(labels)


def test_each_evaluation_is_a_point_of_the_curve_once():
    watch = {"other": examples(5)}
    found = train_system(
        Counter(), examples(), examples(3), weight_and_rows, settings(max_updates=6), 1, watch=watch
    )
    assert [point["epoch"] for point in found.curve] == [1.0, 2.0, 3.0]
    assert [point["dev"] for point in found.curve] == [-203, -403, -603]
    assert [point["other"] for point in found.curve] == [-205, -405, -605]


def test_scores_may_be_negative_and_the_best_are_kept():
    system = Counter()
    found = train_system(system, examples(), examples(3), weight_and_rows, settings(max_updates=6), 1)
    assert (found.score, found.updates) == (-203, 2)
    assert system.weight.item() == -2


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_training_ends_after_as_many_worse_evaluations_as_patience_has(patience):
    training = settings(max_updates=20, patience=patience)
    found = train_system(Counter(), examples(), examples(3), weight_and_rows, training, 1)
    assert len(found.curve) == 1 + patience  # the first is the best


@pytest.mark.parametrize(("schedule", "weight"), [("constant", -4.0), ("linear", -(1 + 0.75 + 0.5 + 0.25))])
def test_rates_stay_or_fall_to_nothing(schedule, weight):
    system = Counter()
    training = settings(max_updates=4, schedule=schedule)
    train_system(system, examples(), examples(3), lambda found, _: -float(found[0]), training, 1)
    assert system.weight.item() == pytest.approx(weight)


def test_steps_are_none_without_a_term():
    system = GraphSystem(lambda batch: Simplex(torch.ones(batch, 2, dtype=torch.bool)))
    assert predictions(system, torch.zeros(3, 2, 4), "steps").tolist() == [0, 0, 0]
