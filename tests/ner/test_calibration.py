"""A tagger calibrated on tagged sentences: its entities stay, its confidences are right more often."""

import json

import pytest
import torch

from gspen_ner.decode import span_probabilities
from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.data import as_dataset
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.ner.calibration import THRESHOLDS, calibrate
from gspen_ner.ner.confidence import Confidence, Confidences
from gspen_ner.ner.metrics import calibration, evaluate, span_f1
from gspen_ner.ner.newswire import generate_newswire
from tests.tiny import gspen_ner, make_batch, make_model, stir, write_conll

DEV = generate_newswire(20, seed=5)
GOLD = [sentence.spans for sentence in DEV]


@pytest.fixture(scope="module")
def folder(trained):
    return trained / "model"


@pytest.fixture
def tagger(folder):
    """A tagger that has learned something, without its calibration, and whose term is far too sure."""
    tagger = load_tagger(folder)
    tagger.confidences = None
    with torch.no_grad():
        for weight in tagger.model.head.parameters():
            weight.mul_(3)
    return tagger


def spans_of(predictions):
    return [(prediction.spans, prediction.base_spans) for prediction in predictions]


def test_entities_stay_and_confidences_are_nearer_to_the_truth(tagger):
    before = tagger.tag_sentences(DEV)
    assert all(prediction.uncalibrated is None for prediction in before)
    base, full = calibrate(tagger, DEV)
    after = tagger.tag_sentences(DEV)
    assert spans_of(after) == spans_of(before)
    assert [p.uncalibrated for p in after] == [(p.entities, p.base_entities) for p in before]
    result = evaluate(tagger, DEV)
    assert result.base.uncalibrated.ece == pytest.approx(base.uncalibrated)
    assert result.full.uncalibrated.ece == pytest.approx(full.uncalibrated)
    assert result.full.calibration.ece < 0.7 * full.uncalibrated
    assert full.held_out < 0.8 * full.uncalibrated
    tagger.confidences = None
    assert tagger.tag_sentences(DEV) == before, "None gives the exact probabilities again"


def test_confidences_depend_on_the_probabilities_with_and_without_the_term(tagger):
    calibrate(tagger, DEV)
    [prediction, *_] = tagger.tag_sentences(DEV[:1])
    [scored] = tagger.scores([DEV[0].tokens])
    chain, labels = scored.chain, tagger.labels
    full, base = (
        span_probabilities(t, chain, labels, [prediction.spans])[0] for t in (scored.theta, scored.base)
    )
    expected = tagger.confidences.full(full, base)
    assert [entity.probability for entity in prediction.entities] == pytest.approx(expected.tolist())
    exact = [entity.probability for entity in prediction.uncalibrated[1]]
    own = tagger.confidences.base(exact, exact).tolist()
    assert [entity.probability for entity in prediction.base_entities] == pytest.approx(own)


def test_the_held_out_error_is_of_the_other_half_of_the_documents(tagger):
    _, errors = calibrate(tagger, DEV)
    documents = sorted({sentence.document for sentence in DEV})
    halves = [[s for s in DEV if s.document in documents[start::2]] for start in (0, 1)]
    gold, predicted = [], []
    for half, other in (halves, halves[::-1]):
        calibrate(tagger, other)
        gold += [sentence.spans for sentence in half]
        predicted += [prediction.entities for prediction in tagger.tag_sentences(half)]
    assert errors.held_out == pytest.approx(calibration(gold, predicted).ece)


def test_the_threshold_has_the_best_f1(tagger):
    tagger.model.config.decoder = "spans"
    calibrate(tagger, DEV)
    lengths = [len(sentence.tokens) for sentence in DEV]

    def f1(threshold):
        tagger.confidences = Confidences(full=Confidence(threshold=threshold))
        return span_f1(GOLD, [prediction.spans for prediction in tagger.tag_sentences(DEV)], lengths).f1

    chosen = tagger.confidences.full.threshold
    scores = {threshold: f1(threshold) for threshold in THRESHOLDS}
    assert scores[chosen] == max(scores.values())
    assert len(set(scores.values())) > 1
    assert tagger.tag_sentences(DEV) != []


def test_the_likeliest_labelling_needs_no_threshold(tagger):
    calibrate(tagger, DEV)
    assert tagger.confidences.full.threshold == tagger.confidences.base.threshold == 0.5


def test_without_a_term_there_is_one_system(folder):
    tagger = Tagger(make_model("struct"))
    assert len(calibrate(tagger, DEV)) == 1
    assert tagger.confidences.full == tagger.confidences.base
    prediction = tagger.tag_sentences(DEV[:1])[0]
    assert prediction.entities == prediction.base_entities


def test_no_sentences_leave_probabilities_as_they_are(tagger):
    calibrate(tagger, [])
    assert tagger.confidences.full == Confidence()
    assert tagger.confidences.tokens == pytest.approx(1, abs=1e-3)


def test_rows_of_a_dataset_calibrate_alike(tagger):
    expected = calibrate(tagger, DEV), tagger.confidences
    assert (tagger.calibrate(as_dataset(DEV, tagger.model.bio)), tagger.confidences) == expected


def test_every_command_gives_the_confidences_of_the_saved_model(tagger, tmp_path):
    calibrate(tagger, DEV)
    tagger.save(tmp_path / "model")
    loaded = load_tagger(tmp_path / "model")
    assert loaded.confidences == tagger.confidences
    expected = tagger.tag_sentences(DEV)
    assert loaded.tag_sentences(DEV) == expected
    file = write_conll(tmp_path / "dev.txt", DEV)
    confidences = [entity.probability for prediction in expected for entity in prediction.entities]

    def written(*arguments, name):
        result = gspen_ner(*arguments, "--output", tmp_path / name)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    lines = written("predict", tmp_path / "model", file, name="predicted.jsonl")
    assert [e["probability"] for line in lines for e in line["entities"]] == pytest.approx(
        confidences, abs=1e-5
    )
    ranked = written("rank", tmp_path / "model", file, "--by", "span", name="ranked.jsonl")
    found = sorted(e["confidence"] for line in ranked for e in line["entities"])
    assert found == pytest.approx(sorted(confidences), abs=1e-4)
    result = gspen_ner("evaluate", tmp_path / "model", file)
    assert " ".join(result.output.split()).count("% before calibration)") == 2


def test_a_new_term_is_not_calibrated(tagger):
    calibrate(tagger, DEV)
    assert tagger.model.with_terms(["document"]).config.confidences is None


def test_files_of_before_are_read(folder, tmp_path):
    entries = GSPENConfig.from_pretrained(folder).to_dict()
    del entries["confidences"]
    assert GSPENConfig.from_dict(entries).confidences is None


class TestTokens:
    def test_the_likeliest_labels_stay(self):
        model = stir(make_model("gspen"), 3.0)
        batch = make_batch(model, DEV, with_labels=False)
        with torch.no_grad():
            before = model(**batch).logits
            Tagger(model).confidences = Confidences(tokens=0.4)
            after = model(**batch).logits
        present = batch["lengths"][:, None] > torch.arange(before.shape[1])
        assert torch.equal(before.argmax(-1), after.argmax(-1))
        assert torch.equal(before[~present], after[~present])
        torch.testing.assert_close(after[present].exp().sum(-1), torch.ones(int(present.sum())))
        ratios = (before[..., 0] - before[..., 1])[present]
        torch.testing.assert_close((after[..., 0] - after[..., 1])[present], 0.4 * ratios)

    def test_the_exponent_makes_gold_labels_likelier(self, tagger):
        calibrate(tagger, DEV)
        batch = make_batch(tagger.model, DEV)
        labels, best = batch.pop("labels"), tagger.confidences.tokens

        def loss(exponent):
            tagger.confidences = Confidences(tokens=exponent)
            with torch.no_grad():
                logits = tagger.model(**batch).logits.clamp_min(-27)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

        assert loss(best) < min(loss(best * 0.8), loss(best * 1.25), loss(1.0))
