"""Learning rates of the parts of a model: pretrained weights want small ones, everything new large ones."""

from __future__ import annotations

from typing import Any

from torch import nn

from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification


def parameter_groups(
    model: GSPENForTokenClassification,
    encoder: float,
    output: float | None = None,
    transitions: float | None = None,
    term: float | None = None,
    weight_decay: float = 0.0,
) -> list[dict[str, Any]]:
    """Groups for any torch optimizer; what is frozen is in none.

    Args:
        model: what will be trained.
        encoder: rate of the encoder; of everything below a transformer's output layer, or of the BiLSTM-CNN.
        output: of a transformer's output layer; the encoder's if not given.
        transitions: of the scores of neighbouring labels; likewise. With a pretrained encoder's rate they
            would hardly move: a hundred to a thousand times as much is usual.
        term: of the global term; likewise.
        weight_decay: of matrices; biases and normalisation have none, nor have transitions and term.

    Example:
        >>> import torch
        >>> from gspen_ner import Labels, Vocabulary
        >>> from gspen_ner.hosts.huggingface import GSPENConfig
        >>> from gspen_ner.hosts.huggingface.readers import WordReader
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> sizes = {"trained_words": 2, "fixed_words": 0, "characters": 6, "hidden": 4}
        >>> config = GSPENConfig(Labels.of_types(["PER"], "BIO").names, "BIO", scorer=sizes)
        >>> model = GSPENForTokenClassification(config, WordReader(vocabulary))
        >>> groups = parameter_groups(model.with_terms(["document"]), 3e-5, transitions=1e-2, term=5e-2)
        >>> optimizer = torch.optim.AdamW(groups)
        >>> [group["lr"] for group in optimizer.param_groups]
        [3e-05, 0.01, 0.05]
    """
    output, transitions, term = (encoder if rate is None else rate for rate in (output, transitions, term))
    scorer = model.scorer
    base = getattr(getattr(scorer, "encoder", None), "base_model", None)
    new = [] if scorer.crf is None else list(scorer.crf.parameters())
    head = [] if model.head is None else list(model.head.parameters())
    known = {id(weight) for weight in new}
    inner = list(scorer.parameters()) if base is None else list(base.parameters())
    inner = [weight for weight in inner if id(weight) not in known]
    known |= {id(weight) for weight in inner}
    outer = [weight for weight in scorer.parameters() if id(weight) not in known]
    groups = [
        *_decayed(inner, encoder, weight_decay),
        *_decayed(outer, output, weight_decay),
        {"params": _trained(new), "lr": transitions, "weight_decay": 0.0},
        {"params": _trained(head), "lr": term, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _decayed(weights: list[nn.Parameter], rate: float, weight_decay: float) -> list[dict[str, Any]]:
    trained = _trained(weights)
    if not weight_decay:
        return [{"params": trained, "lr": rate, "weight_decay": 0.0}]
    matrices = [weight for weight in trained if weight.dim() > 1]
    others = [weight for weight in trained if weight.dim() <= 1]
    return [
        {"params": matrices, "lr": rate, "weight_decay": weight_decay},
        {"params": others, "lr": rate, "weight_decay": 0.0},
    ]


def _trained(weights: list[nn.Parameter]) -> list[nn.Parameter]:
    return [weight for weight in weights if weight.requires_grad]
