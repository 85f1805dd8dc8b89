"""The tagger on a transformer: made of an encoder or a classifier, trained as usual, saved, piped, shared."""

import json
import logging
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch
from huggingface_hub import HfApi, ModelCard
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BartConfig,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

from gspen_ner.hosts.huggingface import (
    Collator,
    DocumentTrainer,
    GSPENForTokenClassification,
    Tagger,
    as_dataset,
    parameter_groups,
)
from gspen_ner.hosts.huggingface import encoder as encoder_module
from gspen_ner.hosts.huggingface.folder_checks import refuse_larger
from gspen_ner.hosts.huggingface.model import load_model
from gspen_ner.labels import spans_of_tags
from tests.tiny import SENTENCES, TERMS, make_batch, make_labels, same_weights, stir, trainer_arguments
from tests.tiny_transformer import (
    KINDS,
    NAMES,
    make_tokenizer,
    make_transformer,
    save_classifier,
    save_encoder,
)

arguments = partial(trainer_arguments, num_train_epochs=2, learning_rate=0.01)
SYSTEMS = ["unary", "struct", "spen", "gspen"]
SOME = SENTENCES[:24]
REVERSED = NAMES[::-1]
PLAIN = ["South", "Korean", "newspapers", "devoted", "whole", "pages", "to", "Carver", "and", "Brazil", "."]
FAST = {"max_steps": 5}


def of_system(system, terms="document"):
    """Arguments of `from_encoder`."""
    has_term = system in ("spen", "gspen")
    return {
        "transitions": system in ("struct", "gspen"),
        "terms": TERMS[terms] if has_term else [],
        "inference": FAST,
    }


def fit(model, sentences=SOME, steps=50):
    """Learn a few sentences by heart."""
    batch = make_batch(model.train(), sentences)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.01, transitions=0.05))
    for _ in range(steps):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    return model.eval()


def logits(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def best_labels(model, batch):
    """The names of the likeliest labelling of each sentence."""
    _, theta, chain, _ = model.infer(batch)
    paths = chain.argmax(theta)
    return [
        [model.labels.names[number] for number in path[:length]]
        for path, length in zip(paths.tolist(), batch["lengths"].tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return {kind: save_encoder(folder / kind, kind) for kind in (*KINDS, "t5")}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Folders of CRFs that know a few sentences by heart, one for each kind of tokenizer."""
    folder = tmp_path_factory.mktemp("learned")
    for kind in KINDS:
        fit(make_transformer(folder, kind)).save_pretrained(folder / kind)
    return {kind: folder / kind for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "system"),
    [*(("bert", system) for system in SYSTEMS), *((kind, "gspen") for kind in (*KINDS[1:], "t5"))],
)
class TestAnEncoder:
    @pytest.fixture
    def model(self, kind, system, encoders):
        torch.manual_seed(13)
        model = GSPENForTokenClassification.from_encoder(encoders[kind], NAMES, **of_system(system))
        return stir(model.eval()) if model.head else model.eval()

    def test_becomes_a_model_of_that_system_that_learns(self, kind, system, model):
        assert model.config.system == system
        assert model.config.encoder["model_type"] == kind
        batch = make_batch(model.train())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.003)
        before = model(**batch).loss
        before.backward()
        optimizer.step()
        assert model(**batch).loss < before

    def test_is_saved_and_loaded_with_its_tokenizer(self, kind, system, model, tmp_path):
        model.save_pretrained(tmp_path / "model")
        model.reader.tokenizer.save_pretrained(tmp_path / "tokenizer")
        names = {file.name for file in (tmp_path / "tokenizer").iterdir()}
        found = {file.name for file in (tmp_path / "model").iterdir()}
        assert found == {"config.json", "model.safetensors", "README.md"} | names
        assert {file.rpartition(".")[2] for file in found} == {"json", "safetensors", "md"}, "no pickle"
        batch = make_batch(model)
        expected = logits(model, batch)
        for load in (
            GSPENForTokenClassification.from_pretrained,
            AutoModelForTokenClassification.from_pretrained,
            load_model,
        ):
            loaded = load(tmp_path / "model")
            assert type(loaded) is GSPENForTokenClassification
            assert not loaded.training
            assert same_weights(loaded.state_dict(), model.state_dict())
            assert all(torch.equal(value, batch[name]) for name, value in make_batch(loaded).items()), (
                "the same tokenizer"
            )
            assert torch.equal(logits(loaded, batch), expected)


@pytest.mark.parametrize("kind", [*KINDS, "t5"])
def test_the_weights_of_the_encoder_are_taken_over(kind, encoders):
    model = GSPENForTokenClassification.from_encoder(encoders[kind], NAMES)
    pretrained = load_file(encoders[kind] / "model.safetensors")
    own = model.scorer.encoder.state_dict()
    shared = {
        name: weight
        for name, weight in pretrained.items()
        for found in own
        if found.endswith(f".{name}") and torch.equal(own[found], weight)
    }
    missed = set(pretrained) - set(shared)
    assert shared
    assert all(name.startswith(("pooler", "decoder")) or "position_ids" in name for name in missed), missed


def test_a_new_encoder_gets_random_scores_but_a_saved_one_does_not(encoders, tmp_path):
    def made(seed):
        torch.manual_seed(seed)
        return GSPENForTokenClassification.from_encoder(encoders["bert"], NAMES)

    one, other = made(1), made(2)
    assert not torch.equal(one.scorer.encoder.classifier.weight, other.scorer.encoder.classifier.weight)
    one.save_pretrained(tmp_path)
    torch.manual_seed(3)
    assert same_weights(load_model(tmp_path).state_dict(), one.state_dict())


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
class TestLabelsInAnotherOrder:
    @pytest.fixture(scope="class")
    @classmethod
    def folders(cls, tmp_path_factory, encoders):
        folder = tmp_path_factory.mktemp("reversed")
        for scheme in ("BIO", "BIOES"):
            torch.manual_seed(13)
            model = GSPENForTokenClassification.from_encoder(encoders["bert"], REVERSED, scheme=scheme)
            fit(model).save_pretrained(folder / scheme)
        return folder

    def test_are_those_of_config_and_logits(self, scheme, folders):
        model = load_model(folders / scheme)
        assert tuple(model.config.id2label[number] for number in range(len(NAMES))) == REVERSED
        assert model.config.label2id["O"] == len(NAMES) - 1
        assert model.labels.scheme == scheme
        batch = make_batch(model, SOME)
        gold = [[REVERSED.index(tag) for tag in sentence.tags] for sentence in SOME]
        present = torch.arange(batch["labels"].shape[1]) < batch["lengths"][:, None]
        assert batch["labels"][present].tolist() == [number for row in gold for number in row]
        right = (logits(model, batch).argmax(-1) == batch["labels"])[present]
        assert float(right.float().mean()) > 0.97

    def test_are_those_of_tagger_and_pipeline(self, scheme, folders):
        gold = [spans_of_tags(sentence.tags, "BIO") for sentence in SOME]
        found = Tagger.load(folders / scheme).tag([sentence.tokens for sentence in SOME])
        right = sum(
            len(set(spans) & {entity.span for entity in prediction.entities})
            for spans, prediction in zip(gold, found, strict=True)
        )
        assert right > 0.9 * sum(map(len, gold))
        tag = pipe(folders / scheme)
        assert [(found["entity_group"], found["word"]) for found in tag(" ".join(PLAIN))] == [
            ("MISC", "South Korean"), ("PER", "Carver"), ("LOC", "Brazil"),
        ]  # fmt: skip


def rows(names=NAMES, with_documents=False):
    """A dataset as it comes from the hub."""
    columns = {
        "tokens": [list(sentence.tokens) for sentence in SOME],
        "ner_tags": [[names.index(tag) for tag in sentence.tags] for sentence in SOME],
    }
    features = {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=list(names))),
    }
    if with_documents:
        columns["document"] = [sentence.document for sentence in SOME]
        features["document"] = datasets.Value("int64")
    return datasets.Dataset.from_dict(columns, datasets.Features(features))


def aligned(dataset, tokenizer):
    """As in the tutorials of transformers: labels at first pieces, -100 elsewhere."""

    def tokenize(batch):
        encoded = tokenizer(batch["tokens"], truncation=True, is_split_into_words=True)
        encoded["labels"] = []
        for row, tags in enumerate(batch["ner_tags"]):
            words = encoded.word_ids(row)
            before = [None, *words[:-1]]
            encoded["labels"].append(
                [
                    -100 if word is None or word == last else tags[word]
                    for last, word in zip(before, words, strict=True)
                ]
            )
        return encoded

    return dataset.map(tokenize, batched=True)


def accuracy(predicted):
    best, gold = predicted.predictions.argmax(-1), predicted.label_ids
    return {"accuracy": float((best == gold)[gold != -100].mean())}


class TestTheUsualData:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("names", [NAMES, REVERSED], ids=["usual", "reversed"])
    def test_have_the_same_loss_by_pieces_as_by_words(self, kind, names, encoders):
        dataset = rows(names)
        names = dataset.features["ner_tags"].feature.names
        model = GSPENForTokenClassification.from_encoder(encoders[kind], names).eval()
        tokenizer = AutoTokenizer.from_pretrained(encoders[kind], add_prefix_space=True)
        columns = ["input_ids", "attention_mask", "labels"]
        pieces = DataCollatorForTokenClassification(tokenizer)(
            aligned(dataset, tokenizer).select_columns(columns).to_list()
        )
        words = Collator.of(model)(dataset.to_list())
        assert pieces["labels"].shape[1] > words["labels"].shape[1]
        one, other = model(**pieces), model(**words)
        torch.testing.assert_close(one.loss, other.loss)
        at_words = one.logits[pieces["labels"] != -100]
        present = torch.arange(words["labels"].shape[1]) < words["lengths"][:, None]
        torch.testing.assert_close(at_words.exp(), other.logits[present].exp(), atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_train_it_with_a_plain_trainer(self, system, encoders, tmp_path):
        dataset = rows()
        names = dataset.features["ner_tags"].feature.names
        model = GSPENForTokenClassification.from_encoder(
            encoders["bert"], names, **of_system(system, "convolution")
        )
        tokenizer = AutoTokenizer.from_pretrained(encoders["bert"])
        pieces = aligned(dataset, tokenizer)
        trainer = Trainer(
            model,
            arguments(tmp_path),
            data_collator=DataCollatorForTokenClassification(tokenizer),
            train_dataset=pieces,
            eval_dataset=pieces,
            compute_metrics=accuracy,
        )
        before = trainer.evaluate()
        trainer.train()
        after = trainer.evaluate()
        assert after["eval_loss"] < before["eval_loss"]
        assert after["eval_accuracy"] > max(before["eval_accuracy"], 0.7)

    def test_say_nothing_of_documents_to_a_term_that_needs_them(self, encoders):
        model = GSPENForTokenClassification.from_encoder(encoders["bert"], NAMES, terms=["document"])
        tokenizer = AutoTokenizer.from_pretrained(encoders["bert"])
        columns = ["input_ids", "attention_mask", "labels"]
        some = aligned(rows().select(range(2)), tokenizer).select_columns(columns).to_list()
        with pytest.raises(ValueError, match=r"scores documents.*DocumentTrainer and Collator\.of\(model\)"):
            model(**DataCollatorForTokenClassification(tokenizer)(some))

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_train_it_by_words_with_its_collator(self, system, encoders, tmp_path):
        dataset = rows()
        model = GSPENForTokenClassification.from_encoder(encoders["roberta"], NAMES, **of_system(system))
        trainer = Trainer(
            model,
            arguments(tmp_path, remove_unused_columns=False, label_names=["labels"]),
            data_collator=Collator.of(model),
            train_dataset=dataset,
            eval_dataset=dataset,
        )
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        assert trainer.evaluate()["eval_loss"] < before

    def test_with_a_label_that_the_model_does_not_have_are_refused(self, encoders):
        model = GSPENForTokenClassification.from_encoder(encoders["bert"], NAMES)
        batch = make_batch(model)
        batch["labels"][0, 0] = len(NAMES)
        with pytest.raises(ValueError, match="labels must be numbers from 0 to 8, got 9"):
            model(**batch)


class TestADocumentTrainer:
    @pytest.fixture
    def model(self, encoders):
        torch.manual_seed(13)
        return GSPENForTokenClassification.from_encoder(
            encoders["bert"], NAMES, terms=["document"], inference=FAST
        )

    def trainer(self, model, dataset, folder):
        return DocumentTrainer(
            model,
            arguments(folder, remove_unused_columns=False, label_names=["labels"]),
            data_collator=Collator.of(model),
            train_dataset=dataset,
            eval_dataset=dataset,
        )

    def test_keeps_documents_in_one_batch(self, model, tmp_path):
        dataset = rows(with_documents=True)
        scattered = dataset.select([(7 * row) % len(dataset) for row in range(len(dataset))])
        trainer = self.trainer(model, scattered, tmp_path)
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
            batches = [set(batch["documents"].tolist()) for batch in loader]
            assert len(batches) > 1
            assert sum(map(len, batches)) == len(set(dataset["document"])), "none is in two"
            assert sum(len(batch["lengths"]) for batch in loader) == len(dataset)

    def test_trains_a_document_term(self, model, tmp_path):
        trainer = self.trainer(model, rows(with_documents=True), tmp_path)
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        assert trainer.evaluate()["eval_loss"] < before
        assert all(float(weight.detach().abs().max()) > 0 for weight in model.head.parameters())

    def test_refuses_data_without_documents(self, model, tmp_path):
        trainer = self.trainer(model, rows(), tmp_path)
        with pytest.raises(ValueError, match=r"needs a column document, .* it has \['tokens', 'ner_tags'\]"):
            trainer.train()
        with pytest.raises(ValueError, match="needs a column document"):
            trainer.evaluate()

    def test_asks_for_no_documents_without_a_term_that_needs_them(self, encoders, tmp_path):
        model = GSPENForTokenClassification.from_encoder(encoders["bert"], NAMES)
        trainer = self.trainer(model, rows(), tmp_path)
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        assert trainer.evaluate()["eval_loss"] < before


def pipe(folder, **options):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    defaults = {"aggregation_strategy": "simple", "device": "cpu"}
    return pipeline("token-classification", model=str(folder), tokenizer=tokenizer, **defaults | options)


def chain_marginals(model, words, part="theta"):
    """BIO marginals of words by exact inference in the chain."""
    inferred = model.infer_chains(make_batch_of(model, words))
    return model.bio.marginals(inferred.polytope.marginals(getattr(inferred, part)).nodes)[0]


def make_batch_of(model, words):
    return Collator.of(model)([{"tokens": list(words)}])


def by_pieces(model, words, marginals):
    """The marginals of words for each of their pieces."""
    found = model.reader.tokenizer([list(words)], is_split_into_words=True).word_ids(0)
    numbers = [number for number in found if number is not None]
    later = [number == last for last, number in zip([None, *numbers[:-1]], numbers, strict=True)]
    return torch.stack(
        [
            model.bio.inside(marginals[number]) if again else marginals[number]
            for number, again in zip(numbers, later, strict=True)
        ]
    )


@pytest.mark.parametrize("kind", KINDS)
class TestAPipeline:
    def test_gives_the_marginals_of_each_piece(self, kind, learned):
        model = load_model(learned[kind])
        expected = by_pieces(model, PLAIN, chain_marginals(model, PLAIN))
        found = pipe(learned[kind], aggregation_strategy="none", ignore_labels=[])(" ".join(PLAIN))
        assert len(found) == len(expected) > len(PLAIN)
        scores = torch.tensor([float(piece["score"]) for piece in found])
        torch.testing.assert_close(scores, expected.max(-1).values, atol=1e-5, rtol=1e-4)
        best = [model.config.id2label[number] for number in expected.argmax(-1).tolist()]
        assert [piece["entity"] for piece in found] == best

    def test_joins_pieces_and_words_into_whole_entities(self, kind, learned):
        model = load_model(learned[kind])
        text = " ".join(PLAIN)
        found = pipe(learned[kind])(text)
        assert [(one["entity_group"], text[one["start"] : one["end"]].strip()) for one in found] == [
            ("MISC", "South Korean"), ("PER", "Carver"), ("LOC", "Brazil"),
        ]  # fmt: skip
        marginals = chain_marginals(model, PLAIN)
        for one, words in zip(found, (slice(0, 2), slice(7, 8), slice(9, 10)), strict=True):
            pieces = by_pieces(model, PLAIN[words], marginals[words])
            assert one["score"] == pytest.approx(float(pieces.max(-1).values.mean()), abs=1e-5)
        (first, *_), *_ = (prediction.entities for prediction in Tagger(model).tag([PLAIN]))
        assert (first.span.type, first.span.start, first.span.end) == ("MISC", 0, 2), "the chain uses E-"

    def test_reads_a_text_longer_than_the_window_to_its_end(self, kind, learned):
        model = load_model(learned[kind])
        words = PLAIN * 8
        pieces = make_batch_of(model, words)["input_ids"].shape[1]
        assert pieces > 2 * model.scorer.frame.size
        text = " ".join(words)
        found = pipe(learned[kind], aggregation_strategy="none", ignore_labels=[])(text)
        assert found[-1]["end"] == len(text)
        expected = by_pieces(model, words, chain_marginals(model, words))
        scores = torch.tensor([float(piece["score"]) for piece in found])
        torch.testing.assert_close(scores, expected.max(-1).values, atol=1e-5, rtol=1e-4)
        assert [one["entity"] for one in found if one["start"] > len(text) - 40 and one["entity"] != "O"]

    @pytest.mark.parametrize("text", ["", " ", ".", "... ?!", "\u200b"])
    def test_survives_texts_without_words(self, kind, text, learned):
        found = pipe(learned[kind])(text)
        assert all(one["start"] < one["end"] <= len(text) for one in found)

    def test_tags_several_texts_at_once(self, kind, learned):
        texts = [" ".join(PLAIN), "", "Carver left ."]
        tag = pipe(learned[kind])
        together = tag(texts, batch_size=3)
        for text, found in zip(texts, together, strict=True):
            assert [one["word"] for one in found] == [one["word"] for one in tag(text)]


def test_a_pipeline_is_made_without_complaints(learned, caplog):
    log = logging.getLogger("transformers")
    log.addHandler(caplog.handler)
    try:
        pipe(learned["bert"])("Carver left .")
    finally:
        log.removeHandler(caplog.handler)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "not supported" not in caplog.text


def test_a_pipeline_with_a_document_term_says_what_the_crf_says(tmp_path):
    model = make_transformer(tmp_path, terms=["document"], inference={"max_steps": 50, "tolerance": 1e-6})
    stir(model, 2.0).save_pretrained(tmp_path / "model")
    words = ["Carver", "met", "Carver", "in", "Brazil", "and", "Brazil", "won"]
    expected = by_pieces(model, words, chain_marginals(model, words, "potentials"))
    with_term = by_pieces(model, words, chain_marginals(model, words))
    assert not torch.allclose(expected, with_term, atol=0.01), "or else the test says nothing"
    found = pipe(tmp_path / "model", aggregation_strategy="none", ignore_labels=[])(" ".join(words))
    scores = torch.tensor([float(piece["score"]) for piece in found])
    torch.testing.assert_close(scores, expected.max(-1).values, atol=1e-3, rtol=0)
    best = [model.config.id2label[number] for number in expected.argmax(-1).tolist()]
    assert [piece["entity"] for piece in found] == best


def word_logits(folder, batch):
    """What a classifier itself says of each word: the scores of its first piece."""
    classifier = AutoModelForTokenClassification.from_pretrained(folder).eval()
    assert type(classifier) is not GSPENForTokenClassification
    with torch.no_grad():
        scores = classifier(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return [row[starts] for row, starts in zip(scores, batch["word_starts"], strict=True)]


class TestATokenClassifier:
    @pytest.fixture(scope="class")
    @classmethod
    def folders(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("classifiers")
        found = {kind: save_classifier(folder / kind, kind) for kind in KINDS}
        found["BIOES"] = save_classifier(folder / "BIOES", names=make_labels("BIOES").names)
        found["reversed"] = save_classifier(folder / "reversed", names=REVERSED)
        found["numbers"] = save_classifier(folder / "numbers", names=[f"LABEL_{n}" for n in range(5)])
        return found

    @pytest.mark.parametrize("terms", [[], ["document"]], ids=["crf", "document"])
    @pytest.mark.parametrize("name", [*KINDS, "BIOES", "reversed"])
    def test_is_predicted_exactly_at_first(self, name, terms, folders):
        model = GSPENForTokenClassification.from_token_classifier(folders[name], terms=terms).eval()
        assert model.labels.scheme == ("BIOES" if name == "BIOES" else "BIO")
        batch = make_batch(model, SOME)
        scores = word_logits(folders[name], batch)
        found = logits(model, batch).exp()
        for row, expected in enumerate(scores):
            marginals = model.bio.marginals(expected.softmax(-1)[None])[0]
            torch.testing.assert_close(found[row, : len(expected)], marginals, atol=2e-5, rtol=0)
        best = [[model.labels.names[number] for number in row.argmax(-1)] for row in scores]
        assert best_labels(model, batch) == best
        found = Tagger(model).tag([sentence.tokens for sentence in SOME])
        spans = [model.labels.spans(row) for row in best]
        assert [[entity.span for entity in prediction.entities] for prediction in found] == spans
        used = {label for row in best for label in row}
        assert len(used) > 3, "or else the test says little"

    @pytest.mark.parametrize("name", ["bert", "BIOES"])
    def test_may_be_held_to_its_scheme(self, name, folders):
        def legal(labels, path):
            numbers = [labels.names.index(label) for label in path]
            start, table, end = labels.legal
            return bool(start[numbers[0]] and end[numbers[-1]] and table[numbers[:-1], numbers[1:]].all())

        for constrained in (False, True):
            model = GSPENForTokenClassification.from_token_classifier(folders[name], constrained=constrained)
            paths = best_labels(model.eval(), make_batch(model, SOME))
            assert all(legal(model.labels, path) for path in paths) == constrained

    def test_without_names_of_labels_is_refused(self, folders):
        with pytest.raises(ValueError, match=r"numbers: expected BIO or BIOES labels, got LABEL_0"):
            GSPENForTokenClassification.from_token_classifier(folders["numbers"])

    @pytest.mark.parametrize("terms", [[], ["document"]], ids=["crf", "document"])
    def test_is_fine_tuned_with_its_transitions(self, terms, folders):
        model = GSPENForTokenClassification.from_token_classifier(
            folders["bert"], terms=terms, inference=FAST
        )
        assert all(not weight.any() for weight in model.scorer.crf.parameters())
        batch = make_batch(model)
        before = float(model.eval()(**batch).loss.detach())
        fit(model, SENTENCES, steps=5)
        assert float(model(**batch).loss.detach()) < before
        new = [*model.scorer.crf.parameters(), *(model.head.parameters() if terms else [])]
        assert all(float(weight.detach().abs().max()) > 0.01 for weight in new)

    def test_is_saved_and_loaded(self, folders, tmp_path):
        model = GSPENForTokenClassification.from_token_classifier(folders["reversed"]).eval()
        model.save_pretrained(tmp_path)
        batch = make_batch(model)
        assert torch.equal(logits(load_model(tmp_path), batch), logits(model, batch))
        assert load_model(tmp_path).bio.names == REVERSED


RESULTS = {
    "data": {"train": "newswire:8:1", "dev": "newswire:3:2"},
    "scores": {"dev": {"precision": 0.5, "recall": 0.25, "f1": 0.3333}},
}


class TestAModelCard:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, learned, tmp_path_factory):
        model = load_model(learned["bert"])
        model.config.results = RESULTS
        folder = tmp_path_factory.mktemp("card") / "model"
        model.save_pretrained(folder)
        return folder

    def test_has_metadata_for_the_hub(self, folder):
        data = ModelCard.load(folder / "README.md").data
        assert (data.pipeline_tag, data.library_name) == ("token-classification", "transformers")
        assert {"gspen_ner", "token-classification"} <= set(data.tags)
        scores = {result.metric_type: result.metric_value for result in data.eval_results}
        assert scores == RESULTS["scores"]["dev"]
        assert {(one.dataset_name, one.dataset_split) for one in data.eval_results} == {
            ("newswire:3:2", "dev")
        }

    def test_says_what_the_model_is_and_learned_from(self, folder):
        text = ModelCard.load(folder / "README.md").text
        assert "a bert encoder, a linear-chain CRF" in text
        assert "`LOC`, `MISC`, `ORG`, `PER`" in text
        assert "BIOES inside; labels and logits are BIO" in text
        assert "- train: `newswire:8:1`" in text
        assert "| dev | 50.00 | 25.00 | 33.33 |" in text

    def test_keeps_its_results_when_the_model_is_saved_again(self, folder, tmp_path):
        load_model(folder).save_pretrained(tmp_path)
        assert (tmp_path / "README.md").read_text() == (folder / "README.md").read_text()

    def test_has_examples_that_run(self, folder, capsys):
        snippets = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
        assert len(snippets) == 2
        for snippet in snippets:
            assert '"PATH"' in snippet
            exec(snippet.replace("PATH", str(folder)), {})
        assert capsys.readouterr().out.startswith("[")

    def test_names_the_terms(self, tmp_path):
        make_transformer(tmp_path, terms=TERMS["sum"]).save_pretrained(tmp_path / "model")
        text = (tmp_path / "model" / "README.md").read_text()
        assert "Global terms: `document`, `convolution`." in text
        assert "(GSPEN)" in text
        assert "Not recorded." in text


def test_what_is_pushed_to_the_hub_has_our_card(learned, monkeypatch):
    pushed = {}

    def create_repo(api, repo_id, **options):
        pushed["made"] = (repo_id, options)
        return SimpleNamespace(repo_id=f"me/{repo_id}")

    def upload_folder(api, *, repo_id, folder_path, **options):
        pushed["files"] = {file.name: file.read_bytes() for file in Path(folder_path).iterdir()}
        pushed["to"] = (repo_id, options)
        return "done"

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    model = load_model(learned["bert"])
    assert model.push_to_hub("tagger", private=True, commit_message="First", revision="main") == "done"
    assert pushed["made"] == ("tagger", {"private": True, "exist_ok": True})
    assert pushed["to"] == ("me/tagger", {"commit_message": "First", "revision": "main"})
    saved = {file.name: file.read_bytes() for file in learned["bert"].iterdir()}
    assert pushed["files"].keys() == saved.keys()
    assert all(pushed["files"][name] == saved[name] for name in ("README.md", "model.safetensors"))
    assert b"# A tagger of named entities" in pushed["files"]["README.md"]


class TestLoadModelRefuses:
    @pytest.fixture
    def folder(self, tmp_path):
        make_transformer(tmp_path).save_pretrained(tmp_path / "model")
        return tmp_path / "model"

    def refused(self, folder, *words):
        with pytest.raises(ValueError, match=r"model") as caught:
            load_model(folder)
        for word in (str(folder), *words):
            assert word in str(caught.value)

    def test_a_missing_tokenizer(self, folder):
        (folder / "tokenizer.json").unlink()
        self.refused(folder, "tokenizer.json is missing")

    @pytest.mark.parametrize(
        "name", ["tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"]
    )
    def test_a_file_that_is_cut_off(self, folder, name):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        self.refused(folder)

    def test_missing_weights_of_the_encoder(self, folder):
        weights = load_file(folder / "model.safetensors")
        del weights["scorer.encoder.classifier.weight"]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        self.refused(folder, "do not fit", "missing", "scorer.encoder.classifier.weight")

    def test_an_encoder_of_another_size(self, folder):
        config = json.loads((folder / "config.json").read_text())
        config["encoder"]["intermediate_size"] = 30
        (folder / "config.json").write_text(json.dumps(config))
        self.refused(folder)


def test_the_encoder_is_built_once(encoders, tmp_path, monkeypatch):
    GSPENForTokenClassification.from_encoder(encoders["bert"], NAMES).save_pretrained(tmp_path)
    built, make_encoder = [], encoder_module.make_encoder
    monkeypatch.setattr(
        encoder_module, "make_encoder", lambda config: built.append(1) or make_encoder(config)
    )
    load_model(tmp_path)
    assert built == [1]


def test_a_model_larger_than_a_limit_is_refused_while_it_is_built():
    message = "describes a model of more than 100 numbers"
    with pytest.raises(ValueError, match=message), refuse_larger(100):
        torch.nn.Linear(100, 100)
    with pytest.raises(ValueError, match=message), refuse_larger(100):
        torch.nn.ModuleList(torch.nn.Linear(9, 9) for _ in range(2))
    with refuse_larger(100), refuse_larger(None):
        torch.nn.Linear(9, 9)
    assert torch.nn.Linear(100, 100).out_features == 100, "there is no limit any more"


def test_tokenizer_and_window_may_be_given(encoders):
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["Carver"])
    encoder = encoders["bert"]
    model = GSPENForTokenClassification.from_encoder(encoder, NAMES, tokenizer=tokenizer, window=24)
    assert model.scorer.frame[:2] == (24, 6)
    assert "Carver" in model.reader.tokenizer.tokenize("Carver")
    batch = make_batch(model.eval())
    assert batch["input_ids"].shape[1] > 24


def test_labels_that_are_not_bio_are_refused(encoders):
    with pytest.raises(ValueError, match="E-LOC"):
        GSPENForTokenClassification.from_encoder(encoders["bert"], ["O", "B-LOC", "E-LOC"])
    with pytest.raises(ValueError, match="'O'"):
        GSPENForTokenClassification.from_encoder(encoders["bert"], ["B-LOC", "I-LOC"])


def test_half_precision_is_for_the_encoder_alone(learned):
    model = load_model(learned["bert"])
    batch = make_batch(model, SOME)
    loaded = GSPENForTokenClassification.from_pretrained(learned["bert"], dtype=torch.bfloat16)
    assert loaded.scorer.encoder.classifier.weight.dtype == torch.bfloat16
    assert loaded.scorer.crf.transitions.dtype == torch.float32
    found = logits(loaded, batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp(), logits(model, batch).exp(), atol=0.15, rtol=0)


def test_a_model_reads_rows_of_as_dataset_too(learned):
    model = load_model(learned["bert"])
    one = Collator.of(model)(as_dataset(SOME, model.bio).to_list())
    other = Collator.of(model)(rows(with_documents=True).to_list())
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_encoder_that_transformers_has_no_token_classification_for(tmp_path):
    tokenizer = make_tokenizer()
    sizes = {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64}
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(vocab_size=len(tokenizer), pad_token_id=0, **sizes, **layers, **heads)
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    model = GSPENForTokenClassification.from_encoder(tmp_path / "encoder", NAMES).eval()
    model.save_pretrained(tmp_path / "tagger")
    batch = make_batch(model, SENTENCES[:3])
    assert torch.equal(load_model(tmp_path / "tagger")(**batch).logits, model(**batch).logits)


def test_windows_and_options_that_cannot_be_are_refused(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    with pytest.raises(ValueError, match="at most 64"):
        GSPENForTokenClassification.from_encoder(encoder, NAMES, window=65)
    with pytest.raises(ValueError, match="unknown options dtype"):
        GSPENForTokenClassification.from_encoder(encoder, NAMES, dtype=torch.bfloat16)


def test_predictions_of_a_document_trainer_come_in_the_order_of_the_rows(tmp_path):
    model = make_transformer(tmp_path, terms=["document"])
    rows = as_dataset(SENTENCES, model.bio)
    trainer = DocumentTrainer(model, TrainingArguments(tmp_path, report_to=[], use_cpu=True),
                              data_collator=Collator.of(model))  # fmt: skip
    found = trainer.predict(rows).label_ids
    assert [[number for number in row if number != -100] for row in found.tolist()] == rows[:]["labels"]
    with pytest.raises(ValueError, match="must follow each other"):
        trainer.predict(rows.shuffle(seed=1))
