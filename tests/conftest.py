"""Shapes are checked at run time in all tests.

Left out: compiled loops, which cannot be wrapped, and the modules that check their input themselves, so
that tests see their errors.
"""

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

CHECKED = [
    "decode",
    "kernels.backends",
    "kernels.numba_backend",
    "kernels.reference",
    "labels",
    "losses",
    "objective",
    "polytopes",
    "terms",
]
install_import_hook([f"gspen_ner.{name}" for name in CHECKED], "beartype.beartype")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(params=["numba", "reference"])
def backend(request):
    """The test runs once on each backend."""
    from gspen_ner.kernels import use_backend

    with use_backend(request.param):
        yield request.param


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a run that has learned something: a CRF with document consistency. Not to be changed."""
    from tests.tiny import train

    folder = tmp_path_factory.mktemp("trained") / "run"
    data = {"train": "newswire:40:1", "dev": "newswire:5:2", "test": "newswire:5:3"}
    return train(folder, data=data, base_training={"epochs": 6})
