"""A transformer up to its potentials: pieces in, scores of words out.

    pieces -> encoder, in windows if they are too many -> scores of each word's first piece -> CRF

The encoder is whatever transformers has for token classification of this type of model, its own dropout and
output layer included: a classifier that somebody fine-tuned keeps its scores to the bit. The encoder may run
in half precision; the scores that leave here are float32.

Sentences longer than the encoder's window are read in overlapping windows:

    [CLS] a b c d e f g [SEP]   ->   [CLS] a b c d e [SEP],  [CLS] c d e f g [SEP]
                                      a b c from the first        d e f g from the second

Each window has the special tokens of its row around it. A piece in an overlap is read from the window
whose centre is closest: each of two windows supplies half of their overlap.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import TokenClassifierOutput

from gspen_ner.hosts.huggingface.pieces import (
    HUB_OPTIONS,
    NO_LIMIT,
    PieceReader,
    load_tokenizer,
    piece_kinds,
    with_marks,
)
from gspen_ner.labels import Labels, Scheme
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import LinearChainCRF
from gspen_ner.scorers.bilstm_cnn import padded

USUAL_WINDOW = 512
NOT_KEPT = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")


class Frame(NamedTuple):
    """Size of an encoder's windows, in pieces.

    Args:
        size: number of pieces of a window, special ones included.
        overlap: number of pieces that neighbouring windows share.
        prefix, suffix: number of special pieces before and after the pieces of the text.
    """

    size: int
    overlap: int
    prefix: int
    suffix: int

    @property
    def room(self) -> int:
        """Number of pieces of the text that a window holds."""
        return self.size - self.prefix - self.suffix


class Windows(NamedTuple):
    """Windows of a batch, and the position from which each piece of the batch is read."""

    row: Int[Tensor, " W"]
    positions: Int[Tensor, "W size"]
    present: Bool[Tensor, "W size"]
    window_of: Int[Tensor, "B S"]
    position_in: Int[Tensor, "B S"]


class PieceScorer(nn.Module):
    """Scores the labels of words.

    Args:
        labels: labels of the chain.
        encoder: the transformer, or its configuration.
        pieces: number of pieces of the tokenizer's vocabulary.
        window, overlap, prefix, suffix: size of the windows; see `Frame`.
        transitions: whether neighbouring labels are scored; default True.
        constrained: whether what the labels' scheme forbids is scored -inf; default True.
        context_tokens: number of pieces of the neighbouring sentences that are read before and after each
            sentence, at most; default 0.
    """

    inputs = ("input_ids", "attention_mask", "word_starts", "token_type_ids")
    has_tables = False  # transitions do not depend on the position

    def __init__(
        self,
        labels: Labels,
        encoder: nn.Module | dict[str, Any],
        *,
        pieces: int,
        window: int,
        overlap: int,
        prefix: int,
        suffix: int,
        transitions: bool = True,
        constrained: bool = True,
        context_tokens: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(context_tokens, int) or context_tokens < 0:
            raise ValueError(f"context_tokens must be a number of pieces, 0 or more, got {context_tokens!r}")
        self.context_tokens = context_tokens
        self.frame = Frame(window, overlap, prefix, suffix)
        cut(0, self.frame)  # refuses impossible windows
        if isinstance(encoder, dict):
            encoder = make_encoder(AutoConfig.for_model(**encoder))
        self.encoder = encoder
        reads = inspect.signature(getattr(self.encoder, "base_model", self.encoder).forward).parameters
        self.wants_types = "token_type_ids" in reads
        self.crf = None
        if transitions:
            self.crf = LinearChainCRF(len(labels.names), True, labels if constrained else None)
        self.piece_kinds: Tensor
        self.register_buffer("piece_kinds", torch.zeros(pieces, dtype=torch.int8))

    @property
    def all_tied_weights_keys(self) -> dict[str, str]:
        """Names of the encoder's tied weights; transformers 5 asks every part of a model."""
        tied = getattr(self.encoder, "all_tied_weights_keys", {})
        return {f"encoder.{name}": f"encoder.{origin}" for name, origin in tied.items()}

    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Tensor,
        word_starts: Bool[Tensor, "B S"],
        token_type_ids: Tensor | None = None,
    ) -> tuple[Parts, Polytope]:
        """Return the potentials of a batch of words and their polytope.

        Args:
            input_ids: pieces; see `PieceReader`.
            attention_mask: 0 for padding.
            word_starts: True at the first piece of each word.
            token_type_ids: types of the pieces, for encoders that read them.
        """
        scores = self.emissions(input_ids, attention_mask, token_type_ids)
        lengths = word_starts.sum(1)
        present = Chain(lengths).mask(int(lengths.max()))
        nodes = padded(scores[word_starts], present)
        if self.crf is None:
            return Parts(nodes), Simplex(present)
        with torch.autocast(nodes.device.type, enabled=False):
            return self.crf.potentials(nodes, present)

    def emissions(
        self, input_ids: Int[Tensor, "B S"], attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Float[Tensor, "B S L"]:
        """Return the scores of all pieces, however many."""
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None and self.wants_types:
            batch["token_type_ids"] = token_type_ids
        if input_ids.shape[1] <= self.frame.size:
            return self.encoder(**batch).logits.float()
        windows = in_windows(attention_mask, self.frame)
        parts = {name: values[windows.row[:, None], windows.positions] for name, values in batch.items()}
        parts["attention_mask"] = parts["attention_mask"] * windows.present
        scores = self.encoder(**parts).logits.float()
        return scores[windows.window_of, windows.position_in]


def cut(length: int, frame: Frame) -> list[tuple[int, int, int]]:
    """Return where each window over a text begins, and the first and last piece that is read from it.

    Example:
        >>> cut(7, Frame(size=7, overlap=3, prefix=1, suffix=1))
        [(0, 0, 3), (2, 3, 7)]
    """
    room = frame.room
    if not 0 <= frame.overlap < room:
        raise ValueError(f"windows of {frame.size} pieces cannot overlap by {frame.overlap}")
    starts = [0]
    while starts[-1] + room < length:
        starts.append(min(starts[-1] + room - frame.overlap, length - room))
    seams = [(first + room + second) // 2 for first, second in pairwise(starts)]
    return list(zip(starts, [0, *seams], [*seams, length], strict=True))


def in_windows(attention_mask: Tensor, frame: Frame) -> Windows:
    """Cut the rows of a batch into windows; a row that fits is one window."""
    rows: list[int] = []
    texts: list[Tensor] = []
    window_of = torch.zeros_like(attention_mask, dtype=torch.long)
    position_in = torch.zeros_like(window_of)
    for row, mask in enumerate(attention_mask.bool()):
        pieces = mask.nonzero().squeeze(1)
        behind = max(len(pieces) - frame.suffix, frame.prefix)
        prefix, text, suffix = pieces[: frame.prefix], pieces[frame.prefix : behind], pieces[behind:]
        for start, first, last in cut(len(text), frame):
            window = torch.cat([prefix, text[start : start + frame.room], suffix])
            numbers = torch.arange(len(window), device=window.device)
            read = torch.cat([prefix, text[first:last], suffix])  # special pieces: from the last window
            window_of[row, read] = len(rows)
            within = numbers[frame.prefix + first - start : frame.prefix + last - start]
            ends = numbers[: len(prefix)], numbers[len(window) - len(suffix) :]
            position_in[row, read] = torch.cat([ends[0], within, ends[1]])
            rows.append(row)
            texts.append(window)
    positions = nn.utils.rnn.pad_sequence(texts, batch_first=True)
    counts = torch.tensor([len(text) for text in texts], device=positions.device)
    present = torch.arange(positions.shape[1], device=positions.device) < counts[:, None]
    return Windows(torch.tensor(rows, device=positions.device), positions, present, window_of, position_in)


def make_encoder(config: PretrainedConfig) -> nn.Module:
    """Return a transformer with new weights that scores each of the configuration's labels."""
    if type(config) in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        return AutoModelForTokenClassification.from_config(config)
    return EncoderWithScores(config)


class EncoderWithScores(nn.Module):
    """An encoder for which transformers has no token classification, with a linear layer on top.

    Args:
        config: configuration of the encoder; `num_labels` labels are scored.
        model: the encoder; by default a new one.
    """

    def __init__(self, config: PretrainedConfig, model: PreTrainedModel | None = None) -> None:
        super().__init__()
        self.config = config
        whole: Any = AutoModel.from_config(config) if model is None else model
        self.base_model: nn.Module = whole.get_encoder() if config.is_encoder_decoder else whole
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, **batch: Tensor) -> TokenClassifierOutput:
        """Return the scores of the labels of each piece, as transformers' own classifiers do."""
        states = self.base_model(**batch).last_hidden_state
        return TokenClassifierOutput(logits=self.classifier(self.dropout(states)))


@dataclass(frozen=True)
class Pretrained:
    """A pretrained transformer, its tokenizer, the kinds of its pieces, and entries of `GSPENConfig`."""

    encoder: nn.Module
    reader: PieceReader
    kinds: Tensor
    entries: dict[str, dict[Any, Any]]
    """As `encoder` its configuration, and as `scorer` the options of `PieceScorer`."""


def load_encoder(
    name: str | Path,
    num_labels: int,
    tokenizer: PreTrainedTokenizerBase | None = None,
    window: int | None = None,
    context_tokens: int = 0,
    **options: Any,
) -> Pretrained:
    """Return a pretrained encoder with a new output layer; options are HUB_OPTIONS."""
    _check(options)
    config = AutoConfig.from_pretrained(name, num_labels=num_labels, **options)
    encoder: nn.Module
    if type(config) in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        encoder = AutoModelForTokenClassification.from_pretrained(
            name, config=config, ignore_mismatched_sizes=True, **options
        )  # of a classifier, the output layer is left behind
    else:
        encoder = EncoderWithScores(config, AutoModel.from_pretrained(name, config=config, **options))
    pretrained = _pretrained(name, encoder, tokenizer, window, options)
    pretrained.entries["scorer"]["context_tokens"] = context_tokens
    return pretrained


def load_classifier(
    name: str | Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
    scheme: Scheme | None = None,
    **options: Any,
) -> tuple[Pretrained, Labels]:
    """Return a fine-tuned token classifier and its labels in the order of its scores.

    Args:
        name: name of the classifier on the hub, or its folder.
        tokenizer: tokenizer of the classifier; by default its own.
        scheme: tagging scheme of the labels; by default the classifier's. A BIO classifier can have BIOES
            labels: S- gets the scores of B-, and E- those of I-.
        options: HUB_OPTIONS.
    """
    _check(options)
    encoder = AutoModelForTokenClassification.from_pretrained(name, **options)
    names = [encoder.config.id2label[number] for number in range(encoder.config.num_labels)]
    own_scheme: Scheme = "BIOES" if any(label[:2] in ("E-", "S-") for label in names) else "BIO"
    try:
        labels = Labels(tuple(names), own_scheme)
    except ValueError as error:
        message = f"expected BIO or BIOES labels, got {', '.join(names)}: {error}"
        raise ValueError(f"{name}: {message}") from None
    if scheme not in (None, own_scheme):
        if scheme == "BIO":
            raise ValueError(f"{name}: a {own_scheme} classifier cannot have {scheme} labels")
        labels = _with_finer_labels(encoder, labels)
    pretrained = _pretrained(name, encoder, tokenizer, None, options)
    if labels.scheme != own_scheme:
        pretrained.entries["id2label"] = dict(enumerate(names))
    return pretrained, labels


def _with_finer_labels(encoder: Any, labels: Labels) -> Labels:
    """Give the output layer of a BIO classifier a row for each BIOES label, and return these labels."""
    finer = Labels.of_types(labels.types, "BIOES")
    coarse = [labels.index({"S": "B", "E": "I"}.get(name[0], name[0]), name[2:]) for name in finer.names[1:]]
    layers = {
        name: module
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == len(labels.names)
    }
    if "O" not in labels.names or None in coarse or not layers:
        raise ValueError(
            "expected a classifier with a linear output layer for O and, of each type, B- and I-, "
            f"got the labels {', '.join(labels.names)}"
        )
    name, old = layers.popitem()
    rows = torch.tensor([labels.names.index("O"), *coarse])
    new = nn.Linear(old.in_features, len(rows), bias=old.bias is not None, dtype=old.weight.dtype)
    new.load_state_dict({key: weight[rows] for key, weight in old.state_dict().items()})
    new._is_hf_initialized = True  # type: ignore[assignment]  # transformers would draw new weights
    encoder.set_submodule(name, new)
    encoder.num_labels = len(rows)
    encoder.config.id2label = dict(enumerate(finer.names))
    encoder.config.label2id = {name: number for number, name in enumerate(finer.names)}
    return finer


def _pretrained(
    name: str | Path,
    encoder: nn.Module,
    tokenizer: PreTrainedTokenizerBase | None,
    window: int | None,
    options: Mapping[str, Any],
) -> Pretrained:
    tokenizer = with_marks(load_tokenizer(name, **options) if tokenizer is None else tokenizer)
    mask = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    prefix, suffix = (mask.index(0), mask[::-1].index(0)) if 0 in mask else (0, 0)
    limit = _window(tokenizer.model_max_length, encoder)
    window = limit if window is None else window
    reader, kinds = PieceReader(tokenizer), piece_kinds(tokenizer)
    if window > limit:
        raise ValueError(f"window must be at most {limit}, which the encoder can read at once, got {window}")
    special = {"prefix": prefix, "suffix": suffix}
    scorer = {"pieces": len(kinds), "window": window, "overlap": window // 4, **special}
    config: Any = encoder.config
    kept = {key: value for key, value in config.to_diff_dict().items() if key not in NOT_KEPT}
    entries = {"scorer": scorer, "encoder": kept | {"model_type": config.model_type}}
    return Pretrained(encoder, reader, kinds, entries)


def _window(tokenizer_limit: int, encoder: nn.Module) -> int:
    """Return the number of pieces that the encoder can read at once."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or NO_LIMIT
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            assert isinstance(module.padding_idx, int)
            positions -= module.padding_idx + 1  # RoBERTa's first position follows the padding position
    window = min(tokenizer_limit, positions)
    return window if window < NO_LIMIT // 2 else USUAL_WINDOW


def _check(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - set(HUB_OPTIONS))
    if unknown:
        raise ValueError(f"unknown options {', '.join(unknown)}; known are {', '.join(HUB_OPTIONS)}")
