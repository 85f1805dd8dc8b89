"""Runs with a tagger of Flair's, trained by Flair's `ModelTrainer`.

Flair's trainer cannot go on with a training that was killed: a stage that is not done must be begun again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

import flair
from flair.data import Corpus as FlairCorpus
from flair.models import SequenceTagger

from gspen_ner.files import write_folder, write_whole
from gspen_ner.head import make_head
from gspen_ner.hosts.flair.accelerate import accelerate
from gspen_ner.hosts.flair.chain_view import ChainView
from gspen_ner.hosts.flair.embeddings import make_embeddings
from gspen_ner.hosts.flair.entities import type_dictionary
from gspen_ner.hosts.flair.sentences import TAG_TYPE, as_corpus
from gspen_ner.hosts.flair.tagger import GSPENTagger
from gspen_ner.hosts.flair.training import BEST_FILE, quiet_console, train_stage
from gspen_ner.hosts.loading import FLAIR_FILE, find_model
from gspen_ner.recipe import FlairRecipe, FlairTraining, expand
from gspen_ner.runs.models import term_entries
from gspen_ner.runs.run import Run


class FlairRun(Run):
    """A run whose stages `ModelTrainer` trains."""

    recipe: FlairRecipe

    def train_base(self) -> Path:
        if self.recipe.base is not None:
            return find_model(expand(self.recipe.base), ("", "base/best"))
        return self._stage("base", self._new_base, self.recipe.base_training)

    def train_term(self, base: Path) -> Path:
        return self._stage("term", partial(self._with_term, base), self.recipe.term_training)

    @cached_property
    def _flair_corpus(self) -> FlairCorpus:
        return as_corpus(self.corpus.train, self.corpus.dev, None)

    def _new_base(self) -> SequenceTagger:
        """A tagger that has not learned anything yet, with our kernels in it."""
        embeddings = make_embeddings(self.recipe.embeddings, self.corpus.train)
        types, options = type_dictionary(self.corpus.types), self.recipe.tagger.model_dump()
        tagger = SequenceTagger(embeddings, types, TAG_TYPE, **options)
        accelerate(tagger)
        return tagger

    def _with_term(self, base: Path) -> GSPENTagger:
        """The base model with a term that changes nothing yet."""
        tagger = SequenceTagger.load(base / FLAIR_FILE)
        view = ChainView(tagger.label_dictionary, self.recipe.tagger.tag_format)
        if set(view.names) != set(self.corpus.labels(self.recipe.tagger.tag_format).names):
            raise ValueError(f"{base}: its tags are {', '.join(view.names)}; the training data has others")
        terms = term_entries(self.recipe, self.corpus)
        head = make_head(len(view.names), terms, self.recipe.inference.model_dump())
        freeze = self.recipe.term_training.freeze
        return GSPENTagger.from_sequence_tagger(tagger, head=head, freeze=freeze)

    def _stage(self, name: str, make: Callable[[], SequenceTagger], training: FlairTraining) -> Path:
        """Train a tagger, or find that it is done."""
        folder = self.folder / name
        done, best = folder / "done.json", folder / "best"
        if not done.exists():
            if folder.exists():
                raise ValueError(
                    f"{folder}: this stage was interrupted, and Flair's trainer cannot go on with it: remove "
                    "the folder and resume to train the stage again"
                )
            quiet_console()
            flair.set_seed(self.recipe.seed)
            seconds = train_stage(make(), self._flair_corpus, training, folder, self.recipe.seed)
            write_folder(best, lambda new: shutil.move(folder / BEST_FILE, new / FLAIR_FILE))
            write_whole(done, json.dumps({"seconds_an_epoch": seconds}) + "\n")
        return best
