"""One epoch of GSPEN against one of its CRF, and of the CRF against the same tagger with pytorch-crf.

All are trained by the same trainer on the same sentences with the same batch size. Evaluation and checkpoints
are not timed. Ratios are CRF time / GSPEN time: 4x means that GSPEN's epoch takes a quarter of the CRF's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from gspen_ner.files import write_folder
from gspen_ner.hosts.huggingface import as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, TaggingOutput
from gspen_ner.hosts.huggingface.trainer import StageData, StageTrainer
from gspen_ner.polytopes import Chain
from gspen_ner.recipe import Recipe, load_recipe
from gspen_ner.runs.huggingface_run import HuggingFaceRun, new_base, with_term
from gspen_ner.scorers.bilstm_cnn import BiLSTMCNN, padded
from gspen_ner.training import Plain
from recipes.bench.timing import Row, Targets, take_rounds

BATCH_SIZE = 32
TERMS = ("padded_mlp", "convolution", "document")
CRF_EPOCH, PYTORCH_CRF_EPOCH = "CRF, one epoch", "the same with pytorch-crf 0.7.2"


def targets(case: str) -> Targets:
    """Return the wanted ratios."""
    frozen = {(case, f"GSPEN ({term}), base frozen", CRF_EPOCH): 4.0 for term in TERMS}
    trained = {(case, f"GSPEN ({term}), all trained", CRF_EPOCH): 0.77 for term in TERMS}
    return frozen | trained


def recipe_of(term: str, documents: int | None) -> tuple[str, Recipe]:
    """Return a name for the data, and the recipe of a term.

    Training documents (all by default) are of CoNLL-2003 if GSPEN_DATA is set, and otherwise generated.
    """
    if "GSPEN_DATA" in os.environ:
        share = 1.0 if documents is None else min(1.0, documents / 946)
        case, changes = f"{share:.0%} of CoNLL-2003", [f"data.fraction={share}"]
    else:
        count = documents or 1400  # about as many sentences as CoNLL-2003
        case = f"newswire, {count} documents"
        changes = [f"data.train=newswire:{count}:1", "data.dev=newswire:5:2", "data.test=newswire:5:3"]
        changes.append("scorer.word_vectors=null")
    recipe = load_recipe(f"conll03_fast_{term}", changes)
    return case, Recipe.model_validate(recipe.model_dump())


def trainers(
    documents: int | None, folder: Path, terms: Sequence[str] = TERMS
) -> Iterator[tuple[str, StageTrainer]]:
    """Yield the name and trainer of each model; the terms start from a CRF trained for one epoch."""
    run = HuggingFaceRun(recipe_of(TERMS[0], documents)[1], folder / "run")
    base = new_base(run.recipe, run.corpus)
    if find_spec("torchcrf") is not None:
        yield PYTORCH_CRF_EPOCH, _trainer(run, _PytorchCRFTagger(base.config, base.reader), folder / "peer")
    crf = _trainer(run, base, folder / "crf")
    crf.train()
    write_folder(folder / "base", base.save_pretrained)
    yield CRF_EPOCH, crf
    for term in terms:
        for freeze, name in (("base", "base frozen"), ("none", "all trained")):
            recipe = recipe_of(term, documents)[1]
            training = recipe.term_training.model_copy(update={"freeze": freeze})
            stage = folder / f"{term}-{freeze}"
            run = HuggingFaceRun(recipe.model_copy(update={"term_training": training}), stage)
            model = with_term(folder / "base", run.recipe, run.corpus)
            yield f"GSPEN ({term}), {name}", _trainer(run, model, stage)


def _trainer(run: HuggingFaceRun, model: GSPENForTokenClassification, folder: Path) -> StageTrainer:
    training = run.recipe.term_training if model.config.terms else run.recipe.base_training
    if model.config.terms and run.recipe.term_training.freeze == "base":
        data = run.host.term_data(model, Plain())
    else:
        data = StageData(as_dataset(run.corpus.train, model.bio), as_dataset(run.corpus.dev))
    one_epoch = training.model_copy(update={"epochs": 1, "batch_size": BATCH_SIZE, "average": 0.0})
    small_dev = StageData(data.train, data.dev.select(range(min(16, len(data.dev)))), data.versions)
    return StageTrainer(model, one_epoch, folder, small_dev, seed=run.recipe.seed)


def _last_epoch(trainer: StageTrainer) -> dict[str, float]:
    return next(entry for entry in reversed(trainer.state.log_history) if "seconds" in entry)


def _epoch_seconds(trainer: StageTrainer) -> float:
    trainer.train()
    return _last_epoch(trainer)["seconds"]


def run_training(
    documents: int | None, rounds: int, terms: Sequence[str] = TERMS
) -> tuple[str, list[Row], dict[str, float]]:
    """Time an epoch of each model in alternating rounds.

    Returns:
        A name for the data, the rows, and the mean number of inference steps of each GSPEN.
    """
    case = recipe_of(TERMS[0], documents)[0]
    with tempfile.TemporaryDirectory() as folder:
        models = dict(trainers(documents, Path(folder), terms))
        medians = take_rounds({name: partial(_epoch_seconds, models[name]) for name in models}, rounds)
    last = {name: _last_epoch(trainer) for name, trainer in models.items()}
    steps = {name: entry["inference_steps"] for name, entry in last.items() if "inference_steps" in entry}
    crf = medians.pop(CRF_EPOCH)
    rows = [Row(case, name, value, CRF_EPOCH, crf) for name, value in medians.items() if "GSPEN" in name]
    if PYTORCH_CRF_EPOCH in medians:
        rows.insert(0, Row(case, CRF_EPOCH, crf, PYTORCH_CRF_EPOCH, medians[PYTORCH_CRF_EPOCH]))
    return case, rows, steps


class _PytorchCRFTagger(GSPENForTokenClassification):
    """The same encoder trained with pytorch-crf's layer."""

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
