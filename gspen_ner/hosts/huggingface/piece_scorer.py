"""A transformer up to its potentials: pieces in, scores of words out.

    pieces -> encoder, in windows if they are too many -> scores of each word's first piece -> CRF

The encoder is whatever transformers has for token classification of this kind of model, its own dropout and
output layer included; so a classifier that somebody fine-tuned keeps its scores to the bit. The encoder may
run in half precision; the scores that leave here are float32.
"""

from __future__ import annotations

import inspect
from typing import Any

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
)
from transformers.modeling_outputs import TokenClassifierOutput

from gspen_ner.hosts.huggingface.windows import Frame, cut, in_windows
from gspen_ner.labels import Labels
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, Polytope, Simplex
from gspen_ner.scorers import LinearChainCRF
from gspen_ner.scorers.bilstm_cnn import padded


class PieceScorer(nn.Module):
    """Scores of the labels of words.

    Args:
        labels: of the chain.
        encoder: the transformer, or its configuration.
        pieces: size of the tokenizer's vocabulary.
        window, overlap, prefix, suffix: see `Frame`.
        transitions: whether neighbouring labels are scored.
        constrained: whether what the labels' scheme forbids is scored -inf.
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
    ) -> None:
        super().__init__()
        self.frame = Frame(window, overlap, prefix, suffix)
        cut(0, self.frame)  # refuses windows that cannot be
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
        """Weights of the encoder that are one: which is which. transformers 5 asks every part of a model."""
        found = getattr(self.encoder, "all_tied_weights_keys", {})
        return {f"encoder.{name}": f"encoder.{origin}" for name, origin in found.items()}

    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Tensor,
        word_starts: Bool[Tensor, "B S"],
        token_type_ids: Tensor | None = None,
    ) -> tuple[Parts, Polytope]:
        """Potentials of a batch of words and the polytope they live on.

        Args:
            input_ids: pieces; see `PieceReader`.
            attention_mask: 0 for padding.
            word_starts: True at the first piece of each word.
            token_type_ids: for encoders that want them.
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
        """Scores of all pieces, however many."""
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None and self.wants_types:
            batch["token_type_ids"] = token_type_ids
        if input_ids.shape[1] <= self.frame.size:
            return self.encoder(**batch).logits.float()
        windows = in_windows(attention_mask, self.frame)
        parts = {name: values[windows.row[:, None], windows.positions] for name, values in batch.items()}
        parts["attention_mask"] = parts["attention_mask"] * windows.present
        scores = self.encoder(**parts).logits.float()
        return scores[windows.window_of, windows.place_in]


def make_encoder(config: PretrainedConfig) -> nn.Module:
    """A transformer of this configuration that gives a score for each of its labels, with new weights."""
    if type(config) in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        return AutoModelForTokenClassification.from_config(config)
    return EncoderWithScores(config)


class EncoderWithScores(nn.Module):
    """An encoder for which transformers has no token classification, with a linear layer on top.

    Args:
        config: of the encoder; `num_labels` are scored.
        model: the encoder, if it is not to be a new one.
    """

    def __init__(self, config: PretrainedConfig, model: PreTrainedModel | None = None) -> None:
        super().__init__()
        self.config = config
        whole: Any = AutoModel.from_config(config) if model is None else model
        self.base_model: nn.Module = whole.get_encoder() if config.is_encoder_decoder else whole
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, **batch: Tensor) -> TokenClassifierOutput:
        """Scores of the labels of each piece, as transformers' own classifiers give them."""
        states = self.base_model(**batch).last_hidden_state
        return TokenClassifierOutput(logits=self.classifier(self.dropout(states)))
