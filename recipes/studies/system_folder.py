"""Trained systems of one seed, each in a folder of its own: what is there is not trained again.

folder      SYSTEM/result.json  SYSTEM/model.safetensors (what was learned)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gspen_ner.files import mend_folder, write_folder, write_whole

System = TypeVar("System", bound=nn.Module)


class SystemFolder:
    """Reads systems, or has them trained.

    Args:
        folder: where they are.
        seed: of their first weights.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed

    def system(
        self, name: str, make: Callable[[], System], train: Callable[[System], Mapping[str, Any]]
    ) -> System:
        """A trained system.

        Args:
            name: of its folder.
            make: makes it with new weights.
            train: trains it and says what came out, which becomes its `result`.
        """
        torch.manual_seed(self.seed)
        system = make()
        mend_folder(self.folder / name)
        if self.has(name):
            system.load_state_dict(load_file(self.folder / name / "model.safetensors"), strict=False)
            return system
        result = train(system)
        learned = {key: value for key, value in system.named_parameters() if value.requires_grad}
        self.write(name, {key: value.detach().contiguous() for key, value in learned.items()}, result)
        return system

    def has(self, name: str) -> bool:
        """Whether a system was trained already."""
        return (self.folder / name / "result.json").exists()

    def result(self, name: str) -> dict[str, Any]:
        """What came out of the training of a system."""
        return json.loads((self.folder / name / "result.json").read_text(encoding="utf-8"))

    def weights(self, name: str) -> dict[str, Tensor]:
        """What a system has learned."""
        return load_file(self.folder / name / "model.safetensors")

    def write(self, name: str, weights: dict[str, Tensor], result: Mapping[str, Any]) -> None:
        """Put a system into its folder, at once."""

        def fill(folder: Path) -> None:
            save_file(weights, folder / "model.safetensors")
            (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

        write_folder(self.folder / name, fill)


def write_results(results: Sequence[Any], folder: Path) -> None:
    """The results (dataclasses) of all systems of a run as results.json."""
    entries = [asdict(result) for result in results]
    write_whole(folder / "results.json", json.dumps(entries, indent=2) + "\n")
