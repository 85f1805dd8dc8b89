"""One epoch of GSPEN beside one of its CRF, and of the CRF beside the same tagger with pytorch-crf.

All are trained by the same trainer on the same sentences in batches of the same size, in turns; an epoch is
measured without evaluation and checkpoints. Ratios are CRF time / GSPEN time: 4x is 0.25 of the CRF's time.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from gspen_ner.bench.timing import Row
from gspen_ner.experiments.huggingface_run import HuggingFaceRun
from gspen_ner.experiments.models import new_base, with_term
from gspen_ner.files import write_folder
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, TaggingOutput
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer
from gspen_ner.polytopes import Chain
from gspen_ner.recipe import Recipe, load_recipe
from gspen_ner.scorers.bilstm_cnn import padded

BATCH_SIZE = 32
TERMS = ("padded_mlp", "document")
CRF_EPOCH, PYTORCH_CRF_EPOCH = "CRF, one epoch", "the same with pytorch-crf 0.7.2"


def bars(case: str) -> dict[tuple[str, str, str], float]:
    """The ratios wanted."""
    frozen = {(case, f"GSPEN ({term}), base frozen", CRF_EPOCH): 4.0 for term in TERMS}
    trained = {(case, f"GSPEN ({term}), all trained", CRF_EPOCH): 1 / 1.3 for term in TERMS}
    return frozen | trained


def recipe_of(documents: int | None) -> tuple[str, Recipe]:
    """CoNLL-2003 where GSPEN_DATA names it, else generated documents; some of them or all."""
    if "GSPEN_DATA" in os.environ:
        recipe = Recipe.model_validate(load_recipe("conll03_fast").model_dump())
        share = 1.0 if documents is None else min(1.0, documents / 946)
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"fraction": share})})
        return "CoNLL-2003" if share == 1 else f"{share:.0%} of CoNLL-2003", recipe
    count = documents or 1400  # about as many sentences as CoNLL-2003
    names = [f"data.train=newswire:{count}:1", "data.dev=newswire:5:2", "data.test=newswire:5:3"]
    generated = load_recipe("conll03_fast", [*names, "scorer.word_vectors=null"])
    return f"newswire, {count} documents", Recipe.model_validate(generated.model_dump())


def contestants(recipe: Recipe, folder: Path) -> Iterator[tuple[str, StageTrainer]]:
    """Name and trainer of each."""
    run = HuggingFaceRun(recipe, folder / "run")
    base = new_base(recipe, run.corpus)
    write_folder(folder / "base", base.save_pretrained)
    yield CRF_EPOCH, _trainer(run, base, run.sentences(base), folder / "crf")
    if find_spec("torchcrf") is not None:
        peer = _PytorchCRFTagger(base.config, base.vocabulary)
        yield PYTORCH_CRF_EPOCH, _trainer(run, peer, run.sentences(peer), folder / "pytorch_crf")
    for term in TERMS:
        for freeze in ("base", "none"):
            wanted = {"name": term} | ({"dropout": 0.75} if term == "padded_mlp" else {})
            training = {"freeze": freeze, "dropout_draws": 0, "learning_rate": 1e-3}
            changed = Recipe.model_validate(
                recipe.model_dump() | {"terms": [wanted], "term_training": training}
            )
            place = folder / f"{term}-{freeze}"
            run = HuggingFaceRun(changed, place)
            model = with_term(folder / "base", changed, run.corpus)
            data = run.potentials(model) if freeze == "base" else run.sentences(model)
            what = "base frozen" if freeze == "base" else "all trained"
            yield f"GSPEN ({term}), {what}", _trainer(run, model, data, place)


def _trainer(
    run: HuggingFaceRun, model: GSPENForTokenClassification, data: StageData, folder: Path
) -> StageTrainer:
    training = run.recipe.base_training if model.head is None else run.recipe.term_training
    once = training.model_copy(update={"epochs": 1, "batch_size": BATCH_SIZE, "average": 0.0})
    few = StageData(data.train, data.dev.select(range(min(16, len(data.dev)))), data.draws)
    return StageTrainer(model, once, folder, few, seed=run.recipe.seed)


def run_training(documents: int | None, rounds: int) -> tuple[str, list[Row]]:
    """Measure all, in turns, after a first epoch that does not count."""
    case, recipe = recipe_of(documents)
    with tempfile.TemporaryDirectory() as place:
        trainers = dict(contestants(recipe, Path(place)))
        seconds: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(rounds + 1):
            for name, trainer in trainers.items():
                trainer.train()
                found = [entry["seconds"] for entry in trainer.state.log_history if "seconds" in entry]
                if turn:
                    seconds[name].append(1e3 * found[-1])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    crf = medians.pop(CRF_EPOCH)
    rows = [Row(case, name, value, CRF_EPOCH, crf) for name, value in medians.items() if "GSPEN" in name]
    if PYTORCH_CRF_EPOCH in medians:
        rows.insert(0, Row(case, CRF_EPOCH, crf, PYTORCH_CRF_EPOCH, medians[PYTORCH_CRF_EPOCH]))
    return case, rows


class _PytorchCRFTagger(GSPENForTokenClassification):
    """The same encoder, learning by pytorch-crf's layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import torchcrf

        super().__init__(*args, **kwargs)
        self.scorer.add_module("peer", torchcrf.CRF(self.config.num_labels, batch_first=True))

    def forward(self, **batch: Tensor) -> TaggingOutput:  # type: ignore[override]
        inputs = (batch[name] for name in ("words", "spellings", "spelling_at", "lengths"))
        mask = Chain(batch["lengths"]).mask(batch["words"].shape[1])
        emissions = padded(self.scorer.emissions(self.scorer.encode(*inputs)), mask)
        layer = self.scorer.get_submodule("peer")
        return TaggingOutput(loss=-layer(emissions, batch["labels"], mask, reduction="mean"))
