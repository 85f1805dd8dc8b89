"""How a model is made: of a pretrained transformer, a fine-tuned classifier, a vocabulary, another model."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from transformers import PreTrainedTokenizerBase

from gspen_ner.hosts.huggingface.config import GSPENConfig, System
from gspen_ner.hosts.huggingface.piece_scorer import PieceScorer
from gspen_ner.hosts.huggingface.pretrained import (
    chain_labels,
    load_classifier,
    load_encoder,
    move_in,
    term_entries,
)
from gspen_ner.hosts.huggingface.readers import WordReader
from gspen_ner.hosts.huggingface.storing import StoredModel
from gspen_ner.labels import Scheme
from gspen_ner.scorers import BiLSTMCNN, Vocabulary


class MadeModel(StoredModel):
    """What a model of ours can be made of."""

    scorer: BiLSTMCNN | PieceScorer

    @classmethod
    def from_encoder(
        cls,
        name: str | Path,
        labels: Sequence[str],
        *,
        scheme: Scheme = "BIOES",
        transitions: bool = True,
        terms: Sequence[str | Mapping[str, Any]] = (),
        inference: Mapping[str, Any] | None = None,
        window: int | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> Self:
        """A new tagger on top of a pretrained encoder.

        Args:
            name: of the encoder on the hub, or its folder.
            labels: the dataset's, in BIO and in its order: `dataset.features["ner_tags"].feature.names`.
            scheme: that the chain uses inside; logits and gold labels stay BIO.
            transitions: whether neighbouring labels are scored; without, each word is labelled by itself.
            terms: global terms, by name or with arguments; see `make_term`.
            inference: arguments of `GSPENHead`.
            window: pieces read at once, if the encoder's own limit is not wanted.
            tokenizer: the encoder's own if not given.
            options: where on the hub: `revision`, `token`, `cache_dir` and the like.
        """
        chain = chain_labels(labels, scheme)
        pretrained = load_encoder(name, len(chain.names), tokenizer, **options)
        limit = pretrained.window["window"]
        if window is not None and window > limit:
            raise ValueError(f"window must be at most {limit}, which {name} can read at once, got {window}")
        frame = {} if window is None else {"window": window, "overlap": window // 4}
        config = GSPENConfig(
            chain_labels=chain.names,
            scheme=scheme,
            system=_system(transitions, bool(terms)),
            scorer=pretrained.scorer_entries() | frame,
            encoder=pretrained.encoder_entries(),
            terms=term_entries(terms),
            inference=dict(inference or {}),
            id2label=dict(enumerate(labels)),
        )
        model = cls(config, pretrained.reader)
        move_in(pretrained, model.scorer)
        return model

    @classmethod
    def from_token_classifier(
        cls,
        name: str | Path,
        *,
        terms: Sequence[str | Mapping[str, Any]] = (),
        inference: Mapping[str, Any] | None = None,
        constrained: bool = False,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> Self:
        """A tagger that starts with the predictions of a fine-tuned softmax classifier, to be fine-tuned on.

        All transitions are zero and the term, if any, says nothing yet: marginals are the classifier's
        probabilities, and the best labelling has its labels. (Entities are read from it strictly: an I- that
        continues nothing opens none. For a classifier that often breaks its scheme, take `constrained`.)
        Give transitions and term larger learning rates than the encoder's; see `parameter_groups`.

        Args:
            name: of the classifier on the hub, or its folder.
            terms: see `from_encoder`.
            inference: likewise.
            constrained: forbid what the classifier's scheme forbids (an I- that continues nothing) from the
                start; predictions then differ wherever the classifier breaks its scheme.
            tokenizer: see `from_encoder`.
            options: likewise.
        """
        pretrained, labels = load_classifier(name, tokenizer, **options)
        config = GSPENConfig(
            chain_labels=labels.names,
            scheme=labels.scheme,
            system=_system(True, bool(terms)),
            scorer=pretrained.scorer_entries() | {"constrained": constrained},
            encoder=pretrained.encoder_entries(),
            terms=term_entries(terms),
            inference=dict(inference or {}),
        )
        model = cls(config, pretrained.reader)
        move_in(pretrained, model.scorer)
        assert model.scorer.crf is not None
        for weight in model.scorer.crf.parameters():
            torch.nn.init.zeros_(weight)
        return model

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        *,
        scheme: Scheme = "BIOES",
        terms: Sequence[str | Mapping[str, Any]] = (),
        inference: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """A new tagger on top of a BiLSTM-CNN, which knows nothing but the words of its training data.

        Args:
            vocabulary: of the training data.
            labels: see `from_encoder`.
            scheme: likewise.
            terms: likewise.
            inference: likewise.
            options: other arguments of `BiLSTMCNN`, such as `hidden` and `transitions`.
        """
        chain, reader = chain_labels(labels, scheme), WordReader(vocabulary)
        config = GSPENConfig(
            chain_labels=chain.names,
            scheme=scheme,
            system=_system(options.get("transitions") != "none", bool(terms)),
            scorer=reader.sizes() | options,
            terms=term_entries(terms),
            inference=dict(inference or {}),
            id2label=dict(enumerate(labels)),
        )
        return cls(config, reader)

    def with_terms(
        self, terms: Sequence[str | Mapping[str, Any]], inference: Mapping[str, Any] | None = None
    ) -> Self:
        """A copy of this model with global terms that change nothing yet, in place of those it has.

        Args:
            terms: by name or with arguments; see `make_term`.
            inference: arguments of `GSPENHead`.
        """
        config = copy.deepcopy(self.config)
        config.system = _system(config.has_transitions, bool(terms))
        config.terms, config.inference, config.results = term_entries(terms), dict(inference or {}), {}
        model = type(self)(config, self.reader)
        model.scorer.load_state_dict(self.scorer.state_dict())
        return model


def _system(transitions: bool, term: bool) -> System:
    if transitions:
        return "gspen" if term else "struct"
    return "spen" if term else "unary"
