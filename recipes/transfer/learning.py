"""Learning one document term on the scores of several finished runs, whatever their labels."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from gspen_ner.hosts.huggingface import Collator, GSPENForTokenClassification, StageData, Tagger
from gspen_ner.hosts.huggingface.data import EpochBatches, lengths_of
from gspen_ner.labels import spans_of_tags
from gspen_ner.ner.metrics import span_f1
from gspen_ner.recipe import Recipe, load_recipe
from gspen_ner.runs.huggingface_run import HuggingFaceRun
from gspen_ner.terms import DocumentConsistency
from gspen_ner.training import CrossFit
from gspen_ner.training.stages import TERM_INFERENCE

RELATIONS = ["content_word", "content_word_and_next", "previous_and_content_word", "abbreviation"]
TERM = {"name": "document", "matrices": "shared", "relations": RELATIONS}
BATCH_SIZE, STEPS, LEARNING_RATE = 32, 600, 0.01


class Member:
    """A corpus that the term is learned on, with a model of its own labels.

    Args:
        run: folder of a finished run with a frozen base model and cross-fitted scores.
        cache: folder of its scores.
    """

    model: GSPENForTokenClassification
    data: StageData

    def __init__(self, run: Path, cache: Path) -> None:
        recipe = load_recipe(run / "recipe.yaml")
        scores: Any = recipe.term_training.scores
        if not isinstance(recipe, Recipe) or not hasattr(scores, "folds"):
            raise ValueError(f"{run}: expected a run of a BiLSTM-CNN with cross-fitted scores")
        self.name = run.name
        self.corpus = Path(recipe.data.train).parent.name or run.name
        host = HuggingFaceRun(recipe, cache / run.name).host
        base = GSPENForTokenClassification.from_pretrained(run / "base" / "best")
        self.model = base.with_terms([TERM], TERM_INFERENCE).freeze()
        self.data = host.term_data(self.model, CrossFit(scores.folds, scores.epochs, str(run)))
        self.model.train()
        train = self.data.train
        self.order = EpochBatches(train[:]["document"], lengths_of(train), BATCH_SIZE, recipe.seed)
        self.collate = Collator.of(self.model)

    @property
    def term(self) -> DocumentConsistency:
        """The document term of its model."""
        term = self.model.head.term
        assert isinstance(term, DocumentConsistency)
        return term

    def batches(self) -> Iterator[dict[str, Tensor]]:
        """Yield batches of whole documents without end."""
        while True:
            for rows in self.order:
                yield self.collate(self.data.train.__getitems__(rows))
            self.order.epoch += 1

    def dev_f1(self) -> float:
        """Return the F1 of the likeliest labellings on development data."""
        gold = [spans_of_tags(tags, "BIO") for tags in self.data.dev[:]["tags"]]
        was_training = self.model.training
        f1 = span_f1(gold, Tagger(self.model).spans(self.data.dev), lengths_of(self.data.dev)).micro.f1
        self.model.train(was_training)
        return f1


def learn(members: Sequence[Member], seed: int) -> DocumentConsistency:
    """Return a term that was learned on all members alike, each step on a batch of one of them."""
    term = members[0].term
    for weight in term.parameters():
        torch.nn.init.zeros_(weight)
    for member in members[1:]:
        member.term.agreement, member.term.support = term.agreement, term.support
    optimizer = torch.optim.Adam(term.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    chance = random.Random(seed)
    streams = [member.batches() for member in members]
    for _ in tqdm(range(STEPS), "steps", disable=None):
        number = chance.randrange(len(members))
        loss = members[number].model(**next(streams[number])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return term
