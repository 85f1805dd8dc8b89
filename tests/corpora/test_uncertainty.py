"""Uncertainties beside those of all labellings, counted out."""

import itertools

import pytest
import torch

from gspen_ner.corpora.ranking import uncertainties
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.ner.predictions import predictions_of
from tests.tiny import make_model, stir

SENTENCES = [("Halden", "left", "."), ("Graz",), ("Anna", "Halden")]


def everything(scored):
    """The probability of every labelling of each sentence."""
    theta = scored.theta.per_position()
    for row, length in enumerate(scored.chain.lengths.tolist()):
        nodes, edges = theta.nodes[row].double(), theta.edges[row].double()
        paths = torch.tensor(list(itertools.product(range(nodes.shape[1]), repeat=length)))
        scores = sum(nodes[position, paths[:, position]] for position in range(length))
        for position in range(length - 1):
            scores = scores + edges[position, paths[:, position], paths[:, position + 1]]
        yield scores.softmax(0)


@pytest.mark.parametrize("system", ["gspen", "struct", "spen", "unary"])
def test_uncertainties_equal_those_of_the_enumerated_labellings(system):
    model = make_model(system, scheme="BIO")
    tagger = Tagger(stir(model, 3.0) if system in ("gspen", "spen") else model)
    (scored,) = tagger.scores(SENTENCES, [0, 0, 0])
    some = [SENTENCES[row] for row in scored.rows]
    predictions = predictions_of(some, scored.without_base(), tagger.labels, 0)
    chances = [p.sort(descending=True).values for p in everything(scored)]
    entropies = [-(p[p > 0] * p[p > 0].log()).sum().item() for p in chances]
    assert uncertainties(scored, predictions, "entropy") == pytest.approx(entropies, rel=1e-4)
    each = [entropy / len(tokens) for entropy, tokens in zip(entropies, some, strict=True)]
    assert uncertainties(scored, predictions, "entropy", per_token=True) == pytest.approx(each, rel=1e-4)
    margins = [1 - (p[0] - p[1]).item() for p in chances]
    assert uncertainties(scored, predictions, "margin") == pytest.approx(margins, abs=1e-5)
    least = [
        1 - min((e.probability for e in one.entities), default=p[0].item())
        for one, p in zip(predictions, chances, strict=True)
    ]
    assert uncertainties(scored, predictions, "span") == pytest.approx(least, abs=1e-5)
    with pytest.raises(ValueError, match="per_token needs the measure entropy"):
        uncertainties(scored, predictions, "margin", per_token=True)
    with pytest.raises(ValueError, match="measure must be one of entropy, margin, span, got 'spam'"):
        uncertainties(scored, predictions, "spam")
