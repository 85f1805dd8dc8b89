"""The `PreTrainedModel`: a scorer's potentials, and a GSPEN head over them.

    inputs -> scorer -> potentials (or cached ones) -> head -> loss, log marginals, or scores to decode

Four systems are one class: `unary` (no transitions, no term), `struct` (the CRF), `spen` (a term without
transitions) and `gspen` (both). The scorer is the BiLSTM-CNN or any transformer. Whatever the scorer and its
precision, the chain and the term compute in float32.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from huggingface_hub import HfApi
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import ModelOutput

from gspen_ner.head import GSPENHead, at_least_single, given_labels, make_head
from gspen_ner.hosts.huggingface.config import GSPENConfig, Terms, chain_labels
from gspen_ner.hosts.huggingface.encoder import PieceScorer, Pretrained, load_classifier, load_encoder
from gspen_ner.hosts.huggingface.folder_checks import check_folder, refuse_larger, size_limit
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.pieces import HUB_OPTIONS, PieceLayout, Reader, WordReader, load_reader
from gspen_ner.labels import SCHEME, Scheme
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import BiLSTMCNN, Vocabulary
from gspen_ner.terms import RELATIONS
from gspen_ner.training.system import Inference, Scored, System, context_of


@dataclass
class TaggingOutput(ModelOutput):
    """Output of `forward`; logits are the logarithms of the marginals."""

    loss: Float[Tensor, ""] | None = None
    logits: Float[Tensor, "B T L"] | None = None
    negative: Float[Tensor, ""] | None = None
    """Share of the batch whose hinge was negative: inference ended below the gold labels."""
    steps: Float[Tensor, ""] | None = None
    """Mean number of inference steps."""


class GSPENForTokenClassification(System, PreTrainedModel):
    """A tagger with exact chain inference and, if its system has one, a global term.

    Create it with `from_encoder` (a pretrained transformer), `from_token_classifier` (a fine-tuned one),
    `from_vocabulary` (a new BiLSTM-CNN), `from_pretrained` (a saved model of this class), or from a
    configuration.

    Its logits are the logarithms of BIO marginals, so that the token-classification pipeline gives
    probabilities of labels; of a calibrated model (see `calibrate`), with the exponent that fits held-out
    tokens best, and normalised. `Tagger` remains the reference; the pipeline differs from it in that

    - it takes the likeliest label of each piece by itself, not the likeliest labelling (Viterbi);
    - its score of an entity is the mean of its pieces' scores, not the probability of the entity;
    - it splits words as the tokenizer does ("U.S." is four), not as the training data did;
    - it does not see documents: a document term has no effect.

    A document term needs the sentences of a document in one batch: train with `DocumentTrainer`. A plain
    Trainer draws sentences one by one.

    Args:
        config: configuration of the model.
        reader: turns words into inputs of the scorer; saved and loaded with the model.
        encoder: the transformer with its weights; by default a new one of the configuration.
        largest: number of weights of the largest model that is not refused; by default without limit.

    Example:
        A small BiLSTM-CNN with random weights; most users will rather use `from_encoder`.

        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> with_term = model.with_terms(["document"])
        >>> with_term.config.system, with_term.couples_documents
        ('gspen', True)
    """

    config_class = GSPENConfig
    config: GSPENConfig
    scorer: BiLSTMCNN | PieceScorer
    base_model_prefix = "scorer"
    base_parts: ClassVar[Sequence[str]] = ("scorer",)
    accepts_loss_kwargs = False  # the loss is a mean over the batch: Trainer must not rescale it
    keep_documents_together = (
        "give the rows a column document, equal for the sentences of one, and train with DocumentTrainer, "
        "which keeps them together (a plain Trainer does not)"
    )

    def __init__(
        self,
        config: GSPENConfig,
        reader: Reader | None = None,
        encoder: nn.Module | None = None,
        largest: int | None = None,
    ) -> None:
        PreTrainedModel.__init__(self, config)
        self.labels, self.bio, self.reader = config.labels(), config.bio_view(), reader
        with refuse_larger(largest):
            if config.encoder is None:
                self.scorer = BiLSTMCNN(self.labels, **config.scorer)
            else:
                start, transitions = encoder or config.encoder, config.has_transitions
                self.scorer = PieceScorer(self.labels, start, transitions=transitions, **config.scorer)
                tied = getattr(self.scorer.encoder, "_tied_weights_keys", None) or []
                names = [f"scorer.encoder.{name}" for name in tied]  # for transformers 4; 5 asks the scorer
                self._tied_weights_keys = names  # type: ignore[assignment]
            self.head = GSPENHead(cost=0.0)
            if config.has_term:
                if not config.terms:
                    raise ValueError(f"system {config.system} needs at least one term, got none")
                self.head = make_head(config.terms, config.inference, **given_labels(self.labels.names))
                config.terms, config.inference = self.head.configuration().values()  # with all defaults
        self.main_input_name = self.scorer.inputs[0]
        # transformers asks for names of modules, wherever they are; "term" is the head's
        present = {"crf": self.scorer.crf is not None, "term": self.head.term is not None}
        kept = {name for name, is_present in present.items() if is_present}
        self._keep_in_fp32_modules_strict = kept  # type: ignore[assignment]
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: every module has drawn its own weights already."""

    def floating_point_ops(self, *args: Any, **kwargs: Any) -> int:
        """Return 0: operations are not counted, and Trainer would warn that it cannot."""
        return 0

    @property
    def context_tokens(self) -> int:
        """Number of pieces that are read before and after each sentence, at most; see `add_context`."""
        return self.scorer.context_tokens if isinstance(self.scorer, PieceScorer) else 0

    def forward(  # type: ignore[override]
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
        """Return the loss if labels are given; in evaluation mode, or without labels, the log marginals too.

        `Collator` makes the inputs of words: for a transformer `input_ids`, `attention_mask` and
        `word_starts`, for the BiLSTM-CNN `words`, `spellings` and `spelling_at`, or potentials that were
        computed before (`nodes`, and `edges` where they are not the model's shared table); besides,
        `lengths`, and `documents` and `mentions` for document terms. Labels and logits then belong to
        words.

        A transformer also takes the usual inputs of token classification, `input_ids` and `attention_mask`
        alone. Labels and logits then belong to pieces: words are the pieces whose label is not -100 or,
        without labels, the pieces that begin a word by the tokenizer's marks. All pieces of a word have its
        marginals, with B- turned into I- after the first. `labels` are always numbers of `config.id2label`.
        """
        given = {
            "input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids,
            "word_starts": word_starts, "words": words, "spellings": spellings, "spelling_at": spelling_at,
            "lengths": lengths, "nodes": nodes, "edges": edges, "documents": documents, "mentions": mentions,
        }  # fmt: skip
        batch = {name: value for name, value in given.items() if value is not None}
        pieces = None
        if "lengths" not in batch:
            pieces = self._pieces(batch, labels)
            batch |= {"word_starts": pieces.starts, "lengths": pieces.lengths}
            labels = None if labels is None else pieces.by_words(labels, self.bio)
        if labels is not None and self.couples_documents and "mentions" not in batch:
            raise ValueError(
                "the model's term scores documents, which labels of pieces do not show: train and "
                "evaluate it with DocumentTrainer and Collator.of(model), on rows of tokens"
            )
        scored, output = self.score(batch), TaggingOutput()
        with torch.autocast(scored.potentials.nodes.device.type, enabled=False):
            if labels is not None:
                loss, steps, negative = self.loss(scored, self.bio.to_chain(labels, batch["lengths"]))
                output = TaggingOutput(loss=loss.float(), negative=negative, steps=steps)
            if labels is None or not self.training:
                marginals = self.bio.marginals(self.marginals(scored))
                if pieces is not None:
                    marginals = pieces.by_pieces(marginals, self.bio)
                output["logits"] = self._tempered(marginals.log())
        return output

    def _tempered(self, logits: Float[Tensor, "B T L"]) -> Float[Tensor, "B T L"]:
        """Return log probabilities that are as sure as tokens are right, if the model is calibrated."""
        if self.config.confidences is None:
            return logits
        tempered = (self.config.confidences["tokens"] * logits).log_softmax(-1)
        return tempered.where((logits > -torch.inf).any(-1, keepdim=True), logits)  # padding has no label

    def _pieces(self, batch: dict[str, Tensor], labels: Tensor | None) -> PieceLayout:
        if "input_ids" not in batch or not isinstance(self.scorer, PieceScorer):
            raise ValueError(f"expected the inputs that Collator.of(model) makes, got {sorted(batch)}")
        ids = batch["input_ids"]
        attended = batch.setdefault("attention_mask", torch.ones_like(ids))
        return PieceLayout.of(self.scorer.piece_kinds[ids], attended, labels)

    def score(self, inputs: dict[str, Tensor] | Scored) -> Scored:
        """Return scores of a collated batch in float32, computed or, if the batch has them, as they are."""
        if isinstance(inputs, Scored):
            return inputs
        potentials, polytope = self._potentials(inputs)
        if self.couples_documents and "mentions" not in inputs:  # from a pipeline, which knows no documents
            alone = torch.arange(len(potentials.nodes), device=potentials.nodes.device)
            unrelated = alone.new_full((*potentials.nodes.shape[:2], len(RELATIONS)), -1)
            inputs = inputs | {"documents": alone, "mentions": unrelated}
        return Scored(potentials, polytope, context_of(inputs, potentials, polytope))

    def _potentials(self, batch: dict[str, Tensor]) -> tuple[Parts, Polytope]:
        if "nodes" not in batch:
            potentials, polytope = self.scorer(**{n: batch[n] for n in self.scorer.inputs if n in batch})
            return potentials.map(at_least_single), polytope
        nodes, lengths = batch["nodes"], batch["lengths"]
        if self.scorer.crf is None:
            return Parts(nodes), Simplex(Chain(lengths).mask(nodes.shape[1]))
        table = batch["edges"] if "edges" in batch else self.scorer.crf.transition_scores()[1]
        return Parts(nodes, table), Chain(lengths)

    @torch.no_grad()
    def infer(self, inputs: Any, record_trace: bool = False) -> Inference:
        """Return the scores of inputs before and after inference with the term."""
        scored = self.score(inputs)
        scored = scored._replace(potentials=scored.potentials.detach())  # transitions may be parameters
        with torch.autocast(scored.potentials.nodes.device.type, enabled=False):
            return super().infer(scored, record_trace)

    def infer_chains(self, batch: dict[str, Tensor], record_trace: bool = False) -> Inference:
        """Return what `infer` does, as scores of chains that obey the tagging scheme."""
        potentials, theta, _, solution = self.infer(batch, record_trace)
        chain = Chain(batch["lengths"])
        base = self._as_chain(potentials, chain)
        return Inference(base, base if solution is None else self._as_chain(theta, chain), chain, solution)

    def _as_chain(self, theta: Parts, chain: Chain) -> Parts:
        """Return scores whose transitions, if there are none, only forbid what the scheme forbids."""
        if theta.edges is not None:
            return theta
        start, table, end = (
            torch.zeros_like(allowed, dtype=theta.nodes.dtype).masked_fill(~allowed, -torch.inf)
            for allowed in (part.to(theta.nodes.device) for part in self.labels.legal)
        )
        return chain.potentials(theta.nodes, table, start, end)

    @classmethod
    def from_encoder(
        cls,
        name: str | Path,
        labels: Sequence[str],
        *,
        scheme: Scheme = SCHEME,
        transitions: bool = True,
        terms: Terms = (),
        inference: Mapping[str, Any] | None = None,
        window: int | None = None,
        context_tokens: int = 0,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> Self:
        """Return a new tagger on top of a pretrained encoder.

        Args:
            name: name of the encoder on the hub, or its folder.
            labels: the dataset's labels, in BIO and in its order:
                `dataset.features["ner_tags"].feature.names`.
            scheme: tagging scheme of the chain; logits and gold labels stay BIO.
            transitions: whether neighbouring labels are scored; without, each word is labelled by itself.
            terms: global terms.
            inference: options of `GSPENHead`.
            window: number of pieces that are read at once; by default the encoder's own limit.
            context_tokens: number of pieces of the document's neighbouring sentences that are read before and
                after each sentence, at most; default 0. Rows then need `add_context`; the pipeline, which
                knows no documents, reads each text without a context.
            tokenizer: tokenizer of the encoder; by default its own.
            options: options of the hub: `revision`, `token`, `cache_dir` and the like.
        """
        chain = chain_labels(labels, scheme)
        pretrained = load_encoder(name, len(chain.names), tokenizer, window, context_tokens, **options)
        entries = pretrained.entries | {"id2label": dict(enumerate(labels))}
        return cls._over(pretrained, GSPENConfig.of(chain, transitions, terms, inference, **entries))

    @classmethod
    def from_token_classifier(
        cls,
        name: str | Path,
        *,
        terms: Terms = (),
        inference: Mapping[str, Any] | None = None,
        constrained: bool = False,
        scheme: Scheme | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> Self:
        """Return a tagger that starts with the predictions of a fine-tuned softmax classifier.

        All transitions are zero and the term, if any, changes nothing yet: marginals are the classifier's
        probabilities, and the best labelling has its labels. (Entities are read from it strictly: an I- that
        continues nothing opens none. For a classifier that often breaks its scheme, set `constrained`.)
        Give transitions and term larger learning rates than the encoder's; see `parameter_groups`.

        Args:
            name: name of the classifier on the hub, or its folder.
            terms: global terms.
            inference: options of `GSPENHead`.
            constrained: whether what the classifier's scheme forbids (an I- that continues nothing) is
                forbidden from the start; predictions then differ wherever the classifier breaks its scheme.
            scheme: tagging scheme of the chain; by default the classifier's. With `"BIOES"`, which is always
                constrained, a BIO classifier's scores of B- are also those of S-, and those of I- of E-.
            tokenizer: tokenizer of the classifier; by default its own.
            options: options of the hub: `revision`, `token`, `cache_dir` and the like.
        """
        pretrained, labels = load_classifier(name, tokenizer, scheme, **options)
        pretrained.entries["scorer"]["constrained"] = constrained or labels.scheme == scheme == "BIOES"
        config = GSPENConfig.of(labels, True, terms, inference, **pretrained.entries)
        model = cls._over(pretrained, config)
        assert model.scorer.crf is not None
        for weight in model.scorer.crf.parameters():
            nn.init.zeros_(weight)
        return model

    @classmethod
    def _over(cls, pretrained: Pretrained, config: GSPENConfig) -> Self:
        model = cls(config, pretrained.reader, pretrained.encoder)
        assert isinstance(model.scorer, PieceScorer)
        model.scorer.piece_kinds.copy_(pretrained.kinds)
        return model

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        *,
        scheme: Scheme = SCHEME,
        terms: Terms = (),
        inference: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Return a new tagger on top of a BiLSTM-CNN, which knows only the words of its training data.

        Args:
            vocabulary: vocabulary of the training data.
            labels: the dataset's labels, in BIO and in its order.
            scheme: tagging scheme of the chain; logits and gold labels stay BIO.
            terms: global terms.
            inference: options of `GSPENHead`.
            options: other options of `BiLSTMCNN`, such as `hidden` and `transitions`.
        """
        reader = WordReader(vocabulary)
        config = GSPENConfig.of(
            chain_labels(labels, scheme),
            options.get("transitions") != "none",
            terms,
            inference,
            scorer=reader.sizes() | options,
            id2label=dict(enumerate(labels)),
        )
        return cls(config, reader)

    def with_terms(self, terms: Terms, inference: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of this model with new global terms, which change nothing yet, in place of its own.

        Args:
            terms: global terms.
            inference: options of `GSPENHead`.
        """
        config = copy.deepcopy(self.config)
        config.set_terms(config.has_transitions, terms, inference)
        config.results, config.confidences = {}, None
        encoder = copy.deepcopy(self.scorer.encoder) if isinstance(self.scorer, PieceScorer) else None
        model = type(self)(config, self.reader, encoder)
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
        """Return a saved model; see transformers. Only safetensors are read, and a folder is checked before.

        Raises:
            ValueError: for a folder that is not a readable model; it may come from anybody.
        """
        if kwargs.keys() & {"system", "terms"}:
            raise ValueError("from_pretrained loads a model as it is: give it other terms by with_terms")
        folder = Path(str(name), kwargs.get("subfolder") or "")
        if not folder.is_dir():
            return cls._read(name, *args, **kwargs)
        try:
            check_folder(folder)
            return cls._read(name, *args, **{"largest": size_limit(folder)} | kwargs)
        except Exception as error:  # of any class: config.json may contain anything
            raise ValueError(f"{folder}: not a model that can be read: {error}") from error

    @classmethod
    def _read(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["use_safetensors"] = True
        if "reader" not in kwargs:
            hub = {option: kwargs[option] for option in HUB_OPTIONS if option in kwargs}
            config = kwargs.get("config") or GSPENConfig.from_pretrained(name, **hub)
            kwargs["reader"] = load_reader(name, config, **hub)
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
            repo_id: `"user/name"`; created if needed.
            private: whether a new repository is private.
            token: access token of the hub.
            commit_message: message of the upload.
            options: options of `HfApi.upload_folder`, such as `revision` and `create_pr`.
        """
        api = HfApi(token=token)
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=commit_message, **options
            )


def load_model(folder: Path) -> GSPENForTokenClassification:
    """Return the model in a folder, or raise a ValueError with the reason why it cannot be read.

    Unlike `from_pretrained`, it refuses weights that are missing or do not fit instead of drawing new ones.
    """
    model, report = GSPENForTokenClassification.from_pretrained(
        folder, output_loading_info=True, ignore_mismatched_sizes=True
    )
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[problem]:
            raise ValueError(
                f"{folder}: the weights do not fit config.json: {problem} {sorted(report[problem])[:5]}"
            )
    return model
