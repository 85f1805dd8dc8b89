"""What the studies share: networks, Unary, results over seeds."""

import pytest
import torch
from torch import nn

from gspen_ner.polytopes import Simplex
from gspen_ner.scorers.graph import GraphScorer
from gspen_ner.training import System, TensorTraining
from recipes.multilabel.settings import MultilabelRecipe
from recipes.ocr.letter_net import LetterNet
from recipes.studies.feature_net import FeatureNet, PairNet
from recipes.studies.settings import FeatureNetTraining, StructTraining, TermTraining, options_for
from recipes.studies.systems import UnarySystem
from recipes.tagging.settings import TaggingRecipe


def over_nodes(batch):
    return Simplex(torch.ones(batch, 4, dtype=torch.bool))


def test_unary_is_a_system_whose_loss_is_a_mean_over_nodes():
    images = torch.randint(0, 256, (6, 4, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 3, (6, 4))
    scorer = GraphScorer(over_nodes, LetterNet(3, hidden=8, dropout=0.0))
    likelihood = System(scorer)(images, labels).loss  # a sum over nodes
    for scale in (1.0, 4.0):
        loss = UnarySystem(scorer, scale)(images, labels).loss
        torch.testing.assert_close(4 * loss / scale, likelihood.float())


@pytest.mark.parametrize(
    "net",
    [
        FeatureNet(num_features=200, num_nodes=5, input_dropout=0.0, hidden_dropout=0.0, flips=0.5),
        PairNet(num_features=200, num_edges=5, hidden=8, flips=0.5),
        PairNet(num_features=200, num_edges=5, hidden=8, input_dropout=0.5),
    ],
)
def test_features_are_flipped_and_dropped_in_training_only(net):
    if isinstance(net, PairNet):
        assert not net(torch.ones(4, 200)).any()
        nn.init.normal_(net.tables.weight)
    features = torch.randint(2, (4, 200), dtype=torch.uint8)
    assert not torch.equal(net.train()(features), net(features))
    assert torch.equal(net.eval()(features), net(features))


def test_the_score_of_no_is_zero():
    scores = FeatureNet(num_features=20, num_nodes=5)(torch.ones(4, 20))
    assert (scores[..., 0] == 0).all()
    assert (scores[..., 1] != 0).all()


def test_settings_hold_the_options_of_networks_with_their_defaults():
    settings = FeatureNetTraining(hidden=7, learning_rate=0.5)
    assert options_for(FeatureNet, settings) == {
        "hidden": 7, "input_dropout": 0.5, "hidden_dropout": 0.5, "flips": 0.0,
    }  # fmt: skip
    assert set(TermTraining.model_fields) >= {"hidden", "read_potentials", "learning_rate", "inference"}
    assert StructTraining.model_fields.keys() - TensorTraining.model_fields.keys() == {"temperature", "cost"}
    assert (StructTraining().temperature, StructTraining().cost) == (1.0, 1.0)
    with pytest.raises(ValueError, match="hidden_dropout"):
        FeatureNetTraining(hidden_dropout=1.0)


@pytest.mark.parametrize(
    ("graph", "polytope"),
    [
        ({"inference": "exact", "sweeps": 100}, {"name": "local", "oracle": "cut", "max_sweeps": 100}),
        (
            {"inference": "messages", "sweeps": 100},
            {"name": "local", "tolerance": 0.0, "max_sweeps": 100, "oracle_sweeps": 100},
        ),
    ],
)
def test_old_entries_of_inference_are_read_as_polytopes(graph, polytope):
    data = {"task": "tagging", "data": {"name": "generated"}}
    assert TaggingRecipe(**data, graph=graph) == TaggingRecipe(**data, polytope=polytope)
    recipe = MultilabelRecipe(task="multilabel", data={"format": "generated"}, graph={"inference": "exact"})
    assert recipe.polytope.name == "tree"
    with pytest.raises(ValueError, match="chain"):
        MultilabelRecipe(task="multilabel", data={"format": "generated"}, polytope={"name": "chain"})
