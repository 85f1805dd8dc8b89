"""A frozen base model's scores, computed once and cached on disk by `datasets`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor

from gspen_ner.hosts.huggingface.data import Collator
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.hosts.huggingface.processes import main_first
from gspen_ner.training.documents import in_order

ROWS_AT_ONCE = 1024  # rows that are read at once, and then scored in batches of similar length
SCORING_BATCH = 64


def with_potentials(
    dataset: datasets.Dataset,
    model: GSPENForTokenClassification,
    cache: Path,
    draw: int | None = None,
    own_transitions: bool = False,
) -> datasets.Dataset:
    """Return the dataset with the base model's scores in place of its tokens, kept in files under `cache`.

    Args:
        dataset: sentences.
        model: the base model.
        cache: folder of the files. A file is used again if model, sentences and draw are the same.
        draw: number of a draw of dropout masks; None scores without dropout.
        own_transitions: whether each sentence gets a copy of the transition table that the model's sentences
            share; needed if the term of another model will be trained on the scores.
    """
    digest = _digest(model, dataset, draw, own_transitions)
    cache.mkdir(parents=True, exist_ok=True)
    scores = _Scores(model, draw is not None, own_transitions)
    columns = dict.fromkeys(scores.columns, datasets.List(datasets.Value("float32")))
    kept = {name: kind for name, kind in dataset.features.items() if name != "tokens"}
    was_training = model.scorer.training
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    with main_first(), torch.random.fork_rng():
        torch.manual_seed(-1 if draw is None else draw)
        scored = dataset.map(
            scores.of_table,
            batched=True,
            batch_size=ROWS_AT_ONCE,
            remove_columns=["tokens"],
            features=datasets.Features(kept | columns),
            cache_file_name=str(cache / f"{digest}.arrow"),
            new_fingerprint=digest,
            desc="potentials" if draw is None else f"potentials, dropout draw {draw + 1}",
        )
    model.scorer.train(was_training)
    return scored.with_format("numpy", columns=list(columns), output_all_columns=True)


class _Scores:
    """A model's scores as new columns of a dataset, flat.

    Args:
        model: the model.
        dropout: whether its dropout is on.
        own_transitions: see `with_potentials`.
    """

    def __init__(self, model: GSPENForTokenClassification, dropout: bool, own_transitions: bool) -> None:
        self.model, self.dropout, self.collate = model, dropout, Collator.of(model)
        repeated = own_transitions and model.scorer.crf is not None
        self.columns = ["nodes", "edges"] if model.scorer.has_tables or repeated else ["nodes"]

    def of_table(self, table: dict[str, list[Any]]) -> dict[str, list[np.ndarray]]:
        """Return new columns for some rows, scored in batches of similar length."""
        rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
        columns = {name: [np.empty(0)] * len(rows) for name in self.columns}
        for numbers in in_order(None, [len(row["tokens"]) for row in rows], SCORING_BATCH):
            for name, values in self._of_batch([rows[number] for number in numbers]).items():
                for number, value in zip(numbers, values, strict=True):
                    columns[name][number] = value
        return columns

    @torch.no_grad()
    def _of_batch(self, rows: list[dict[str, Any]]) -> dict[str, list[np.ndarray]]:
        batch, scorer = self.collate(rows), self.model.scorer
        inputs = {name: batch[name].to(self.model.device) for name in scorer.inputs if name in batch}
        potentials, _ = scorer.train(self.dropout)(**inputs)
        lengths = [len(row["tokens"]) for row in rows]
        columns = {"nodes": _cut(potentials.nodes, lengths)}
        if scorer.has_tables:
            columns["edges"] = _cut(potentials.edges, [length - 1 for length in lengths])
        elif "edges" in self.columns:
            columns["edges"] = [potentials.edges.flatten().cpu().numpy()] * len(rows)
        return columns


def _cut(scores: Tensor, lengths: Sequence[int]) -> list[np.ndarray]:
    return [row[:length].flatten().cpu().numpy() for row, length in zip(scores, lengths, strict=True)]


def _digest(model: GSPENForTokenClassification, dataset: datasets.Dataset, *options: object) -> str:
    state = hashlib.sha256(repr((options, model.config.scorer)).encode())
    for name, tensor in model.scorer.state_dict().items():
        state.update(name.encode() + tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    state.update(repr(dataset[:]).encode())
    return state.hexdigest()[:32]
