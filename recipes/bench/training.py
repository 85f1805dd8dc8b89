"""One epoch of GSPEN beside one of its CRF, and of the CRF beside the same tagger with pytorch-crf.

All are trained by the same trainer on the same sentences in batches of the same size, in turns; an epoch is
measured without evaluation and checkpoints. Ratios are CRF time / GSPEN time: 4x is 0.25 of the CRF's time.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from gspen_ner.files import write_folder
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, TaggingOutput
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer
from gspen_ner.polytopes import Chain
from gspen_ner.recipe import Recipe, load_recipe
from gspen_ner.runs.huggingface_run import HuggingFaceRun
from gspen_ner.runs.models import new_base, with_term
from gspen_ner.scorers.bilstm_cnn import BiLSTMCNN, padded
from recipes.bench.timing import Row

BATCH_SIZE = 32
TERMS = ("padded_mlp", "convolution", "document")
CRF_EPOCH, PYTORCH_CRF_EPOCH = "CRF, one epoch", "the same with pytorch-crf 0.7.2"


def bars(case: str) -> dict[tuple[str, str, str], float]:
    """The ratios wanted."""
    frozen = {(case, f"GSPEN ({term}), base frozen", CRF_EPOCH): 4.0 for term in TERMS}
    trained = {(case, f"GSPEN ({term}), all trained", CRF_EPOCH): 0.77 for term in TERMS}
    return frozen | trained


def recipe_of(term: str, documents: int | None) -> tuple[str, Recipe]:
    """CoNLL-2003 where GSPEN_DATA names it, else generated documents; some of them or all."""
    if "GSPEN_DATA" in os.environ:
        share = 1.0 if documents is None else min(1.0, documents / 946)
        case, changes = f"{share:.0%} of CoNLL-2003", [f"data.fraction={share}"]
    else:
        count = documents or 1400  # about as many sentences as CoNLL-2003
        case = f"newswire, {count} documents"
        changes = [f"data.train=newswire:{count}:1", "data.dev=newswire:5:2", "data.test=newswire:5:3"]
        changes.append("scorer.word_vectors=null")
    recipe = load_recipe(f"conll03_fast_{term}", [*changes, "term_training.dropout_draws=0"])
    return case, Recipe.model_validate(recipe.model_dump())


def contestants(
    documents: int | None, folder: Path, terms: Sequence[str] = TERMS
) -> Iterator[tuple[str, StageTrainer]]:
    """Name and trainer of each; the CRF has been trained for an epoch, and terms stand on that one."""
    recipe = recipe_of(TERMS[0], documents)[1]
    run = HuggingFaceRun(recipe, folder / "run")
    base = new_base(recipe, run.corpus)
    if find_spec("torchcrf") is not None:
        peer = _PytorchCRFTagger(base.config, base.reader)
        yield PYTORCH_CRF_EPOCH, _trainer(run, peer, run.sentences(peer), folder / "pytorch_crf")
    crf = _trainer(run, base, run.sentences(base), folder / "crf")
    crf.train()
    write_folder(folder / "base", base.save_pretrained)
    yield CRF_EPOCH, crf
    for term in terms:
        for freeze in ("base", "none"):
            recipe = recipe_of(term, documents)[1]
            training = recipe.term_training.model_copy(update={"freeze": freeze})
            place = folder / f"{term}-{freeze}"
            run = HuggingFaceRun(recipe.model_copy(update={"term_training": training}), place)
            model = with_term(folder / "base", run.recipe, run.corpus)
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


def run_training(
    documents: int | None, rounds: int, terms: Sequence[str] = TERMS
) -> tuple[str, list[Row], dict[str, float]]:
    """Measure all, in turns, after a first epoch that does not count; also mean steps of inference."""
    case = recipe_of(TERMS[0], documents)[0]
    seconds: dict[str, list[float]] = {}
    steps: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        trainers = dict(contestants(documents, Path(place), terms))
        for turn in range(rounds + 1):
            for name, trainer in trainers.items():
                trainer.train()
                last = next(entry for entry in trainer.state.log_history[::-1] if "seconds" in entry)
                if turn:
                    seconds.setdefault(name, []).append(1e3 * last["seconds"])
                if "inference_steps" in last:
                    steps[name] = last["inference_steps"]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    crf = medians.pop(CRF_EPOCH)
    rows = [Row(case, name, value, CRF_EPOCH, crf) for name, value in medians.items() if "GSPEN" in name]
    if PYTORCH_CRF_EPOCH in medians:
        rows.insert(0, Row(case, CRF_EPOCH, crf, PYTORCH_CRF_EPOCH, medians[PYTORCH_CRF_EPOCH]))
    return case, rows, steps


class _PytorchCRFTagger(GSPENForTokenClassification):
    """The same encoder, learning by pytorch-crf's layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import torchcrf

        super().__init__(*args, **kwargs)
        self.scorer.add_module("peer", torchcrf.CRF(len(self.labels.names), batch_first=True))

    def forward(self, **batch: Tensor) -> TaggingOutput:  # type: ignore[override]
        inputs = (batch[name] for name in ("words", "spellings", "spelling_at", "lengths"))
        mask = Chain(batch["lengths"]).mask(batch["words"].shape[1])
        assert isinstance(self.scorer, BiLSTMCNN)
        emissions = padded(self.scorer.emissions(self.scorer.encode(*inputs)), mask)
        layer = self.scorer.get_submodule("peer")
        gold = self.bio.to_chain(batch["labels"], batch["lengths"])
        return TaggingOutput(loss=-layer(emissions, gold, mask, reduction="mean"))
