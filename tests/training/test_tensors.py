"""Training on tensors in memory: the loop written out, best weights, score sources, two stages."""

import pytest
import torch
from torch import nn

from gspen_ner import GSPENHead, Parts, RegionMLP, Simplex, System
from gspen_ner.scorers.graph import GraphScorer
from gspen_ner.training import (
    CrossFit,
    DropoutDraws,
    Examples,
    Plain,
    SystemLoss,
    TensorTraining,
    fit,
    predictions,
    train_term,
)
from gspen_ner.training.tensors import PREDICTION_BATCH, TensorHost, score_all

NODES, LABELS = 3, 2


def over_nodes(batch):
    return Simplex(torch.ones(batch, NODES, dtype=torch.bool))


def accuracy(predicted, gold):
    return (predicted == gold).double().mean().item()


def make_base(dropout=0.0):
    layers = nn.Dropout(dropout), nn.Linear(4, NODES * LABELS), nn.Unflatten(1, (NODES, LABELS))
    return System(GraphScorer(over_nodes, nn.Sequential(*layers)))


def make_examples(rows=30, seed=0):
    """Return noisy examples of which all labels are equal."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(LABELS, (rows, 1), generator=draws).expand(-1, NODES)
    inputs = torch.randn(rows, 4, generator=draws) + labels[:, :1]
    return Examples(inputs, labels)


class Falling(System):
    """A system whose only weight falls by the learning rate in each update, and is its prediction."""

    def __init__(self):
        super().__init__(lambda inputs: None)
        self.weight = nn.Parameter(torch.zeros(1))
        self.batches = []

    def forward(self, inputs, labels):
        self.batches.append(inputs.flatten().tolist())
        return SystemLoss(self.weight.sum())

    def argmax(self, inputs):
        return self.weight.detach().expand(len(inputs))


def numbered(rows=8, documents=None, start=0.0):
    inputs = start + torch.arange(rows, dtype=torch.float)[:, None]
    return Examples(inputs, torch.zeros(rows, dtype=torch.long), documents)


def settings(**changes):
    plain = {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 1.0, "clip": 0.0, "batch_size": 4}
    return TensorTraining(**plain | {"evaluate_every": 2, "patience": 100} | changes)


def weight_and_rows(predicted, labels):
    return float(predicted[0]) * 100 - len(labels)


class TestFit:
    """The loop."""

    @pytest.mark.parametrize("optimizer", ["adam", "sgd"])
    @pytest.mark.parametrize("clip", [0.0, 0.1])
    def test_it_is_the_loop_written_out(self, optimizer, clip):
        train, training = (
            make_examples(),
            TensorTraining(
                optimizer=optimizer,
                learning_rate=0.05,
                batch_size=8,
                clip=clip,
                max_updates=9,
                evaluate_every=9,
            ),
        )
        torch.manual_seed(5)
        system, expected = make_base(), make_base()
        expected.load_state_dict(system.state_dict())
        fit(system, train, train, accuracy, training, seed=3)

        weights = list(expected.parameters())
        if optimizer == "adam":
            steps = torch.optim.Adam(weights, 0.05)
        else:
            steps = torch.optim.SGD(weights, 0.05, 0.9)
        for epoch in range(3):
            order = torch.randperm(30, generator=torch.Generator().manual_seed(3 + epoch))
            for rows in order.split(8)[: 4 if epoch < 2 else 1]:
                steps.zero_grad()
                expected(train.inputs[rows], train.labels[rows]).loss.backward()
                if clip:
                    nn.utils.clip_grad_norm_(weights, clip)
                steps.step()
        for mine, its in zip(system.parameters(), weights, strict=True):
            assert torch.equal(mine, its)

    def test_equal_seeds_give_equal_systems(self):
        weights = []
        for seed in (1, 1, 2):
            torch.manual_seed(0)
            system = make_base(dropout=0.5)
            fit(system, make_examples(), make_examples(), accuracy, settings(max_updates=4), seed)
            weights.append(system.scorer.nodes[1].weight.detach())
        assert torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[0], weights[2])

    def test_each_evaluation_is_a_point_of_the_curve(self):
        watch = {"other": numbered(5)}
        training = settings(max_updates=7)
        trained = fit(Falling(), numbered(), numbered(3), weight_and_rows, training, 1, watch=watch)
        assert [point["epoch"] for point in trained.curve] == [1.0, 2.0, 3.0, 3.5]
        assert [point["dev"] for point in trained.curve] == [-203, -403, -603, -703]
        assert [point["other"] for point in trained.curve] == [-205, -405, -605, -705]

    def test_evaluations_are_at_least_an_epoch_apart(self):
        trained = fit(Falling(), numbered(40), numbered(3), weight_and_rows, settings(max_updates=20), 1)
        assert [point["epoch"] for point in trained.curve] == [1.0, 2.0]

    def test_the_best_weights_are_kept(self):
        system = Falling()
        trained = fit(system, numbered(), numbered(3), weight_and_rows, settings(max_updates=6), 1)
        assert (trained.score, trained.updates) == (-203, 2)
        assert system.weight.item() == -2

    @pytest.mark.parametrize("patience", [1, 2, 3])
    def test_it_stops_early(self, patience):
        training = settings(max_updates=20, patience=patience)
        trained = fit(Falling(), numbered(), numbered(3), weight_and_rows, training, 1)
        assert len(trained.curve) == 1 + patience  # the first is the best

    @pytest.mark.parametrize(
        ("schedule", "weight"), [("constant", -4.0), ("linear", -(1 + 0.75 + 0.5 + 0.25))]
    )
    def test_learning_rates_stay_or_fall_to_zero(self, schedule, weight):
        system = Falling()
        training = settings(max_updates=4, schedule=schedule)
        fit(system, numbered(), numbered(3), lambda predicted, _: -float(predicted[0]), training, 1)
        assert system.weight.item() == pytest.approx(weight)

    def test_an_epoch_has_every_example_once_in_another_order(self):
        system = Falling()
        fit(system, numbered(), numbered(3), weight_and_rows, settings(max_updates=4), 1)
        first, second = (system.batches[0] + system.batches[1], system.batches[2] + system.batches[3])
        assert sorted(first) == sorted(second) == list(range(8))
        assert first != second

    def test_each_epoch_takes_the_next_version(self):
        system, versions = Falling(), [numbered(), numbered(start=100.0)]
        fit(system, versions, numbered(3), weight_and_rows, settings(max_updates=6), 1)
        assert [min(batch) >= 100 for batch in system.batches] == [False, False, True, True, False, False]

    def test_the_examples_of_a_document_stay_in_one_batch(self):
        system, documents = Falling(), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
        fit(system, numbered(documents=documents), numbered(3), weight_and_rows, settings(max_updates=4), 1)
        for batch in system.batches:
            assert len(batch) == 4
            assert {row % 4 for row in batch} == {row for row in batch if row < 4}

    def test_inference_is_averaged_over_the_last_epoch(self):
        system = System(GraphScorer(over_nodes), GSPENHead(RegionMLP(LABELS, NODES, hidden=4)))
        nn.init.normal_(system.head.term.mlp.output.weight)
        train = Examples(torch.randn(12, NODES, LABELS), torch.zeros(12, NODES, dtype=torch.long))
        trained = fit(system, train, train, accuracy, settings(max_updates=3, learning_rate=1e-9), 1)
        assert trained.inference_steps == pytest.approx(
            system(train.inputs, train.labels).steps.item(), abs=0.5
        )
        assert 0 <= trained.negative_losses <= 1
        assert trained.seconds_an_epoch > 0
        without = fit(make_base(), make_examples(), make_examples(), accuracy, settings(max_updates=1), 1)
        assert (without.inference_steps, without.negative_losses) == (0, 0)

    def test_frozen_parts_stay_as_they_are(self):
        system = make_base()
        system.head = GSPENHead(RegionMLP(LABELS, NODES, hidden=4))
        before = {name: weight.clone() for name, weight in system.freeze().named_parameters()}
        fit(system, make_examples(), make_examples(), accuracy, settings(max_updates=3), 1)
        changed = {
            name for name, weight in system.named_parameters() if not torch.equal(weight, before[name])
        }
        assert changed
        assert all(name.startswith("head.") for name in changed)

    @pytest.mark.parametrize(
        ("train", "judge", "message"),
        [
            (numbered(0), weight_and_rows, "expected training examples, got none"),
            ([], weight_and_rows, "expected training examples, got none"),
            ([numbered(3), numbered(4)], weight_and_rows, "versions of the same .* got sizes 3, 4"),
            (numbered(3), lambda *_: float("nan"), "expected a score of dev, got nan"),
        ],
    )
    def test_errors(self, train, judge, message):
        with pytest.raises(ValueError, match=message):
            fit(Falling(), train, numbered(3), judge, settings(max_updates=2), 1)

    def test_a_frozen_system_is_refused(self):
        with pytest.raises(ValueError, match="require a gradient, got none: everything is frozen"):
            fit(make_base().freeze(), make_examples(), make_examples(), accuracy, settings(), 1)


class TestPredictions:
    """Predictions of any number of inputs."""

    def test_batches_are_joined(self):
        system, inputs = make_base(dropout=0.5).train(), torch.randn(2 * PREDICTION_BATCH + 3, 4)
        labels = predictions(system, inputs)
        assert system.training
        system.eval()
        assert torch.equal(labels, system.argmax(inputs))
        assert torch.equal(predictions(system, inputs, "nodes"), system.scorer.nodes(inputs))
        torch.testing.assert_close(
            predictions(system, inputs, "marginals"), system.scorer.nodes(inputs).softmax(-1)
        )
        assert not predictions(system, inputs, "steps").any()
        assert not predictions(system, inputs, "nodes").requires_grad

    def test_inputs_may_be_mappings_or_scores(self):
        inputs = torch.randn(PREDICTION_BATCH + 1, NODES, LABELS)
        system = System(lambda batch: (Parts(batch["x"]), over_nodes(len(batch["x"]))))
        expected = inputs.argmax(-1)
        assert torch.equal(predictions(system, {"x": inputs}), expected)
        assert torch.equal(predictions(system, score_all(system, {"x": inputs})), expected)

    def test_some_examples(self):
        examples = Examples({"x": torch.arange(4)}, torch.arange(4), torch.tensor([0, 0, 1, 1]))
        for rows in (torch.tensor([1, 3]), torch.tensor([False, True, False, True])):
            some = examples[rows]
            assert some.inputs["x"].tolist() == some.labels.tolist() == [1, 3]
            assert some.documents.tolist() == [0, 1]
        assert len(examples.first(9)) == 4


class TestScoreSources:
    """Which scores of the training examples a term learns from."""

    def host(self, train=None, **changes):
        train = make_examples() if train is None else train
        options = {"make_base": make_base, "training": settings(max_updates=2), "seed": 4} | changes
        return TensorHost(train=train, dev=make_examples(seed=1), judge=accuracy, **options)

    def test_plain_scores_are_the_base_models(self):
        base = make_base(dropout=0.5)
        (version,) = Plain().versions(self.host(), base)
        assert torch.equal(version.inputs.potentials.nodes, base.eval().scorer.nodes(make_examples().inputs))
        assert torch.equal(version.labels, make_examples().labels)

    def test_draws_have_dropout_of_their_own_and_leave_random_numbers_alone(self):
        base, host = make_base(dropout=0.5).eval(), self.host()
        state = torch.random.get_rng_state()
        versions = [version.inputs.potentials.nodes for version in DropoutDraws(3).versions(host, base)]
        assert torch.equal(torch.random.get_rng_state(), state)
        assert not base.training
        plain = base.scorer.nodes(host.train.inputs)
        for number, version in enumerate(versions):
            assert not torch.equal(version, plain)
            assert not any(torch.equal(version, other) for other in versions[:number])
            torch.manual_seed(number)
            assert torch.equal(version, base.scorer.nodes.train()(host.train.inputs))
            base.eval()
        again = DropoutDraws(3).versions(host, base)
        assert all(torch.equal(a, b.inputs.potentials.nodes) for a, b in zip(versions, again, strict=True))

    def test_cross_fitted_scores_are_by_models_that_have_not_seen_the_example(self):
        host = self.host()
        (version,) = CrossFit(3).versions(host, make_base())
        assert torch.equal(version.labels, host.train.labels)
        for fold in range(3):
            seen = torch.arange(30) % 3 != fold
            torch.manual_seed(4)
            base = make_base()
            fit(base, host.train.select(seen), host.dev, accuracy, host.training, 4)
            expected = predictions(base, host.train.inputs[~seen], "nodes")
            assert torch.equal(version.inputs.potentials.nodes[~seen], expected)

    def test_documents_are_not_divided(self):
        documents = torch.arange(30) // 4
        host = self.host(Examples(make_examples().inputs, make_examples().labels, documents))
        parts = CrossFit(3).divide(host.documents, host.fold_seed)
        assert sorted(row for rows in parts for row in rows) == list(range(30))
        sets = [{int(documents[row]) for row in rows} for rows in parts]
        assert not sets[0] & sets[1] | sets[0] & sets[2] | sets[1] & sets[2]

    def test_a_seed_divides_documents_at_random(self):
        divided = [CrossFit(2).divide(range(20), seed) for seed in (None, 1, 1, 2)]
        assert divided[0] == [list(range(0, 20, 2)), list(range(1, 20, 2))]
        assert divided[1] == divided[2] != divided[3]
        assert [len(part) for part in divided[3]] == [10, 10]

    @pytest.mark.parametrize(("epochs", "updates"), [(None, 2), (1, 4), (3, 12)])
    def test_models_of_folds_are_trained_for_the_given_epochs(self, epochs, updates, monkeypatch):
        seen, host = [], self.host()
        monkeypatch.setattr(
            host, "train_base", lambda name, rows, training: seen.append((name, len(rows), training))
        )
        host.fit("fold-1", range(15), epochs)
        ((name, rows, training),) = seen
        assert (name, rows, training.max_updates) == ("fold-1", 15, updates)

    def test_models_without_anything_to_learn_are_not_trained(self):
        host = self.host(make_base=lambda: System(lambda inputs: (Parts(inputs), over_nodes(len(inputs)))))
        assert isinstance(host.fit("fold-1", range(4), None), System)

    @pytest.mark.parametrize(
        ("source", "changes", "message"),
        [
            (
                CrossFit(2),
                {"make_base": None},
                "cross-fitting trains new base models, .* give make_base",
            ),
            (CrossFit(2, models_of="runs/x"), {}, "runs/x: .* leave out models_of"),
            (CrossFit(31), {}, "expected at least 31 training documents for 31 folds, got 30"),
        ],
    )
    def test_errors(self, source, changes, message):
        with pytest.raises(ValueError, match=message):
            source.versions(self.host(**changes), make_base())


class TestTrainTerm:
    """Two stages: a base model, and a term on top."""

    @pytest.mark.parametrize("source", [CrossFit(), Plain(), DropoutDraws(2)])
    def test_a_term_corrects_what_the_base_model_cannot_know(self, source):
        """All labels of an example are equal, which a term over all of them can learn."""
        train, dev = make_examples(200), make_examples(200, seed=1)
        noise = torch.randn(400, NODES, LABELS, generator=torch.Generator().manual_seed(2))
        train, dev = (
            Examples(2 * nn.functional.one_hot(split.labels, LABELS) + 2 * part, split.labels)
            for split, part in zip((train, dev), noise.split(200), strict=True)
        )
        base = System(lambda inputs: (Parts(inputs), over_nodes(len(inputs))))
        training = TensorTraining(learning_rate=0.02, max_updates=60, batch_size=50, evaluate_every=10)
        head = GSPENHead(RegionMLP(LABELS, NODES, hidden=8))
        system = train_term(
            base, head, train, dev, accuracy, make_base=lambda: base, scores=source, training=training
        )
        before, after = (accuracy(predictions(one, dev.inputs), dev.labels) for one in (base, system))
        assert after > before + 0.05

    def test_the_base_model_stays_as_it_is(self):
        base = make_base(dropout=0.5)
        fit(base, make_examples(), make_examples(), accuracy, settings(max_updates=8), 1)
        before = {name: weight.clone() for name, weight in base.state_dict().items()}
        head = GSPENHead(RegionMLP(LABELS, NODES, hidden=4))
        nn.init.normal_(head.term.mlp.output.weight)
        brief = settings(max_updates=4)
        options = {"make_base": make_base, "base_training": brief, "training": brief}
        system = train_term(base, head, make_examples(), make_examples(seed=1), accuracy, **options)
        assert system.scorer is base.scorer
        assert system.head is head
        assert all(torch.equal(weight, before[name]) for name, weight in base.state_dict().items())
        assert system.base_frozen
        assert not system.train().scorer.training

    def test_a_head_without_a_term_is_refused(self):
        with pytest.raises(ValueError, match="everything is frozen"):
            train_term(make_base(), GSPENHead(), make_examples(), make_examples(), accuracy, scores=Plain())


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="max_epochs"):
        TensorTraining(max_epochs=3)
