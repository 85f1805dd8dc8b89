"""Features of images, by a network of torchvision."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
from jaxtyping import Shaped, UInt8
from torch import Tensor, nn

SIDE = 224
"""Height and width of the images that a backbone takes."""

Backbone = Callable[[UInt8[Tensor, "images 3 224 224"]], Shaped[Tensor, "images features"]]
"""A function from images, red, green and blue, to their features."""

_MEANS, _DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as in torchvision


def torchvision_backbone(name: str = "alexnet", weights_file: str | Path | None = None) -> Backbone:
    """Return a network of torchvision without its last linear layer, for `read_mirflickr`.

    Args:
        name: name of the network for `torchvision.models.get_model`.
        weights_file: its weights, a state dictionary written by `torch.save`. Nothing is downloaded: without
            a file the weights are random (the same each time), which is good for trials only.

    Raises:
        ModuleNotFoundError: if torchvision is not installed.
        ValueError: if there is no such network, or the file does not hold its weights.
    """
    try:
        torchvision = import_module("torchvision")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "features of images need torchvision, which is not installed: pip install torchvision",
            name="torchvision",
        ) from None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = torchvision.models.get_model(name, weights=None)
    if weights_file is not None:
        _load_weights(network, Path(weights_file))
    _remove_last_layer(network, name)
    network.eval()
    means, deviations = (torch.tensor(values)[:, None, None] for values in (_MEANS, _DEVIATIONS))

    def features(images: Tensor) -> Tensor:
        return network((images.float() / 255 - means) / deviations)

    return features


def _load_weights(network: nn.Module, file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    try:
        network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except Exception as error:  # damaged files and other networks raise exceptions of many classes
        raise ValueError(f"{file}: expected the weights of {type(network).__name__}: {error}") from None


def _remove_last_layer(network: nn.Module, name: str) -> None:
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError(f"expected a network with a linear layer at its end, got {name}")
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())
