"""The one `PreTrainedModel`: an encoder's potentials, and a GSPEN head over them.

    inputs -> scorer -> potentials (or cached ones) -> head, if there is one -> loss, or theta to decode

Four systems are one model: `unary` (no transitions, no term), `struct` (the CRF), `spen` (a term without
transitions) and `gspen` (both). The scorer is the BiLSTM-CNN or any transformer. Whatever the scorer and its
precision, the chain and the term compute in float32.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import ModelOutput

from gspen_ner.head import at_least_single, make_head
from gspen_ner.hosts.huggingface.config import GSPENConfig, System
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.piece_layout import PieceLayout
from gspen_ner.hosts.huggingface.piece_scorer import PieceScorer
from gspen_ner.hosts.huggingface.pretrained import (
    chain_labels,
    load_classifier,
    load_encoder,
    move_in,
    term_entries,
)
from gspen_ner.hosts.huggingface.readers import HUB_OPTIONS, Reader, load_reader
from gspen_ner.labels import Scheme
from gspen_ner.losses import negative_log_likelihood
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import BiLSTMCNN
from gspen_ner.solvers import Solution
from gspen_ner.terms import Context


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


class GSPENForTokenClassification(PreTrainedModel):
    """A tagger with exact chain inference and, if its system has one, a global term.

    It is made by `from_encoder` (a pretrained transformer), `from_token_classifier` (a fine-tuned one),
    `from_pretrained` (one of its own), or from a configuration.

    Its logits are the logarithms of BIO marginals, so that the token-classification pipeline gives true
    confidences. `Tagger` remains the reference; the pipeline differs from it in that

    - it takes the likeliest label of each piece by itself, not the likeliest labelling (Viterbi);
    - its score of an entity is the mean of those of its pieces, not the probability of the entity;
    - it splits words as the tokenizer does ("U.S." is four), not as the training data did;
    - it knows no documents: a document term has nothing to say.

    Args:
        config: what to make.
        reader: makes the scorer's inputs of words; saved and loaded with the model.

    Example:
        model = GSPENForTokenClassification.from_encoder(
            "bert-base-cased", dataset.features["ner_tags"].feature.names, terms=["document"]
        )
        trainer = DocumentTrainer(model, args, data_collator=Collator.of(model), train_dataset=dataset)
    """

    config_class = GSPENConfig
    config: GSPENConfig
    base_model_prefix = "scorer"
    accepts_loss_kwargs = False  # the loss is a mean over the batch: Trainer must not rescale it

    def __init__(self, config: GSPENConfig, reader: Reader | None = None) -> None:
        super().__init__(config)
        self.labels, self.bio, self.reader = config.labels(), config.bio_view(), reader
        self.scorer: BiLSTMCNN | PieceScorer
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
    ) -> GSPENForTokenClassification:
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
    ) -> GSPENForTokenClassification:
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

    def with_terms(
        self, terms: Sequence[str | Mapping[str, Any]], inference: Mapping[str, Any] | None = None
    ) -> GSPENForTokenClassification:
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

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Write config.json, safetensors, the tokenizer (or vocabulary.json) and a model card."""
        if kwargs.pop("push_to_hub", False):
            raise ValueError("save first, then call push_to_hub, which uploads tokenizer and model card too")
        super().save_pretrained(save_directory, *args, **kwargs)
        if not kwargs.get("is_main_process", True):
            return
        folder = Path(save_directory)
        if self.reader is not None:
            self.reader.save(folder)
        (folder / "README.md").write_text(model_card(self.config), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.keys() & {"system", "terms"}:
            raise ValueError("from_pretrained loads a model as it is: give it other terms by with_terms")
        if "reader" not in kwargs:
            where = {option: kwargs[option] for option in HUB_OPTIONS if option in kwargs}
            config = kwargs.get("config") or GSPENConfig.from_pretrained(name, **where)
            kwargs["reader"] = load_reader(name, config, **where)
        return super().from_pretrained(name, *args, **kwargs)

    def push_to_hub(  # type: ignore[override]
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | bool | None = None,
        commit_message: str = "Upload model",
        **options: Any,
    ) -> Any:
        """Upload what `save_pretrained` writes, with its model card (transformers would put another there).

        Args:
            repo_id: `"user/name"`; made if needed.
            private: whether a new repository is.
            token: of the hub.
            commit_message: of the upload.
            options: of `HfApi.upload_folder`, such as `revision` and `create_pr`.
        """
        api = HfApi(token=token)
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=commit_message, **options
            )

    @property
    def couples_documents(self) -> bool:
        """Whether the term scores documents as a whole, so that their sentences must share a batch."""
        one = Context(torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
        return self.head is not None and self.head.term.groups(one) is not None

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
        mentions: Int[Tensor, "B T"] | None = None,
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
        result = self.head.loss(potentials, polytope, gold, _context(batch, polytope, potentials))
        return {
            "loss": result.loss.mean().float(),
            "negative": result.negative.float().mean(),
            "steps": result.solution.steps.float().mean(),
        }

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
    def infer(self, batch: dict[str, Tensor]) -> Inferred:
        """Scores to decode, by themselves and with the global term, as chains that obey the scheme."""
        potentials, polytope = self.potentials(batch)
        potentials = potentials.map(Tensor.detach)  # transitions may be the parameters themselves
        solution = self._solution(batch, potentials, polytope)
        chain = Chain(batch["lengths"])
        base = self._as_chain(potentials, chain)
        theta = base if solution is None else self._as_chain(solution.theta, chain)
        return Inferred(base, theta, chain, solution)

    def _solution(self, batch: dict[str, Tensor], potentials: Parts, polytope: Polytope) -> Solution | None:
        if self.head is None:
            return None
        if self.couples_documents and "mentions" not in batch:  # from a pipeline, which knows of no documents
            alone = torch.arange(len(potentials.nodes), device=potentials.nodes.device)
            nowhere = alone.new_full(potentials.nodes.shape[:2], -1)
            batch = batch | {"documents": alone, "mentions": nowhere}
        with torch.autocast(potentials.nodes.device.type, enabled=False):
            return self.head.infer(potentials, polytope, _context(batch, polytope, potentials))

    def _as_chain(self, theta: Parts, chain: Chain) -> Parts:
        """Scores without transitions get a table that only forbids what the scheme forbids."""
        if theta.edges is not None:
            return theta
        start, table, end = (
            torch.zeros_like(allowed, dtype=theta.nodes.dtype).masked_fill(~allowed, -torch.inf)
            for allowed in (part.to(theta.nodes.device) for part in self.labels.legal)
        )
        return chain.potentials(theta.nodes, table, start, end)


def _system(transitions: bool, term: bool) -> System:
    if transitions:
        return "gspen" if term else "struct"
    return "spen" if term else "unary"


def load_model(folder: Path) -> GSPENForTokenClassification:
    """A model from its folder, or an error that says what is wrong with it.

    Unlike `from_pretrained`, it refuses weights that are missing or do not fit instead of drawing new ones.
    """
    try:
        model, report = GSPENForTokenClassification.from_pretrained(
            folder, output_loading_info=True, ignore_mismatched_sizes=True
        )
    except (OSError, RuntimeError, SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: not a model that can be read: {error}") from None
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ValueError(
                f"{folder}: the weights do not fit config.json: {kind} {sorted(report[kind])[:5]}"
            )
    return model


def _context(batch: dict[str, Tensor], polytope: Polytope, potentials: Parts) -> Context:
    mask = polytope.mask(potentials.nodes.shape[1])
    return Context(mask, batch.get("documents"), batch.get("mentions"))
