"""How predictions came about: marginals and inference, only where they are asked for."""

import numpy as np
import pytest
import torch

from gspen_ner.hosts.huggingface.tagger import Tagger
from tests.tiny import SENTENCES, make_batch, make_model, stir
from tests.tiny_transformer import make_transformer

WORDS = [list(sentence.tokens) for sentence in SENTENCES[:12]]
DOCUMENTS = [sentence.document for sentence in SENTENCES[:12]]


@pytest.mark.parametrize("system", ["unary", "struct", "spen", "gspen"])
def test_asking_changes_no_prediction(system):
    model = make_model(system)
    tagger = Tagger(stir(model, 3.0) if model.head is not None else model)
    plain = tagger.tag(WORDS, DOCUMENTS)
    asked = tagger.tag(WORDS, DOCUMENTS, workings=True)
    assert all(prediction.workings is None for prediction in plain)
    for one, other in zip(plain, asked, strict=True):
        assert (one.entities, one.base_entities) == (other.entities, other.base_entities)
        found = other.workings
        assert found.marginals.shape == (len(other.tokens), len(tagger.labels.names))
        np.testing.assert_allclose(found.marginals.sum(1), 1, atol=1e-5)
        if system in ("unary", "struct"):
            assert found.marginals is found.base_marginals
            assert (found.residuals, found.converged) == ((), True)
        else:
            assert 2 <= len(found.residuals) <= 6, "before the first step, and after each of at most five"
    changed = [not np.allclose(p.workings.marginals, p.workings.base_marginals, atol=1e-3) for p in asked]
    assert any(changed) == (system in ("spen", "gspen"))


def test_a_single_word_is_as_likely_as_its_label():
    tagger = Tagger(stir(make_model("gspen"), 3.0))
    singles = 0
    for prediction in tagger.tag(WORDS, DOCUMENTS, workings=True):
        for entities, table in (
            (prediction.entities, prediction.workings.marginals),
            (prediction.base_entities, prediction.workings.base_marginals),
        ):
            for span, probability in entities:
                if span.end - span.start == 1:
                    singles += 1
                    label = tagger.labels.index("S", span.type)
                    assert probability == pytest.approx(table[span.start, label], abs=1e-4)
    assert singles


def test_residuals_end_where_inference_ended():
    model = stir(make_model("gspen", terms="padded_mlp"), 1.0)
    found = Tagger(model).tag(WORDS, workings=True)
    with torch.no_grad():
        solution = model.infer(make_batch(model, SENTENCES[:12], with_labels=False)).solution
    assert [len(p.workings.residuals) - 1 for p in found] == solution.steps.tolist()
    assert [p.workings.residuals[-1] for p in found] == pytest.approx(solution.residual.tolist(), rel=0.05)
    assert [p.workings.converged for p in found] == solution.converged.tolist()


def test_a_sentence_without_words_has_none():
    first, second = Tagger(make_model("gspen")).tag([[], ["Rome"]], workings=True)
    assert first.workings is None
    assert second.workings is not None


def test_a_transformer_tells_too(tmp_path):
    model = stir(make_transformer(tmp_path, terms=["document"]), 3.0)
    for prediction in Tagger(model).tag(WORDS, DOCUMENTS, workings=True):
        assert prediction.workings.marginals.shape == (len(prediction.tokens), len(model.labels.names))
        assert prediction.workings.residuals
