"""The pretrained document term on taggers of every library: one line, no training."""

import copy
import json

import pytest
import torch
from transformers import AutoModelForTokenClassification

from gspen_ner.hosts.huggingface import GSPENForTokenClassification, Tagger
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.hosts.upgrading import STRENGTH, suited_strength, tagger_of, upgrade
from gspen_ner.ner.contradiction import self_contradiction
from tests.tiny import SENTENCES, gspen_ner, make_model
from tests.tiny_transformer import NAMES, save_classifier

TOKENS = [list(sentence.tokens) for sentence in SENTENCES]
DOCUMENTS = [sentence.document for sentence in SENTENCES]


def tag(model, documents=DOCUMENTS):
    tagger = model if hasattr(model, "tag") else Tagger(model)
    return [(p.base_spans, p.spans) for p in tagger.tag(TOKENS, documents)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("classifier"))


class TestAModelOfThisPackage:
    def test_only_predictions_within_documents_change(self):
        model = make_model("struct")
        before = copy.deepcopy(model.state_dict())
        upgraded = upgrade(model, strength=1.0)
        alone = list(range(len(TOKENS)))
        assert [base for base, _ in tag(upgraded)] == [full for _, full in tag(model)]
        assert any(base != full for base, full in tag(upgraded))
        repeats = [len(set(map(str.lower, tokens))) < len(tokens) for tokens in TOKENS]
        assert all(
            base == full
            for (base, full), repeated in zip(tag(upgraded, alone), repeats, strict=True)
            if not repeated
        )
        assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())

    def test_another_term_is_replaced(self):
        upgraded = upgrade(make_model("gspen", terms="convolution"))
        assert [term["name"] for term in upgraded.config.terms] == ["document"]

    @pytest.mark.parametrize("strength", [0.0, 0.5])
    def test_strength_is_a_factor(self, strength):
        model = make_model("struct")
        whole, part = (upgrade(model, factor).head.term for factor in (1.0, strength))
        torch.testing.assert_close(part.agreement, strength * whole.agreement)
        torch.testing.assert_close(part.support, strength * whole.support)

    def test_text_chooses_the_strength(self):
        model = make_model("struct")
        by_text, whole = upgrade(model, text=(TOKENS, DOCUMENTS)), upgrade(model, strength=1.0)
        suited = suited_strength(self_contradiction(Tagger(model), TOKENS, DOCUMENTS))
        assert suited != STRENGTH
        torch.testing.assert_close(by_text.head.term.agreement, suited * whole.head.term.agreement)
        careful = upgrade(model).head.term.agreement
        torch.testing.assert_close(careful, STRENGTH * whole.head.term.agreement)

    def test_it_needs_bioes(self):
        with pytest.raises(ValueError, match="pretrained matrices need BIOES labels, got O, B-"):
            upgrade(make_model("struct", scheme="BIO"))

    def test_a_negative_strength_is_refused(self):
        with pytest.raises(ValueError, match="strength must be a number of at least 0, got -1"):
            upgrade(make_model("struct"), strength=-1)


class TestATokenClassifier:
    def test_its_scores_are_those_of_bioes(self, classifier):
        model = GSPENForTokenClassification.from_token_classifier(classifier, constrained=True).eval()
        finer = GSPENForTokenClassification.from_token_classifier(classifier, scheme="BIOES").eval()
        assert finer.labels.scheme == "BIOES"
        assert finer.bio.names == model.bio.names == NAMES
        assert [full for _, full in tag(finer)] == [full for _, full in tag(model)]

    @pytest.mark.parametrize("given", ["folder", "object"])
    def test_upgrade(self, classifier, given, tmp_path):
        model = (
            classifier if given == "folder" else AutoModelForTokenClassification.from_pretrained(classifier)
        )
        upgraded = upgrade(model)
        before = GSPENForTokenClassification.from_token_classifier(classifier, scheme="BIOES").eval()
        assert not upgraded.training
        assert [base for base, _ in tag(upgraded)] == [full for _, full in tag(before)]
        assert any(base != full for base, full in tag(upgraded))
        tagger_of(upgraded).save(tmp_path / "upgraded")
        assert tag(load_tagger(tmp_path / "upgraded")) == tag(upgraded)

    def test_a_missing_tokenizer_is_asked_for(self, classifier):
        model = AutoModelForTokenClassification.from_pretrained(classifier)
        model.name_or_path = ""
        with pytest.raises(ValueError, match="no tokenizer can be loaded from '': give it by tokenizer="):
            upgrade(model)

    def test_labels_without_a_partner_are_refused(self, tmp_path):
        folder = save_classifier(tmp_path, names=("O", "B-PER", "I-PER", "I-LOC"))
        with pytest.raises(ValueError, match="of each type, B- and I-, got the labels O, B-PER"):
            upgrade(folder)

    def test_a_bioes_classifier_stays_one(self, tmp_path):
        names = ("O", "B-PER", "I-PER", "E-PER", "S-PER")
        folder = save_classifier(tmp_path, names=names)
        assert upgrade(folder).labels.names == names
        with pytest.raises(ValueError, match="a BIOES classifier cannot have BIO labels"):
            GSPENForTokenClassification.from_token_classifier(folder, scheme="BIO")


def test_a_flair_tagger(crf, tmp_path):
    from flair.models import SequenceTagger

    from gspen_ner.hosts.flair import GSPENTagger
    from gspen_ner.hosts.flair.prediction import FlairTagger

    before = [full for _, full in tag(FlairTagger(crf))]
    upgraded = upgrade(crf, strength=1.0)
    assert isinstance(upgraded, GSPENTagger)
    assert type(crf) is SequenceTagger
    spans = tag(FlairTagger(upgraded))
    assert [base for base, _ in spans] == before
    assert any(base != full for base, full in spans)
    tagger_of(upgraded).save(tmp_path / "run" / "model")
    assert tag(load_tagger(tmp_path / "run")) == spans
    for path in ("run", "run/model", "run/model/model.pt"):
        again = upgrade(tmp_path / path, strength=1.0)  # its CRF is upgraded, not its term
        assert tag(FlairTagger(again)) == spans


def test_a_file_that_is_no_flair_tagger(tmp_path):
    pytest.importorskip("flair")
    (tmp_path / "model.pt").write_text("hello", encoding="utf-8")
    with pytest.raises(ValueError, match=r"model.pt: not a Flair tagger that can be read"):
        upgrade(tmp_path / "model.pt")


def test_other_objects_are_refused():
    with pytest.raises(ValueError, match=r"expected a Flair SequenceTagger, .* got a dict"):
        upgrade({})


def test_the_command(classifier, tmp_path):
    output = tmp_path / "upgraded"
    upgraded = gspen_ner("upgrade", classifier, "--output", output)
    assert upgraded.exit_code == 0
    assert f"The upgraded model is in {output}" in upgraded.output
    tagged = tmp_path / "tagged.jsonl"
    gspen_ner("predict", output, "-", "--output", tagged, text="Halden left. Halden stayed.")
    assert json.loads(tagged.read_text().splitlines()[0])["tokens"][0] == "Halden"
    text = tmp_path / "text.conll"
    text.write_text("Ann\nleft\n\nAnn\nstayed\n", encoding="utf-8")
    other = gspen_ner("upgrade", classifier, "--text", text, "--output", tmp_path / "other")
    assert other.exit_code == 0, other.output
    assert "strength of the document term: 1.25" in other.output
    refused = gspen_ner("upgrade", classifier, "--output", output)
    assert refused.exit_code == 1
    assert f"{output} exists already" in refused.output
