"""The one model behind four systems: it learns, is saved and loaded, and works with a plain Trainer."""

import json
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer, TrainerCallback

from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.data import Collator, as_dataset
from gspen_ner.hosts.huggingface.document_trainer import DocumentTrainer
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.labels import spans_of_tags
from tests.tiny import BASES, SENTENCES, TERMS, make_batch, make_model, same_weights, stir, trainer_arguments

arguments = partial(trainer_arguments, remove_unused_columns=False)
SYSTEMS = ["unary", "struct", "spen", "gspen"]


def with_base_of(model, base):
    model.scorer.load_state_dict(base.scorer.state_dict())
    return model


@pytest.mark.parametrize(
    ("system", "terms"),
    [
        ("unary", "document"),
        ("struct", "document"),
        *((system, terms) for system in BASES for terms in TERMS),
    ],
)
def test_a_step_of_training_decreases_the_loss(system, terms):
    model = make_model(system, terms=terms).train()
    batch = make_batch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = model(**batch).loss
    before.backward()
    optimizer.step()
    assert model(**batch).loss < before


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("system", BASES)
def test_a_step_with_a_frozen_base_decreases_the_loss_too(system, terms):
    model = make_model(system, terms=terms)
    model.freeze()
    batch = make_batch(model.train())
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.003)
    before = model(**batch).loss
    before.backward()
    optimizer.step()
    assert model(**batch).loss < before


@pytest.mark.parametrize(
    ("system", "terms", "transitions"),
    [*((system, terms, "shared") for system in BASES for terms in TERMS), ("gspen", "sum", "bigram")],
)
def test_a_new_term_predicts_exactly_as_its_base_model(system, terms, transitions):
    base = make_model(BASES[system], transitions)
    model = with_base_of(make_model(system, transitions, terms=terms, seed=6), base)
    dataset = as_dataset(SENTENCES)
    expected, found = Tagger(base).predict(dataset), Tagger(model).predict(dataset)
    assert [p.entities for p in expected] == [p.base_entities for p in found]
    assert [[e.span for e in p.entities] for p in expected] == [[e.span for e in p.entities] for p in found]
    assert any(p.entities for p in expected)
    chances = [[e.probability for p in row for e in p.entities] for row in (expected, found)]
    torch.testing.assert_close(*map(torch.tensor, chances), atol=1e-5, rtol=1e-5)
    stirred = Tagger(stir(model, 3.0)).predict(dataset)
    assert [p.entities for p in stirred] != [p.entities for p in found], "a term that is not zero does"
    assert [p.base_entities for p in stirred] == [p.base_entities for p in found]


@pytest.mark.parametrize("transitions", ["shared", "bigram"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_saved_and_loaded_it_gives_the_same_potentials(system, transitions, tmp_path):
    model = make_model(system, transitions)
    model = stir(model) if model.head else model
    model.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "README.md", "config.json", "vocabulary.json", "model.safetensors",
    }, "no pickle"  # fmt: skip
    batch = make_batch(model)
    for loaded in (GSPENForTokenClassification.from_pretrained(tmp_path), load_model(tmp_path)):
        assert not loaded.training
        assert loaded.reader == model.reader
        assert loaded.labels == model.labels
        assert same_weights(loaded.state_dict(), model.state_dict())
        expected, found = model.score(batch).potentials, loaded.score(batch).potentials
        assert torch.equal(expected.nodes, found.nodes)
        assert (expected.edges is None) == (found.edges is None) == (system in ("unary", "spen"))
        assert expected.edges is None or torch.equal(expected.edges, found.edges)
        assert torch.equal(model(**batch).logits, loaded(**batch).logits)


class TestLoadModelRefuses:
    @pytest.fixture
    def folder(self, tmp_path):
        make_model("gspen").save_pretrained(tmp_path / "model")
        return tmp_path / "model"

    def refused(self, folder, *words):
        with pytest.raises(ValueError, match=r"model") as caught:
            load_model(folder)
        for word in (str(folder), *words):
            assert word in str(caught.value)

    def test_missing_weights(self, folder):
        weights = load_file(folder / "model.safetensors")
        del weights["scorer.crf.transitions"]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        self.refused(folder, "do not fit", "missing", "scorer.crf.transitions")

    def test_unexpected_weights(self, folder):
        weights = load_file(folder / "model.safetensors")
        save_file(weights | {"extra": torch.ones(2)}, folder / "model.safetensors", {"format": "pt"})
        self.refused(folder, "do not fit", "unexpected", "extra")

    def test_weights_of_another_shape(self, folder):
        weights = load_file(folder / "model.safetensors")
        weights["scorer.emissions.bias"] = torch.ones(2)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        self.refused(folder, "do not fit", "mismatched", "scorer.emissions.bias")

    @pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocabulary.json"])
    def test_a_file_that_is_cut_off(self, folder, name):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        self.refused(folder)

    @pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
    def test_a_file_that_is_missing(self, folder, name):
        (folder / name).unlink()
        self.refused(folder, name)

    def test_a_configuration_of_an_unknown_system(self, folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"system": "magic"}))
        with pytest.raises(ValueError, match="'magic'"):
            load_model(folder)

    def test_a_folder_without_a_model(self, folder):
        (folder / "config.json").unlink()
        with pytest.raises(ValueError, match="model: no model here"):
            Tagger.load(folder)

    def test_nothing_of_a_model_that_is_whole(self, folder):
        assert load_model(folder).config.system == "gspen"


def test_a_configuration_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="one of unary, struct, spen, gspen, got 'crf'"):
        GSPENConfig(system="crf")
    config = make_model("struct").config
    config.system = "gspen"
    with pytest.raises(ValueError, match="needs at least one term"):
        GSPENForTokenClassification(config)


@pytest.mark.parametrize("system", ["spen", "gspen"])
def test_the_configuration_holds_all_options_of_the_head(system, tmp_path):
    """A later change of a default does not change saved models."""
    model = stir(make_model(system))
    written = model.head.configuration()
    assert len(written["terms"][0]) > 1
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert {"terms": config["terms"], "inference": config["inference"]} == written


def test_files_of_layout_1_have_the_default_relations_of_their_time(tmp_path):
    """They name given options only."""
    relations = ["word", "word_and_next", "previous_and_word", "slot", "wide_slot", "shape"]
    model = make_model("struct").with_terms([{"name": "document", "relations": relations}], {"max_steps": 5})
    stir(model).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    old = config | {"layout": 1, "terms": [{"name": "document"}], "inference": {"max_steps": 5}}
    (tmp_path / "config.json").write_text(json.dumps(old))
    loaded = load_model(tmp_path)
    assert loaded.head.configuration() == model.head.configuration()
    assert same_weights(loaded.state_dict(), model.state_dict())
    loaded.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["layout"] == config["layout"] == 2


def test_a_model_without_a_reader_says_so():
    model = GSPENForTokenClassification(make_model("struct").config)
    with pytest.raises(ValueError, match="no reader"):
        Collator.of(model)


@pytest.mark.parametrize("system", SYSTEMS)
def test_logits_are_log_marginals(system):
    model = make_model(system)
    model = stir(model) if model.head else model
    batch = make_batch(model, with_labels=False)
    output = model(**batch)
    sums = output.logits.double().exp().sum(-1)
    present = torch.arange(sums.shape[1]) < batch["lengths"][:, None]
    torch.testing.assert_close(sums, present.double(), atol=1e-4, rtol=0)
    assert output.loss is None
    assert model.train()(**batch).logits is not None, "without labels there is nothing else to give"
    assert model(**make_batch(model)).logits is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_shares_a_batch_with_a_sentence_does_not_change_it(system):
    model = make_model(system, terms="convolution")
    model = stir(model) if model.head else model
    together = model(**make_batch(model, with_labels=False)).logits
    for row, sentence in enumerate(SENTENCES[:10]):
        alone = model(**make_batch(model, [sentence], with_labels=False)).logits[0]
        torch.testing.assert_close(together[row, : len(alone)].exp(), alone.exp(), atol=2e-3, rtol=0)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_predictions_are_legal_in_the_scheme(system, scheme):
    model = make_model(system, scheme=scheme)
    with torch.no_grad():
        model.scorer.emissions.weight.mul_(20)  # so that illegal labellings would be the best
    batch = make_batch(model)
    inferred = model.infer_chains(batch)
    start, table, end = model.labels.legal

    def legal(path):
        return bool(start[path[0]] and end[path[-1]] and table[path[:-1], path[1:]].all())

    lengths = batch["lengths"].tolist()
    for theta in (inferred.potentials, inferred.theta):
        paths = inferred.polytope.argmax(theta)
        assert all(legal(path[:length]) for path, length in zip(paths, lengths, strict=True))
    alone = inferred.potentials.nodes.argmax(-1)
    assert not all(legal(path[:length]) for path, length in zip(alone, lengths, strict=True)), "a real test"


def test_a_new_model_says_how_its_inference_went():
    output = make_model("gspen").train()
    output = output(**make_batch(output))
    assert 0 <= output.negative <= 1
    assert 0 <= output.steps <= 5
    assert make_model("struct")(**make_batch(make_model("struct"))).steps is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_plain_trainer_trains_it(system, tmp_path):
    model = make_model(system, dropout=0.1, terms="convolution")
    dataset = as_dataset(SENTENCES, model.bio)
    trainer = Trainer(
        model,
        arguments(tmp_path, num_train_epochs=3, learning_rate=0.01, save_strategy="epoch"),
        data_collator=Collator.of(model),
        train_dataset=dataset,
        eval_dataset=dataset,
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    assert after < before
    last = max(tmp_path.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    assert same_weights(load_model(last).state_dict(), model.state_dict()), "checkpoints are models"


@pytest.mark.parametrize(
    ("kind", "terms", "column", "warnings"),
    [
        (Trainer, "document", "document", 1),
        (Trainer, "document", None, 1),
        (DocumentTrainer, "document", "document", 0),
        (Trainer, "convolution", "document", 0),
    ],
)
def test_torn_documents_are_warned_of_once(kind, terms, column, warnings, tmp_path, caplog):
    model = make_model(terms=terms)
    rows = as_dataset(SENTENCES, model.bio)
    rows = rows if column else rows.remove_columns(["document", "mentions"])
    options = {"num_train_epochs": 2, "per_device_train_batch_size": 3}
    kind(model, arguments(tmp_path, **options), Collator.of(model), rows).train()
    found = [record for record in caplog.records if "train with DocumentTrainer" in record.getMessage()]
    assert len(found) == warnings


class Gradients(TrainerCallback):
    """Keeps the gradients of the first update."""

    def __init__(self):
        self.found = {}

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        if not self.found:
            self.found = {name: w.grad.clone() for name, w in model.named_parameters() if w.grad is not None}


@pytest.mark.parametrize("system", ["struct", "gspen"])
def test_accumulated_gradients_are_those_of_one_large_batch(system, tmp_path):
    def gradients(batch_size, steps):
        model = make_model(system, terms="convolution")
        kept = Gradients()
        Trainer(
            model,
            arguments(
                tmp_path,
                per_device_train_batch_size=batch_size,
                gradient_accumulation_steps=steps,
                max_grad_norm=0.0,
                max_steps=1,
            ),
            data_collator=Collator.of(model),
            train_dataset=as_dataset(SENTENCES[:16], model.bio),
            callbacks=[kept],
        ).train()
        return kept.found

    whole, parts = gradients(16, 1), gradients(8, 2)
    assert whole.keys() == parts.keys()
    assert sum(float(gradient.norm()) for gradient in whole.values()) > 1
    for name, gradient in whole.items():
        torch.testing.assert_close(
            parts[name], gradient, atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("system", BASES)
def test_a_frozen_base_keeps_its_weights_and_its_dropout_is_off(system, tmp_path):
    model = make_model(system, dropout=0.5, terms="convolution")
    batch = make_batch(model)
    assert model.train()(**batch).loss != model(**batch).loss, "dropout is on before"
    model.freeze()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert model.train()(**batch).loss == model(**batch).loss
    assert model.head.training
    assert not model.scorer.training
    trainer = Trainer(
        model,
        arguments(tmp_path, learning_rate=0.01),
        data_collator=Collator.of(model),
        train_dataset=as_dataset(SENTENCES, model.bio),
    )
    trainer.train()
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if name.startswith("head.")}


def test_given_potentials_take_the_place_of_the_encoder():
    model = stir(make_model("gspen"))
    batch = make_batch(model)
    direct = model(**batch)
    with torch.no_grad():
        nodes = model.score(batch).potentials.nodes
    rest = {name: batch[name] for name in ("lengths", "documents", "mentions", "labels")}
    cached = model(**rest, nodes=nodes)
    torch.testing.assert_close(cached.logits, direct.logits)
    torch.testing.assert_close(cached.loss, direct.loss)


def test_only_a_document_term_couples_documents():
    assert make_model("gspen", terms="document").couples_documents
    assert make_model("gspen", terms="sum").couples_documents
    assert not make_model("gspen", terms="convolution").couples_documents
    assert not make_model("struct").couples_documents


def test_mentions_of_a_name_in_one_document_influence_each_other():
    model = make_model("gspen")
    with torch.no_grad():
        model.head.term.agreement.add_(3 * torch.eye(len(model.labels.names)))
    one = [s for s in SENTENCES if s.document == 0]
    dataset = as_dataset(one)
    apart = as_dataset([type(s)(s.tokens, s.tags, number) for number, s in enumerate(one)])
    together = Tagger(model).predict(dataset)
    assert [p.entities for p in together] != [p.entities for p in Tagger(model).predict(apart)]
    names = {}
    for row, prediction in zip(one, together, strict=True):
        for span in spans_of_tags(row.tags, "BIO"):
            if span.end - span.start == 1:
                kinds = {e.span.type for e in prediction.entities if e.span.start <= span.start < e.span.end}
                names.setdefault(row.tokens[span.start].lower(), []).append(kinds)
    assert any(len(kinds) > 1 for kinds in names.values())
