"""Small Flair corpora of generated news, small embeddings, and small taggers of them."""
# ruff: noqa: E402, imports stand behind the question whether Flair is there

import itertools
import logging

import pytest
import torch

flair = pytest.importorskip("flair")

from flair.data import Dictionary, Sentence
from flair.datasets import ColumnCorpus
from flair.embeddings import OneHotEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.trainers.plugins import MetricHistoryPlugin

from gspen_ner.ner.newswire import generate_newswire
from tests.tiny import write_conll

flair.device = torch.device("cpu")
logging.getLogger("flair").setLevel(logging.ERROR)
DOCUMENTS = {"train": (12, 1), "dev": (3, 2), "test": (3, 3)}


def make_corpus(folder, in_memory=True):
    """Documents, sentences of which are linked and begin with a separator."""
    files = {}
    for part, (documents, seed) in DOCUMENTS.items():
        files[f"{part}_file"] = write_conll(folder / f"{part}.txt", generate_newswire(documents, seed)).name
    columns = {0: "text", 1: "ner"}
    return ColumnCorpus(folder, columns, **files, document_separator_token="-DOCSTART-", in_memory=in_memory)


def make_shapes_corpus(folder):
    """Words with the tags UP, LOW, NUM or SIGN: a task without spans."""
    for part, (documents, seed) in DOCUMENTS.items():
        lines = [
            "".join(f"{token} {_shape(token)}\n" for token in sentence.tokens)
            for sentence in generate_newswire(documents, seed)
        ]
        (folder / f"{part}.txt").write_text("\n".join(lines), encoding="utf-8")
    files = {f"{part}_file": f"{part}.txt" for part in DOCUMENTS}
    return ColumnCorpus(folder, {0: "text", 1: "shape"}, **files)


def _shape(token):
    if not token[0].isalnum():
        return "SIGN"
    return "NUM" if token[0].isdigit() else "UP" if token[0].isupper() else "LOW"


def kinds_of(corpus, tag_type="ner", add_unk=False):
    return corpus.make_label_dictionary(tag_type, add_unk=add_unk)


def characters_of(corpus):
    characters = Dictionary(add_unk=True)
    for text in sorted({token.text for sentence in corpus.train for token in sentence}):
        for character in text:
            characters.add_item(character)
    return characters


def one_hot(corpus, size=16):
    return OneHotEmbeddings.from_corpus(corpus, embedding_length=size, min_freq=1)


def make_crf(corpus, **options):
    """A stock tagger with random weights."""
    flair.set_seed(1)
    return SequenceTagger(one_hot(corpus), kinds_of(corpus), "ner", hidden_size=20, **options)


def train(tagger, corpus, folder, epochs=3, method="train", **options):
    """Train with Flair's trainer; returns what it returns, with the losses of the epochs."""
    flair.set_seed(2)
    plugins = [MetricHistoryPlugin(), *options.pop("plugins", [])]
    options = {"learning_rate": 0.02, "optimizer": torch.optim.Adam, "mini_batch_size": 16} | options
    options = {"embeddings_storage_mode": "none", "save_final_model": False} | options
    trainer = ModelTrainer(tagger, corpus)
    return getattr(trainer, method)(folder, max_epochs=epochs, plugins=plugins, **options)


def copies(sentences):
    """The same words without labels and without a document."""
    return [Sentence([token.text for token in sentence]) for sentence in sentences]


def spans_of(sentences, layer="ner"):
    """First token, last token and type of each entity."""
    return [
        [(s.data_point[0].idx, s.data_point[-1].idx, s.value) for s in sentence.get_labels(layer)]
        for sentence in sentences
    ]


def scores_of(sentences, layer="ner"):
    return [label.score for sentence in sentences for label in sentence.get_labels(layer)]


def predicted(tagger, sentences, **options):
    """Spans and scores that a tagger finds in the same words without a document."""
    fresh = copies(sentences)
    tagger.eval().predict(fresh, **options)
    return spans_of(fresh), scores_of(fresh)


@torch.no_grad()
def all_taggings(tagger, sentence):
    """Every tag sequence of a short sentence with its probability, by enumeration."""
    tagger.eval()
    theta = tagger.infer([sentence]).theta.per_position()
    nodes, edges = theta.nodes[0].double(), theta.edges[0].double()
    paths = torch.tensor(list(itertools.product(range(nodes.shape[1]), repeat=len(sentence))))
    places = torch.arange(len(sentence))
    scores = nodes[places, paths].sum(1) + edges[places[:-1], paths[:, :-1], paths[:, 1:]].sum(1)
    names = [tuple(tagger.view.names[number] for number in path) for path in paths.tolist()]
    return list(zip(names, scores.softmax(0).tolist(), strict=True))
