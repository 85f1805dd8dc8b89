"""Features by a network of torchvision's, for which a small one stands in."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from recipes.tagging.backbone import torchvision_backbone


def small_network():
    """In the form of AlexNet, and much smaller."""
    network = nn.Module()
    network.features = nn.Sequential(nn.AvgPool2d(56), nn.Flatten())
    network.classifier = nn.Sequential(nn.Dropout(), nn.Linear(48, 7), nn.ReLU(), nn.Linear(7, 5))
    network.forward = lambda images: network.classifier(network.features(images))
    return network


def get_model(name, weights):
    assert weights is None
    if name not in ("alexnet", "flat"):
        raise ValueError(f"Unknown model {name}")
    return small_network() if name == "alexnet" else nn.Sequential(nn.Flatten())


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in for torchvision."""
    monkeypatch.setitem(
        sys.modules, "torchvision", SimpleNamespace(models=SimpleNamespace(get_model=get_model))
    )


def test_without_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ModuleNotFoundError, match="torchvision, which is not installed") as error:
        torchvision_backbone()
    assert error.value.name == "torchvision"


@pytest.mark.usefixtures("torchvision")
def test_the_last_layer_is_taken_off():
    before = torch.random.get_rng_state()
    backbone, again = torchvision_backbone(), torchvision_backbone("alexnet")
    assert torch.equal(torch.random.get_rng_state(), before)
    images = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8)
    found = backbone(images)
    assert found.shape == (2, 7)
    assert found.min() >= 0  # after the last but one
    assert torch.equal(found, again(images))  # and no dropout


@pytest.mark.usefixtures("torchvision")
def test_weights_from_a_file(tmp_path):
    network = small_network()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    images = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8)
    found = torchvision_backbone("alexnet", str(tmp_path / "weights.pth"))(images)
    normal = images / 255 - torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    normal /= torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    expected = network.eval().classifier[:-1](network.features(normal))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.usefixtures("torchvision")
def test_bad_weights(tmp_path):
    file = tmp_path / "weights.pth"
    with pytest.raises(ValueError, match=r"weights\.pth: no such file"):
        torchvision_backbone(weights_file=file)
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)
    torch.save({"other": torch.zeros(3)}, file)
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)
    torch.save({"evil": Path}, file)  # nothing but tensors is loaded
    with pytest.raises(ValueError, match=r"weights\.pth: expected the weights of"):
        torchvision_backbone(weights_file=file)


@pytest.mark.usefixtures("torchvision")
def test_bad_networks():
    with pytest.raises(ValueError, match="Unknown model none"):
        torchvision_backbone("none")
    with pytest.raises(ValueError, match="expected a network with a linear layer at its end, got flat"):
        torchvision_backbone("flat")
