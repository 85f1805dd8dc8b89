"""The five systems on words of one alpha and training size.

Unary -> Struct -> GSPEN
      -> Struct without entropy -> NLStruct
      -> SPEN
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from gspen_ner.training import Examples, System, Trained, predictions
from gspen_ner.training.tensors import Judge
from recipes.ocr.letter_net import LetterNet
from recipes.ocr.settings import OCRRecipe
from recipes.ocr.words import WORD_LENGTH, letter_accuracy, word_accuracy
from recipes.studies.data import StudyData
from recipes.studies.settings import options_for
from recipes.studies.systems import Graph, StudySystems, SystemResult

WORD = Graph(WORD_LENGTH, 26, tuple(pairwise(range(WORD_LENGTH))))


@dataclass(frozen=True, kw_only=True)
class OCRResult(SystemResult):
    """How the training of a system went; accuracies in percent."""

    alpha: float
    size: int
    hidden: int
    dev_words: float
    dev_letters: float
    test_words: float
    test_letters: float


class OCRSystems(StudySystems):
    """The systems of one alpha, training size and seed.

    Args:
        recipe, data, seed, folder: as of `StudySystems`.
        alpha: weight of the background in the data.
        size: number of training words that are used.
    """

    result_class = OCRResult

    def __init__(
        self, recipe: OCRRecipe, data: StudyData, alpha: float, size: int, seed: int, folder: Path
    ) -> None:
        super().__init__(recipe, replace(data, train=data.train.first(size)), WORD, seed, folder)
        self.alpha, self.size = alpha, size

    @cached_property
    def struct_without_entropy(self) -> System:
        """Struct, trained without entropy."""
        settings = self.recipe.struct.model_copy(update={"temperature": 0.0})
        return self.make_struct("struct_without_entropy", settings)

    @cached_property
    def nlstruct(self) -> System:
        """NLStruct: a nonlinear function of the scores of Struct without entropy."""
        struct = self.struct_without_entropy
        return self.with_term("nlstruct", self.recipe.nlstruct, struct, "nlstruct")

    def with_term(
        self, name: str, settings: Any, struct: System | None = None, term: str = "region_mlp"
    ) -> System:
        """Train a SPEN or GSPEN with the number of hidden units that is best on dev, or an NLStruct."""
        if term == "nlstruct":
            return super().with_term(name, settings, struct, term)
        versions = {size: settings.model_copy(update={"hidden": size}) for size in settings.hidden}
        best = settings.hidden[0]
        if len(versions) > 1:
            for size, version in versions.items():
                super().with_term(f"{name}-{size}", version, struct)
            best = max(versions, key=lambda size: self.result(f"{name}-{size}").dev_words)
            if not (self.folder / name / "result.json").exists():
                weights = load_file(self.folder / f"{name}-{best}" / "model.safetensors")
                self.write(name, weights, asdict(replace(self.result(f"{name}-{best}"), system=name)))
        return super().with_term(name, versions[best], struct)

    def make_net(self) -> nn.Module:
        return LetterNet(self.graph.num_labels, **options_for(LetterNet, self.recipe.unary))

    def judge(self, name: str) -> Judge:
        return letter_accuracy if name == "unary" else word_accuracy  # Unary gets no word right for long

    def splits(self, name: str) -> Mapping[str, Examples]:
        splits = super().splits(name)
        if name != "nlstruct":
            return splits
        return {**splits, "dev": splits["dev"].first(self.recipe.nlstruct.dev_examples)}

    def measure(
        self, name: str, system: System, settings: Any, splits: Mapping[str, Examples], trained: Trained
    ) -> dict[str, Any]:
        metrics: dict[str, Any] = {"alpha": self.alpha, "size": self.size}
        metrics["hidden"] = getattr(settings, "hidden", None) or 0
        for split in ("dev", "test"):
            labels = predictions(system, splits[split].inputs)
            metrics[f"{split}_words"] = 100 * word_accuracy(labels, splits[split].labels)
            metrics[f"{split}_letters"] = 100 * letter_accuracy(labels, splits[split].labels)
        return metrics
