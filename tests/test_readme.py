"""What README.md shows a Flair user, run as it stands there on a small tagger; and that it stays short."""

import re
import textwrap
from pathlib import Path
from unittest import mock

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)]


def block_with(words):
    (found,) = [block for block in BLOCKS if words in block]
    return found


def test_it_is_two_screens_without_formulas():
    assert len(TEXT.splitlines()) <= 100
    assert "$" not in TEXT


def test_a_flair_tagger_is_accelerated_and_upgraded(tmp_path, monkeypatch):
    from gspen_ner.hosts.flair import GSPENTagger
    from tests.tiny_flair import ModelTrainer, SequenceTagger, make_corpus, make_crf, predicted

    monkeypatch.chdir(tmp_path)
    corpus = make_corpus(tmp_path)
    plain, names = make_crf(corpus), {"corpus": corpus, "sentences": list(corpus.test)}
    spans = predicted(plain, corpus.test)[0]
    with mock.patch.object(SequenceTagger, "load", return_value=plain):
        exec(block_with("accelerate("), names)
    assert predicted(names["tagger"], corpus.test)[0] == spans
    train = ModelTrainer.train
    with mock.patch.object(
        ModelTrainer, "train", lambda *args, **options: train(*args, **options | {"max_epochs": 1})
    ):
        exec(block_with("train_term("), names)
    assert isinstance(names["upgraded"], GSPENTagger)
    assert (tmp_path / "upgraded" / "term" / "best" / "model.pt").is_file()
