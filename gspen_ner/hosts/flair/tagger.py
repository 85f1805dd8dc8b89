"""GSPENTagger: Flair's `SequenceTagger` with a global term over its CRF.

    embeddings -> RNN -> emissions, transitions (Flair's) -> potentials -> GSPENHead -> loss, or tags

Flair's own trainer, evaluation, saving and loading serve it unchanged. A new tagger, or one made from a
trained `SequenceTagger`, predicts exactly what its CRF predicts; training moves it from there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import torch
from flair.data import Dictionary, Sentence
from flair.models import SequenceTagger
from flair.models.sequence_tagger_utils.crf import START_TAG, STOP_TAG
from flair.training_utils import Result
from torch import Tensor

from gspen_ner.components import given_to
from gspen_ner.head import GSPENHead, given_labels, make_head
from gspen_ner.hosts.flair.accelerate import speed_up_encoder
from gspen_ner.hosts.flair.chain import ChainDecoder, ChainLoss, ChainView, EmissionScores
from gspen_ner.hosts.flair.copies import arguments_of, configuration_of_old, share_weights
from gspen_ner.hosts.flair.scores import KeptScores, split
from gspen_ner.hosts.flair.sentences import as_tagged, batches_of, context_of, spans_of
from gspen_ner.labels import Scheme, tags_of_spans
from gspen_ner.ner.calibration import CalibrationErrors, calibrate
from gspen_ner.ner.confidence import Confidences
from gspen_ner.ner.metrics import ConllScore, conll_f1
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain
from gspen_ner.solvers import Solver
from gspen_ner.terms import TERMS, Context, GlobalTerm, PaddedMLP
from gspen_ner.training.system import Scored, System

Term = GlobalTerm | Callable[..., GlobalTerm]
MOST_SENTENCES = 64  # sentences that are inferred together, at most, whole documents excepted


class GSPENTagger(System, SequenceTagger):
    """A sequence tagger that scores whole label sequences, or whole documents.

    Args:
        embeddings, tag_dictionary, tag_type, *args, **kwargs: arguments of `SequenceTagger`.
        term: the global term, a registered class such as `DocumentConsistency` or
            `partial(PaddedMLP, max_length=50)`, or a function that makes it from the number of tags; by
            default the padded MLP.
        solver: the algorithm of inference; defaults to the solver of `GSPENHead`.
        cost: weight of the Hamming cost in training; defaults to the cost of `GSPENHead`.
        inference: more options of `GSPENHead`: temperature, loss, max_steps, tolerance, ...
        constraints: forbid tag sequences that the tag format forbids; Flair's CRF learns that by itself.
        head: a complete head, in place of term, solver, cost and inference.

    Example:
        >>> from flair.data import Dictionary, Sentence
        >>> from flair.embeddings import OneHotEmbeddings
        >>> from gspen_ner import DocumentConsistency
        >>> words, kinds = Dictionary(), Dictionary(add_unk=False)
        >>> numbers = [words.add_item("Ann"), kinds.add_item("PER")]
        >>> tagger = SequenceTagger(OneHotEmbeddings(words, embedding_length=4), kinds, "ner", hidden_size=4)
        >>> upgraded = GSPENTagger.from_sequence_tagger(tagger, DocumentConsistency, freeze="base")
        >>> [name for name, weight in upgraded.named_parameters() if weight.requires_grad]
        ['head.term.agreement', 'head.term.support']
        >>> sentence = Sentence("Ann left", use_tokenizer=False)
        >>> upgraded.predict(sentence)  # its spans, if any, have confidences
    """

    keep_documents_together = (
        'read the corpus with document_separator_token="-DOCSTART-" and train with '
        "plugins=[DocumentBatches()]"
    )
    forward = SequenceTagger.forward  # type: ignore[assignment]

    def __init__(
        self,
        embeddings: Any,
        tag_dictionary: Dictionary,
        tag_type: str,
        *args: Any,
        term: Term | None = None,
        solver: Solver | None = None,
        cost: float | None = None,
        inference: Mapping[str, Any] | None = None,
        constraints: bool = False,
        head: GSPENHead | None = None,
        **kwargs: Any,
    ) -> None:
        SequenceTagger.__init__(self, embeddings, tag_dictionary, tag_type, *args, **kwargs)
        if not self.use_crf:
            raise ValueError("a global term needs the CRF: leave use_crf=True")
        self.constraints = constraints
        self.view = ChainView(self, constraints)
        if head is None:
            options = {"solver": solver, "cost": cost}
            named: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
            head = GSPENHead(_make_term(term, self.view.names), **named, **(inference or {}))
        self.head = head.to(self.linear.weight.device)
        self.add_module("crf", EmissionScores(self.crf))
        self.loss_function = cast(Any, ChainLoss(self.view))  # Flair reports it for held-out data
        self.decoder = ChainDecoder(self.view, self._theta)
        self.viterbi_decoder = cast(Any, self.decoder)
        speed_up_encoder(self)
        self.kept_scores = KeptScores()

    def forward_loss(self, sentences: list[Sentence]) -> tuple[Tensor, int]:
        """Return the loss of a batch and its number of tokens, for Flair's trainer."""
        sentences = sorted((sentence for sentence in sentences if len(sentence)), key=len, reverse=True)
        if not sentences:
            return torch.tensor(0.0, requires_grad=True, device=self.linear.weight.device), 0
        gold = self._prepare_label_tensor(sentences)
        scored = self.score(sentences)
        labels = self.view.gold(gold, cast(Chain, scored.polytope).lengths)
        loss = self.losses(scored, labels).loss.sum()
        return loss.to(scored.potentials.nodes.dtype), len(gold)

    def predict(
        self,
        sentences: Any,
        mini_batch_size: int = 32,
        return_probabilities_for_all_classes: bool = False,
        verbose: bool = False,
        label_name: str | None = None,
        return_loss: bool = False,
        embedding_storage_mode: Any = "none",
        force_token_predictions: bool = False,
    ) -> Any:
        """Tag sentences, with Flair's arguments.

        Confidences of spans are those that `calibrate` has fitted or, before, exact probabilities. If the
        term scores documents, their sentences are inferred together.
        """
        self.decoder.scores_of = "tokens" if force_token_predictions else "spans"
        options = {
            "return_probabilities_for_all_classes": return_probabilities_for_all_classes,
            "verbose": verbose,
            "label_name": label_name,
            "return_loss": return_loss,
            "embedding_storage_mode": embedding_storage_mode,
            "force_token_predictions": force_token_predictions,
        }
        if not sentences or not self.couples_documents:
            return super().predict(sentences, mini_batch_size, **options)
        given = [s for s in ([sentences] if isinstance(sentences, Sentence) else sentences) if len(s)]
        if not given:
            return super().predict(given, mini_batch_size, **options)
        Sentence.set_context_for_sentences(given)
        batches = batches_of(given, min(mini_batch_size, MOST_SENTENCES), by_document=True)
        results = [super(GSPENTagger, self).predict(batch, len(batch), **options) for batch in batches]
        if not return_loss:
            return None
        return sum(loss for loss, _ in results), sum(count for _, count in results)

    def evaluate(
        self,
        data_points: Any,
        gold_label_type: str,
        out_path: Any = None,
        embedding_storage_mode: Any = "none",
        mini_batch_size: int = 32,
        *args: Any,
        **kwargs: Any,
    ) -> Result:
        """Return Flair's evaluation; if the term scores documents, they are not cut into batches."""
        if self.couples_documents:
            mini_batch_size = max(len(data_points), 1)
        options = (out_path, embedding_storage_mode, mini_batch_size, *args)
        return super().evaluate(data_points, gold_label_type, *options, **kwargs)

    def seqeval_score(self, sentences: list[Sentence], gold_label_type: str | None = None) -> ConllScore:
        """Return CoNLL F1 by seqeval in strict mode, of sentences with gold labels.

        Flair's `evaluate` reads spans leniently from the predicted tags (a stray I- opens one); seqeval in
        strict mode counts a span only if its tags are legal in the format. On legal tags, which
        `constraints=True` guarantees, both agree.
        """
        scheme, gold_layer = cast(Scheme, self.tag_format), gold_label_type or self.tag_type
        sentences, layer = list(sentences), "gspen_seqeval"
        self.predict(sentences, label_name=layer, force_token_predictions=True)
        gold = [
            tags_of_spans([entity.span for entity in spans_of(sentence, gold_layer)], len(sentence), scheme)
            for sentence in sentences
        ]
        predicted = [[token.get_label(layer).value for token in sentence] for sentence in sentences]
        for sentence in sentences:
            sentence.remove_labels(layer)
        return conll_f1(gold, predicted, scheme)

    @property
    def confidences(self) -> Confidences | None:
        """How sure it is of its spans; None gives their exact probabilities under the model."""
        return self.decoder.confidences

    @confidences.setter
    def confidences(self, confidences: Confidences | None) -> None:
        self.decoder.confidences = confidences

    def calibrate(self, sentences: Sequence[Sentence]) -> list[CalibrationErrors]:
        """Fit confidences on sentences with gold labels that it was not trained on; see `calibrate`."""
        from gspen_ner.hosts.flair.prediction import FlairTagger  # which imports this module

        return calibrate(FlairTagger(self), as_tagged(sentences, self.tag_type))

    def score(self, inputs: list[Sentence] | Scored) -> Scored:
        """Return the scores of sentences, longest first; of a frozen base model each sentence's only once."""
        if isinstance(inputs, Scored):
            return inputs
        if self.base_frozen and self.training:
            missing = self.kept_scores.missing(inputs)
            if missing:
                with torch.no_grad():
                    self.kept_scores.add(split(missing, *self.view.score(self, missing)))
            return self._with_context(*self.kept_scores.of(inputs), inputs)
        return self._with_context(*self.view.score(self, inputs), inputs)

    def unfreeze(self) -> GSPENTagger:
        """Let training change the base model again."""
        self.kept_scores.clear()
        return super().unfreeze()

    def _theta(self, potentials: Parts, chain: Chain, sentences: list[Sentence]) -> Parts:
        return self.infer(self._with_context(potentials, chain, sentences)).theta

    def _with_context(self, potentials: Parts, chain: Chain, sentences: Sequence[Sentence]) -> Scored:
        mask = chain.mask(potentials.nodes.shape[1])
        context = context_of(sentences, mask) if self.couples_documents else Context(mask)
        return Scored(potentials, chain, context)

    @classmethod
    def from_sequence_tagger(
        cls,
        tagger: SequenceTagger,
        term: Term | None = None,
        *,
        tag_dictionary: Dictionary | None = None,
        freeze: Literal["base", "none"] = "none",
        **options: Any,
    ) -> GSPENTagger:
        """Return a tagger with a global term over the CRF of a trained tagger.

        Both share their weights. The new tagger starts with the predictions of the old one, and speeds up the
        encoder that they share.

        Args:
            tagger: a `SequenceTagger` with a CRF.
            term: the global term, or a function that makes it; see this class.
            tag_dictionary: another set of labels; the encoder and the weights of known tags are kept.
            freeze: `"base"` trains the term alone, `"none"` (default) everything; `train_term` also makes
                scores from which a term learns more.
            **options: solver, cost, inference, constraints, head.
        """
        if not tagger.use_crf:
            raise ValueError(
                "the tagger has no CRF for a global term to stand on: train it with use_crf=True, or start a "
                "GSPENTagger with its embeddings"
            )
        arguments = arguments_of(tagger)
        if tag_dictionary is None:
            arguments["init_from_state_dict"] = True  # the dictionary is Flair's internal one already
        else:
            arguments["tag_dictionary"] = tag_dictionary
        upgraded = cls(**arguments, term=term, **options)
        share_weights(tagger, upgraded)
        speed_up_encoder(upgraded)
        if freeze == "base":
            upgraded.freeze()
        return upgraded.train(tagger.training)

    def to_sequence_tagger(self) -> SequenceTagger:
        """Return the plain CRF tagger, which shares the weights."""
        plain = SequenceTagger(**arguments_of(self), init_from_state_dict=True)
        share_weights(self, plain)
        return plain.train(self.training)

    def _get_state_dict(self) -> dict[str, Any]:
        """Return Flair's own state, with the head beside it: Flair reads such a file as the plain CRF."""
        state = super()._get_state_dict()
        weights = state["state_dict"]
        state["state_dict"] = {name: w for name, w in weights.items() if not name.startswith("head.")}
        state["bidirectional"] = self.bidirectional
        state["gspen"] = self.head.configuration() | {
            "weights": self.head.state_dict(),
            "constraints": self.constraints,
            "confidences": None if self.confidences is None else self.confidences.model_dump(),
        }
        return state

    @classmethod
    def _init_model_with_state_dict(cls, state: dict[str, Any], **kwargs: Any) -> GSPENTagger:
        if "gspen" not in state:
            raise ValueError(
                "this is a file of a plain SequenceTagger: load it with SequenceTagger.load and pass it to "
                "GSPENTagger.from_sequence_tagger"
            )
        saved = state["gspen"]
        if "head" in saved:  # a file of version 0.1, which holds the head as an object
            saved = saved | configuration_of_old(saved["head"]) | {"weights": saved["head"].state_dict()}
        names = [tag for tag in state["tag_dictionary"].get_items() if tag not in (START_TAG, STOP_TAG)]
        head = make_head(saved["terms"], saved["inference"], **given_labels(names))
        weights = {f"head.{name}": weight for name, weight in saved["weights"].items()}
        tagger = cast(
            GSPENTagger,
            super()._init_model_with_state_dict(
                state | {"state_dict": state["state_dict"] | weights},
                bidirectional=state["bidirectional"],
                head=head,
                constraints=saved["constraints"],
                **kwargs,
            ),
        )
        if saved.get("confidences") is not None:
            tagger.confidences = Confidences.read(saved["confidences"])
        return tagger


def _make_term(term: Term | None, names: Sequence[str]) -> GlobalTerm:
    if isinstance(term, GlobalTerm):
        return term
    term = PaddedMLP if term is None else term
    made_by = term.func if isinstance(term, functools.partial) else term
    if made_by in TERMS.classes.values():
        return term(**given_to(made_by, given_labels(names)))
    return term(len(names))
