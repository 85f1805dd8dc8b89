"""The one `PreTrainedModel`: an encoder's potentials, and a GSPEN head over them.

    inputs -> scorer -> potentials (or cached ones) -> head, if there is one -> loss, or theta to decode

Four systems are one model: `unary` (no transitions, no term), `struct` (the CRF), `spen` (a term without
transitions) and `gspen` (both).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ModelOutput
from transformers.utils import cached_file

from gspen_ner.head import make_head
from gspen_ner.labels import Labels, Scheme
from gspen_ner.losses import negative_log_likelihood
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import BiLSTMCNN, Vocabulary
from gspen_ner.scorers.vocabulary import FILE_NAME as VOCABULARY_FILE
from gspen_ner.solvers import Solution
from gspen_ner.terms import Context

System = Literal["unary", "struct", "spen", "gspen"]


class GSPENConfig(PretrainedConfig):
    """What is needed to make the model again.

    Args:
        scheme: of the labels, which are `id2label`.
        system: `"unary"`, `"struct"`, `"spen"` or `"gspen"`.
        scorer: arguments of `BiLSTMCNN`.
        terms: of the head: each a name (see `make_term`) and its arguments.
        inference: arguments of `GSPENHead`, of which `solver` is a name and its arguments.
    """

    model_type = "gspen_ner"

    def __init__(
        self,
        scheme: Scheme = "BIOES",
        system: System = "struct",
        scorer: dict[str, Any] | None = None,
        terms: list[dict[str, Any]] | None = None,
        inference: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if system not in get_args(System):
            raise ValueError(f"system must be one of {', '.join(get_args(System))}, got {system!r}")
        self.scheme, self.system = scheme, system
        self.scorer, self.terms, self.inference = scorer or {}, terms or [], inference or {}
        super().__init__(**kwargs)

    @property
    def has_term(self) -> bool:
        """Whether there is a global term."""
        return self.system in ("spen", "gspen")

    def labels(self) -> Labels:
        """The labels in the order of the scores."""
        names = self.id2label or {}
        return Labels(tuple(names[number] for number in range(self.num_labels)), self.scheme)


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

    Args:
        config: what to make.
        vocabulary: of the word-level encoder; saved and loaded with the model.
    """

    config_class = GSPENConfig
    base_model_prefix = "scorer"
    main_input_name = "words"
    accepts_loss_kwargs = False  # the loss is a mean over the batch: Trainer must not rescale it

    def __init__(self, config: GSPENConfig, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(config)
        self.labels, self.vocabulary = config.labels(), vocabulary
        self.scorer = BiLSTMCNN(self.labels, **config.scorer)
        self.head = make_head(config.num_labels, config.terms, config.inference) if config.has_term else None
        self.base_frozen = False
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Every module has drawn its own weights already."""

    def floating_point_ops(self, *args: Any, **kwargs: Any) -> int:
        """Not counted; Trainer would warn that it cannot."""
        return 0

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        super().save_pretrained(save_directory, *args, **kwargs)
        if self.vocabulary is not None:
            self.vocabulary.save(Path(save_directory))

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        folder = Path(name)
        if not folder.is_dir():  # a name on the hub
            where = ("revision", "token", "cache_dir", "subfolder", "local_files_only", "force_download")
            same = {option: kwargs[option] for option in where if option in kwargs}
            folder = Path(str(cached_file(name, VOCABULARY_FILE, **same))).parent
        kwargs.setdefault("vocabulary", Vocabulary.load(folder))
        return super().from_pretrained(name, *args, **kwargs)

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

        Either `words`, `spellings` and `spelling_at`, or potentials that were computed before (`nodes`, and
        `edges` where they are not the model's shared table); `Collator` makes all of this from sentences.
        """
        assert lengths is not None
        given = {"words": words, "spellings": spellings, "spelling_at": spelling_at}
        given |= {"nodes": nodes, "edges": edges, "documents": documents, "mentions": mentions}
        batch = {name: value for name, value in given.items() if value is not None} | {"lengths": lengths}
        potentials, polytope = self.potentials(batch)
        found: dict[str, Tensor] = {}
        if labels is not None and self.head is None:
            found["loss"] = negative_log_likelihood(potentials, polytope, labels).mean().float()
        elif labels is not None:
            assert self.head is not None
            result = self.head.loss(potentials, polytope, labels, _context(batch, polytope, potentials))
            found["loss"] = result.loss.mean().float()
            found["negative"] = result.negative.float().mean()
            found["steps"] = result.solution.steps.float().mean()
        if labels is None or not self.training:
            solution = self._solution(batch, potentials, polytope)
            marginals = polytope.marginals(potentials) if solution is None else solution.marginals
            found["logits"] = marginals.nodes.log()
        return TaggingOutput(**found)  # what is set later is not among its keys

    def potentials(self, batch: dict[str, Tensor]) -> tuple[Parts, Polytope]:
        """Scores of a collated batch, computed or, if it brings them along, as they are."""
        if "nodes" not in batch:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.base_frozen):
                return self.scorer(batch["words"], batch["spellings"], batch["spelling_at"], batch["lengths"])
        nodes, lengths = batch["nodes"], batch["lengths"]
        if self.scorer.crf is None:
            return Parts(nodes), Simplex(Chain(lengths).mask(nodes.shape[1]))
        table = batch["edges"] if "edges" in batch else self.scorer.crf.transition_scores()[1]
        return Parts(nodes, table), Chain(lengths)

    @torch.no_grad()
    def infer(self, batch: dict[str, Tensor]) -> Inferred:
        """Scores to decode, by themselves and with the global term, as chains that obey the scheme."""
        potentials, polytope = self.potentials(batch)
        solution = self._solution(batch, potentials, polytope)
        chain = Chain(batch["lengths"])
        base = self._as_chain(potentials, chain)
        theta = base if solution is None else self._as_chain(solution.theta, chain)
        return Inferred(base, theta, chain, solution)

    def _solution(self, batch: dict[str, Tensor], potentials: Parts, polytope: Polytope) -> Solution | None:
        if self.head is None:
            return None
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


def load_model(folder: Path) -> GSPENForTokenClassification:
    """A model from its folder, or an error that says what is wrong with it.

    Unlike `from_pretrained`, it refuses weights that are missing or do not fit instead of drawing new ones.
    """
    try:
        model, report = GSPENForTokenClassification.from_pretrained(folder, output_loading_info=True)
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
