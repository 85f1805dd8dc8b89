"""Learning rates: of the parts of a model, and step by step.

Pretrained weights want small ones, everything new large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.recipe import TermTraining, Training


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
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> groups = parameter_groups(model.with_terms(["document"]), 3e-5, transitions=1e-2, term=5e-2)
        >>> optimizer = torch.optim.AdamW(groups)
        >>> [group["lr"] for group in optimizer.param_groups]
        [3e-05, 0.01, 0.05]
    """
    output, transitions, term = (encoder if rate is None else rate for rate in (output, transitions, term))
    scorer = model.scorer
    base = getattr(getattr(scorer, "encoder", None), "base_model", None)
    new = [] if scorer.crf is None else list(scorer.crf.parameters())
    head = list(model.head.parameters())
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


def stage_optimizer(model: GSPENForTokenClassification, training: Training) -> torch.optim.Optimizer:
    """The optimizer of a recipe's stage."""
    base = training.learning_rate
    if isinstance(training, TermTraining):
        base = training.base_learning_rate or base
    groups = parameter_groups(
        model,
        base,
        output=training.output_learning_rate,
        transitions=training.transitions_learning_rate,
        term=training.learning_rate,
        weight_decay=training.weight_decay,
    )
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=training.momentum, nesterov=training.nesterov)
    return torch.optim.AdamW(groups, fused=True)  # without weight decay, it is Adam


def rate_factor(training: Training, steps: int) -> Callable[[int], float]:
    """By what all rates are multiplied at each of so many steps: warm-up, then the recipe's schedule."""
    an_epoch = steps // training.epochs
    rising = max(1, round(training.warmup * steps))

    def factor(step: int) -> float:
        if training.warmup and step < rising:
            return (step + 1) / rising
        if training.schedule == "linear":
            behind = step / steps if not training.warmup else (step - rising) / max(1, steps - rising)
            return max(0.0, 1 - behind)
        if training.schedule == "inverse_time":
            return 1 / (1 + training.decay * (step // an_epoch))
        return 1.0

    return factor
