"""One direction of an LSTM layer over padded sequences: torch's fast path, with weights given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def one_way(inputs: Tensor, weights: Any, hidden_size: int, training: bool) -> Tensor:
    """Outputs `[B, T, hidden_size]` of a layer that starts from zeros.

    Args:
        inputs: `[B, T, D]`.
        weights: input and hidden weights and biases, four tensors of `nn.LSTM`.
        hidden_size: of the layer.
        training: whether gradients will be wanted.
    """
    zeros = inputs.new_zeros(1, len(inputs), hidden_size)
    return torch._VF.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, training, False, True)[0]
