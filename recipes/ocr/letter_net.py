"""The paper's scorer of letters: each image by itself through one small perceptron."""

from __future__ import annotations

from jaxtyping import Float, UInt8
from torch import Tensor, nn


class LetterNet(nn.Module):
    """Three linear layers with ReLU; dropout after the first.

    Args:
        num_labels: letters.
        pixels: of an image.
        hidden: units of both hidden layers.
        dropout: probability of zeroing an output of the first layer.

    Example:
        >>> import torch
        >>> LetterNet(num_labels=26)(torch.zeros(2, 5, 28, 28, dtype=torch.uint8)).shape
        torch.Size([2, 5, 26])
    """

    def __init__(self, num_labels: int, pixels: int = 784, hidden: int = 200, dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(pixels, hidden),
            nn.Dropout(dropout),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, num_labels),
        )

    def forward(self, images: UInt8[Tensor, "B N height width"]) -> Float[Tensor, "B N L"]:
        """Scores of the labels of each image."""
        return self.layers(images.flatten(2).float() / 255)
