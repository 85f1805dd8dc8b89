"""Scores of training examples by Unaries that have not seen them.

A Unary's scores of what it has learned from are better than they will ever be again: a system that learns on
top of those sees no errors to mend.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from gspen_ner.hosts.huggingface.system_trainer import Examples, predictions
from gspen_ner.systems import UnarySystem


def unary_scores(
    unary: UnarySystem, examples: Examples, folds: int, fold_unary: Callable[[int, Examples], UnarySystem]
) -> Float[Tensor, "B N L"]:
    """Scores of the examples that a Unary has learned from.

    Args:
        unary: the Unary.
        examples: what it has learned from.
        folds: parts of the examples, each of which is scored by a Unary of its own; 0 for `unary`'s scores.
        fold_unary: trains the Unary of a part, given its number and the examples of all other parts.
    """
    if not folds:
        return predictions(unary, examples.inputs, "scores")
    part = torch.arange(len(examples)) % folds
    found = [
        predictions(
            fold_unary(number, examples.select(part != number)), examples.inputs[part == number], "scores"
        )
        for number in range(folds)
    ]
    return torch.cat(found)[part.argsort(stable=True).argsort()]
