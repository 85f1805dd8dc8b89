"""The one `PreTrainedModel`: an encoder's potentials, and a GSPEN head over them.

    inputs -> scorer -> potentials (or cached ones) -> head, if there is one -> loss, or theta to decode

Four systems are one model: `unary` (no transitions, no term), `struct` (the CRF), `spen` (a term without
transitions) and `gspen` (both). The scorer is the BiLSTM-CNN or any transformer. Whatever the scorer and its
precision, the chain and the term compute in float32.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.modeling_outputs import ModelOutput

from gspen_ner.head import at_least_single, make_head
from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.making import MadeModel
from gspen_ner.hosts.huggingface.piece_layout import PieceLayout
from gspen_ner.hosts.huggingface.piece_scorer import PieceScorer
from gspen_ner.hosts.huggingface.readers import Reader
from gspen_ner.hosts.lone_sentences import stand_alone
from gspen_ner.losses import negative_log_likelihood
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import BiLSTMCNN
from gspen_ner.solvers import Solution
from gspen_ner.terms import RELATIONS, Context

logger = logging.getLogger(__name__)


@dataclass
class TaggingOutput(ModelOutput):
    """What `forward` gives; logits are the logarithms of the marginals."""

    loss: Float[Tensor, ""] | None = None
    logits: Float[Tensor, "B T L"] | None = None
    negative: Float[Tensor, ""] | None = None
    """Share of the batch whose hinge was negative: inference ended below the gold labels."""
    steps: Float[Tensor, ""] | None = None
    """Mean number of inference steps."""


class Inferred(NamedTuple):
    """Scores of chains, to decode: of the base model alone, and with the global term."""

    base: Parts
    theta: Parts
    chain: Chain
    solution: Solution | None


class GSPENForTokenClassification(MadeModel):
    """A tagger with exact chain inference and, if its system has one, a global term.

    It is made by `from_encoder` (a pretrained transformer), `from_token_classifier` (a fine-tuned one),
    `from_vocabulary` (a new BiLSTM-CNN), `from_pretrained` (one of its own), or from a configuration.

    Its logits are the logarithms of BIO marginals, so that the token-classification pipeline gives true
    confidences. `Tagger` remains the reference; the pipeline differs from it in that

    - it takes the likeliest label of each piece by itself, not the likeliest labelling (Viterbi);
    - its score of an entity is the mean of those of its pieces, not the probability of the entity;
    - it splits words as the tokenizer does ("U.S." is four), not as the training data did;
    - it knows no documents: a document term has nothing to say.

    A document term needs the sentences of a document in one batch: train with `DocumentTrainer`. A plain
    Trainer deals sentences out one by one, and only a batch without any two of a document gives that away.

    Args:
        config: what to make.
        reader: makes the scorer's inputs of words; saved and loaded with the model.

    Example:
        A small BiLSTM-CNN with random weights; most will rather use `from_encoder`.

        >>> from gspen_ner import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> with_term = model.with_terms(["document"])
        >>> with_term.config.system, with_term.couples_documents
        ('gspen', True)
    """

    base_model_prefix = "scorer"
    accepts_loss_kwargs = False  # the loss is a mean over the batch: Trainer must not rescale it

    def __init__(self, config: GSPENConfig, reader: Reader | None = None) -> None:
        super().__init__(config)
        self.labels, self.bio, self.reader = config.labels(), config.bio_view(), reader
        if config.encoder is None:
            self.scorer = BiLSTMCNN(self.labels, **config.scorer)
        else:
            self.scorer = PieceScorer(
                self.labels, config.encoder, transitions=config.has_transitions, **config.scorer
            )
            tied = getattr(self.scorer.encoder, "_tied_weights_keys", None) or []
            names = [f"scorer.encoder.{name}" for name in tied]  # for transformers 4; 5 asks the scorer
            self._tied_weights_keys = names  # type: ignore[assignment]
        self.main_input_name = self.scorer.inputs[0]
        labels = len(self.labels.names)
        self.head = make_head(labels, config.terms, config.inference) if config.has_term else None
        self.base_frozen = False
        self._warned = False
        # transformers asks for names of modules, wherever they are; "term" is the head's
        present = {"crf": self.scorer.crf is not None, "term": self.head is not None}
        kept = {name for name, there in present.items() if there}
        self._keep_in_fp32_modules_strict = kept  # type: ignore[assignment]
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Every module has drawn its own weights already."""

    def floating_point_ops(self, *args: Any, **kwargs: Any) -> int:
        """Not counted; Trainer would warn that it cannot."""
        return 0

    @property
    def couples_documents(self) -> bool:
        """Whether the term scores documents as a whole, so that their sentences must share a batch."""
        return self.head is not None and self.head.couples_documents

    def freeze_base(self) -> None:
        """Train the term alone: the scorer learns nothing and its dropout is off."""
        self.base_frozen = True
        self.scorer.requires_grad_(False)

    def train(self, mode: bool = True) -> GSPENForTokenClassification:
        super().train(mode)
        if self.base_frozen:
            self.scorer.eval()
        return self

    def forward(
        self,
        input_ids: Int[Tensor, "B S"] | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        word_starts: Bool[Tensor, "B S"] | None = None,
        words: Int[Tensor, "B T"] | None = None,
        spellings: Int[Tensor, "U C"] | None = None,
        spelling_at: Int[Tensor, "B T"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
        nodes: Float[Tensor, "B T L"] | None = None,
        edges: Float[Tensor, "B E L L"] | None = None,
        documents: Int[Tensor, " B"] | None = None,
        mentions: Int[Tensor, "B T R"] | None = None,
        labels: Int[Tensor, "B T"] | None = None,
    ) -> TaggingOutput:
        """The loss if labels are given; in evaluation mode, or without labels, the log marginals too.

        `Collator` makes the inputs of words: for a transformer `input_ids`, `attention_mask` and
        `word_starts`, for the BiLSTM-CNN `words`, `spellings` and `spelling_at`, or potentials that were
        computed before (`nodes`, and `edges` where they are not the model's shared table); besides
        `lengths`, and `documents` and `mentions` for document terms. Labels and logits then go by words.

        A transformer also takes the usual inputs of token classification, `input_ids` and `attention_mask`
        alone. Labels and logits then go by pieces: words are the pieces whose label is not -100 or, without
        labels, what the tokenizer's marks tell. All pieces of a word have its marginals, with B- turned into
        I- behind the first. `labels` are always numbers of `config.id2label`.
        """
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        given |= {"word_starts": word_starts, "words": words, "spellings": spellings}
        given |= {"spelling_at": spelling_at, "lengths": lengths, "nodes": nodes, "edges": edges}
        given |= {"documents": documents, "mentions": mentions}
        batch = {name: value for name, value in given.items() if value is not None}
        pieces = None
        if "lengths" not in batch:
            pieces = self._pieces(batch, labels)
            batch |= {"word_starts": pieces.starts, "lengths": pieces.lengths}
            labels = None if labels is None else pieces.by_words(labels, self.bio)
        potentials, polytope = self.potentials(batch)
        with torch.autocast(potentials.nodes.device.type, enabled=False):
            found = self._losses(batch, potentials, polytope, labels)
            if labels is None or not self.training:
                marginals = self._marginals(batch, potentials, polytope)
                if pieces is not None:
                    marginals = pieces.by_pieces(marginals, self.bio)
                found["logits"] = marginals.log()
        return TaggingOutput(**found)  # what is set later is not among its keys

    def _pieces(self, batch: dict[str, Tensor], labels: Tensor | None) -> PieceLayout:
        if "input_ids" not in batch or not isinstance(self.scorer, PieceScorer):
            raise ValueError(f"expected the inputs that Collator.of(model) makes, got {sorted(batch)}")
        ids = batch["input_ids"]
        attended = batch.setdefault("attention_mask", torch.ones_like(ids))
        return PieceLayout.of(self.scorer.piece_kinds[ids], attended, labels)

    def _losses(
        self, batch: dict[str, Tensor], potentials: Parts, polytope: Polytope, labels: Tensor | None
    ) -> dict[str, Tensor]:
        if labels is None:
            return {}
        gold = self.bio.to_chain(labels, batch["lengths"])
        if self.head is None:
            return {"loss": negative_log_likelihood(potentials, polytope, gold).mean().float()}
        if self.couples_documents and "mentions" not in batch:
            raise ValueError(
                "the model's term scores documents, of which pieces with labels say nothing: train and "
                "evaluate it with DocumentTrainer and Collator.of(model), on rows of tokens"
            )
        context = _context(batch, polytope, potentials)
        if self.couples_documents and self.training:
            self._warn_of_lone_sentences(context)
        result = self.head.loss(potentials, polytope, gold, context)
        return {
            "loss": result.loss.mean().float(),
            "negative": result.negative.float().mean(),
            "steps": result.solution.steps.float().mean(),
        }

    def _warn_of_lone_sentences(self, context: Context) -> None:
        """Say once that a document term has nothing to learn from sentences that stand alone."""
        if self._warned or not stand_alone(context.documents):
            return
        self._warned = True
        logger.warning(
            "the global term couples the sentences of a document, but each of this batch stands alone: give "
            "the rows a column document, equal for the sentences of one, and train with DocumentTrainer, "
            "which keeps them together (a plain Trainer does not)"
        )

    def _marginals(
        self, batch: dict[str, Tensor], potentials: Parts, polytope: Polytope
    ) -> Float[Tensor, "B T K"]:
        """Probabilities of the BIO labels of each word."""
        solution = self._solution(batch, potentials, polytope)
        marginals = polytope.marginals(potentials) if solution is None else solution.marginals
        return self.bio.marginals(marginals.nodes)

    def potentials(self, batch: dict[str, Tensor]) -> tuple[Parts, Polytope]:
        """Scores of a collated batch in float32, computed or, if it brings them along, as they are."""
        if "nodes" not in batch:
            inputs = {name: batch[name] for name in self.scorer.inputs if name in batch}
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.base_frozen):
                potentials, polytope = self.scorer(**inputs)
            return potentials.map(at_least_single), polytope
        nodes, lengths = batch["nodes"], batch["lengths"]
        if self.scorer.crf is None:
            return Parts(nodes), Simplex(Chain(lengths).mask(nodes.shape[1]))
        table = batch["edges"] if "edges" in batch else self.scorer.crf.transition_scores()[1]
        return Parts(nodes, table), Chain(lengths)

    @torch.no_grad()
    def infer(self, batch: dict[str, Tensor], record_trace: bool = False) -> Inferred:
        """Scores to decode, by themselves and with the global term, as chains that obey the scheme."""
        potentials, polytope = self.potentials(batch)
        potentials = potentials.map(Tensor.detach)  # transitions may be the parameters themselves
        solution = self._solution(batch, potentials, polytope, record_trace)
        chain = Chain(batch["lengths"])
        base = self._as_chain(potentials, chain)
        theta = base if solution is None else self._as_chain(solution.theta, chain)
        return Inferred(base, theta, chain, solution)

    def _solution(
        self, batch: dict[str, Tensor], potentials: Parts, polytope: Polytope, record_trace: bool = False
    ) -> Solution | None:
        if self.head is None:
            return None
        if self.couples_documents and "mentions" not in batch:  # from a pipeline, which knows of no documents
            alone = torch.arange(len(potentials.nodes), device=potentials.nodes.device)
            nowhere = alone.new_full((*potentials.nodes.shape[:2], len(RELATIONS)), -1)
            batch = batch | {"documents": alone, "mentions": nowhere}
        with torch.autocast(potentials.nodes.device.type, enabled=False):
            context = _context(batch, polytope, potentials)
            return self.head.infer(potentials, polytope, context, record_trace)

    def _as_chain(self, theta: Parts, chain: Chain) -> Parts:
        """Scores without transitions get a table that only forbids what the scheme forbids."""
        if theta.edges is not None:
            return theta
        start, table, end = (
            torch.zeros_like(allowed, dtype=theta.nodes.dtype).masked_fill(~allowed, -torch.inf)
            for allowed in (part.to(theta.nodes.device) for part in self.labels.legal)
        )
        return chain.potentials(theta.nodes, table, start, end)


def load_model(folder: Path) -> GSPENForTokenClassification:
    """A model from its folder, or an error that says what is wrong with it.

    Unlike `from_pretrained`, it refuses weights that are missing or do not fit instead of drawing new ones.
    """
    model, report = GSPENForTokenClassification.from_pretrained(
        folder, output_loading_info=True, ignore_mismatched_sizes=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ValueError(
                f"{folder}: the weights do not fit config.json: {kind} {sorted(report[kind])[:5]}"
            )
    return model


def _context(batch: dict[str, Tensor], polytope: Polytope, potentials: Parts) -> Context:
    mask = polytope.mask(potentials.nodes.shape[1])
    return Context(mask, batch.get("documents"), batch.get("mentions"))
