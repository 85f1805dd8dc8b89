"""Runs that train a Flair tagger by Flair's `ModelTrainer`."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

from flair.models import SequenceTagger

from gspen_ner.head import given_labels, make_head
from gspen_ner.hosts.flair.accelerate import accelerate
from gspen_ner.hosts.flair.chain import ChainView
from gspen_ner.hosts.flair.embeddings import make_embeddings
from gspen_ner.hosts.flair.sentences import TAG_TYPE, as_corpus, type_dictionary
from gspen_ner.hosts.flair.tagger import GSPENTagger
from gspen_ner.hosts.flair.two_stages import FlairHost
from gspen_ner.hosts.loading import FLAIR_FILE, find_model
from gspen_ner.recipe import FlairRecipe, expand
from gspen_ner.runs.run import Run
from gspen_ner.training.score_sources import SCORE_SOURCES


class FlairRun(Run):
    """A run whose stages `ModelTrainer` trains."""

    recipe: FlairRecipe

    @cached_property
    def host(self) -> FlairHost:
        """Trains and scores taggers of this run."""
        corpus = as_corpus(self.corpus.train, self.corpus.dev, None)
        return FlairHost(self.folder, corpus, self._new_base, self.recipe.base_training, self.recipe.seed)

    @property
    def calibrates(self) -> bool:
        """Whether the model can keep confidences: a plain Flair tagger cannot."""
        return self.has_term

    def train_base(self) -> Path:
        if self.recipe.base is not None:
            return find_model(expand(self.recipe.base), ("", "base/best"))
        return self.host.stage("base", self._new_base, self.recipe.base_training)

    def train_term(self, base: Path) -> Path:
        return self.host.stage("term", partial(self._with_term, base), self.recipe.term_training)

    def _new_base(self) -> SequenceTagger:
        """Return a new tagger that uses the kernels of this package."""
        embeddings = make_embeddings(self.recipe.embeddings, self.corpus.train)
        types, options = type_dictionary(self.corpus.types), self.recipe.tagger.model_dump()
        tagger = SequenceTagger(embeddings, types, TAG_TYPE, **options)
        accelerate(tagger)
        return tagger

    def _with_term(self, base: Path) -> GSPENTagger:
        """Return the base model with new global terms, which do not change its predictions yet."""
        tagger = SequenceTagger.load(base / FLAIR_FILE)
        view = ChainView(tagger)
        if set(view.names) != set(self.corpus.labels(self.recipe.tagger.tag_format).names):
            raise ValueError(f"{base}: its tags are {', '.join(view.names)}; the training data has others")
        terms = self.corpus.term_entries(self.recipe)
        head = make_head(terms, self.recipe.inference.model_dump(), **given_labels(view.names))
        training = self.recipe.term_training
        upgraded = GSPENTagger.from_sequence_tagger(tagger, head=head, freeze=training.freeze)
        if training.freeze == "none":
            return upgraded
        return self.host.learn_from(upgraded, SCORE_SOURCES.make(training.scores.model_dump()))
