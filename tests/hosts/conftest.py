"""What the tests of the Flair host share; it is trained once a session, and only where Flair is."""

import copy

import pytest


@pytest.fixture(scope="session")
def news(tmp_path_factory):
    """A corpus of documents with entities. Its gold labels are not to be changed."""
    from tests.tiny_flair import make_corpus

    return make_corpus(tmp_path_factory.mktemp("news"))


@pytest.fixture(scope="session")
def _trained_crf(news, tmp_path_factory):
    from tests.tiny_flair import make_crf, train

    tagger = make_crf(news)
    train(tagger, news, tmp_path_factory.mktemp("crf"), epochs=8, use_final_model_for_eval=True)
    return tagger.eval()


@pytest.fixture
def crf(_trained_crf):
    """A stock tagger that has learned something, and that the test may change."""
    return copy.deepcopy(_trained_crf)
