"""What a new tagger takes over from a pretrained transformer: its weights, its tokenizer, its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import (
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from gspen_ner.hosts.huggingface.piece_scorer import EncoderWithScores
from gspen_ner.hosts.huggingface.pieces import piece_kinds, with_marks
from gspen_ner.hosts.huggingface.readers import HUB_OPTIONS, NO_LIMIT, PieceReader, load_tokenizer
from gspen_ner.labels import Labels, Scheme

USUAL_WINDOW = 512
NOT_KEPT = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")


@dataclass(frozen=True)
class Pretrained:
    """A transformer and what its scorer must know of it."""

    encoder: nn.Module
    reader: PieceReader
    kinds: Tensor
    window: dict[str, int]

    def encoder_entries(self) -> dict[str, Any]:
        """The configuration of the encoder, for `GSPENConfig`."""
        config = self.encoder.config
        assert isinstance(config, PretrainedConfig)
        entries = {key: value for key, value in config.to_diff_dict().items() if key not in NOT_KEPT}
        return entries | {"model_type": config.model_type}

    def scorer_entries(self, window: int | None = None) -> dict[str, Any]:
        """Return options of `PieceScorer`.

        Args:
            window: number of pieces that are read at once; by default as many as the encoder can read.
        """
        limit = self.window["window"]
        if window is not None and window > limit:
            raise ValueError(
                f"window must be at most {limit}, which the encoder can read at once, got {window}"
            )
        smaller = {} if window is None else {"window": window, "overlap": window // 4}
        return {"pieces": len(self.kinds), **self.window, **smaller}


def load_encoder(
    name: str | Path, num_labels: int, tokenizer: PreTrainedTokenizerBase | None = None, **options: Any
) -> Pretrained:
    """A pretrained encoder with a new output layer; options are HUB_OPTIONS."""
    _check(options)
    config = AutoConfig.from_pretrained(name, num_labels=num_labels, **options)
    encoder: nn.Module
    if type(config) in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        encoder = AutoModelForTokenClassification.from_pretrained(
            name, config=config, ignore_mismatched_sizes=True, **options
        )  # of a classifier, the output layer is left behind
    else:
        encoder = EncoderWithScores(config, AutoModel.from_pretrained(name, config=config, **options))
    return _pretrained(name, encoder, tokenizer, options)


def load_classifier(
    name: str | Path, tokenizer: PreTrainedTokenizerBase | None = None, **options: Any
) -> tuple[Pretrained, Labels]:
    """A fine-tuned token classifier as it is, and its labels in the order of its scores."""
    _check(options)
    encoder = AutoModelForTokenClassification.from_pretrained(name, **options)
    names = [encoder.config.id2label[number] for number in range(encoder.config.num_labels)]
    scheme: Scheme = "BIOES" if any(label[:2] in ("E-", "S-") for label in names) else "BIO"
    try:
        labels = Labels(tuple(names), scheme)
    except ValueError as error:
        raise ValueError(f"{name}: its labels are not those of a tagger of entities: {error}") from None
    return _pretrained(name, encoder, tokenizer, options), labels


def chain_labels(names: Sequence[str], scheme: Scheme) -> Labels:
    """The labels of a chain in this scheme for a dataset's labels, which are BIO.

    Example:
        >>> chain_labels(["O", "B-LOC", "I-LOC"], "BIOES").names
        ('O', 'B-LOC', 'I-LOC', 'E-LOC', 'S-LOC')
    """
    given = Labels(tuple(names), "BIO")
    return given if scheme == "BIO" else Labels.of_types(given.types, scheme)


def term_entries(terms: Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Terms by their names alone, or with arguments."""
    return [{"name": term} if isinstance(term, str) else dict(term) for term in terms]


def _pretrained(
    name: str | Path,
    encoder: nn.Module,
    tokenizer: PreTrainedTokenizerBase | None,
    options: Mapping[str, Any],
) -> Pretrained:
    tokenizer = with_marks(load_tokenizer(name, **options) if tokenizer is None else tokenizer)
    mask = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    prefix = mask.index(0) if 0 in mask else 0
    window = _window(tokenizer.model_max_length, encoder)
    frame = {
        "window": window,
        "overlap": window // 4,
        "prefix": prefix,
        "suffix": mask[::-1].index(0) if 0 in mask else 0,
    }
    return Pretrained(encoder, PieceReader(tokenizer), piece_kinds(tokenizer), frame)


def _window(tokenizer_limit: int, encoder: nn.Module) -> int:
    """Pieces that the encoder can read at once."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or NO_LIMIT
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            assert isinstance(module.padding_idx, int)
            positions -= module.padding_idx + 1  # RoBERTa's begin behind that of padding
    window = min(tokenizer_limit, positions)
    return window if window < NO_LIMIT // 2 else USUAL_WINDOW


def _check(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - set(HUB_OPTIONS))
    if unknown:
        raise ValueError(f"unknown options {', '.join(unknown)}; known are {', '.join(HUB_OPTIONS)}")
