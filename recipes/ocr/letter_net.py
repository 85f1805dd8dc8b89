"""The paper's scorer of letters: an MLP over each image by itself."""

from __future__ import annotations

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from gspen_ner.components import Count, DropRate, configurable


@configurable(given=["num_labels", "pixels"])
class LetterNet(nn.Module):
    """Three linear layers with ReLU; dropout after the first.

    Args:
        num_labels: number of letters.
        pixels: number of pixels of an image.
        hidden: number of units of both hidden layers.
        dropout: dropout of the first hidden layer.

    Example:
        >>> import torch
        >>> LetterNet(num_labels=26)(torch.zeros(2, 5, 28, 28, dtype=torch.uint8)).shape
        torch.Size([2, 5, 26])
    """

    def __init__(
        self, num_labels: int, pixels: int = 784, hidden: Count = 200, dropout: DropRate = 0.5
    ) -> None:
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
        """Return the scores of the labels of each image."""
        return self.layers(images.flatten(2).float() / 255)
