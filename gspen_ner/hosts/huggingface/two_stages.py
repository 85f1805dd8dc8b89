"""Two-stage training by `transformers.Trainer`: base models, their scores, and the term on top.

    stage folder    checkpoints/ while it is trained, best/ (the best model), done.json after

An interrupted stage continues from its last complete checkpoint, with the same result as without the
interruption. Scores of a frozen base model are computed once, and cached on disk by `datasets`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch import Tensor

from gspen_ner.files import write_folder, write_whole
from gspen_ner.hosts.huggingface.config import Terms
from gspen_ner.hosts.huggingface.context import add_context
from gspen_ner.hosts.huggingface.data import Collator, as_dataset, check_has_documents, tagged_sentences
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.pieces import CONTEXT_COLUMNS, WordReader
from gspen_ner.hosts.huggingface.processes import main_first, to_device
from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageData, train_stage
from gspen_ner.ner.calibration import calibrate
from gspen_ner.recipe import TermTraining, Training, TransformerRecipe, load_recipe
from gspen_ner.scorers import BiLSTMCNN, Vocabulary
from gspen_ner.training.documents import prediction_batches
from gspen_ner.training.score_sources import DEFAULT_SCORES, ScoreSource
from gspen_ner.training.stages import TERM_INFERENCE, needs_make_base, scoring

Model = GSPENForTokenClassification
ROWS_AT_ONCE = 1024  # rows that are read at once, and then scored in batches of similar length
SCORING_BATCH = 64
TEXT_COLUMNS = ("tokens", *CONTEXT_COLUMNS)  # what scores take the place of


class HuggingFaceHost:
    """Trains and scores models of this room, for score sources.

    Args:
        folder: where stages are trained; a stage that is done is not trained again.
        read: returns the training data and the development data for a model.
        make_base: returns a new base model, given the numbers of the training rows that it will see.
        base_training: how base models are trained.
        seed: seed of everything random.
    """

    data: StageData
    """What the term is trained on; see `term_data`."""

    def __init__(
        self,
        folder: Path,
        read: Callable[[Model], StageData],
        make_base: Callable[[Sequence[int]], Model],
        base_training: Training,
        seed: int,
    ) -> None:
        self.folder, self.read, self.make_base = folder, read, make_base
        self.base_training, self.seed, self.fold_seed = base_training, seed, seed
        self.cache = folder / "potentials"

    def stage(
        self,
        name: str,
        make_model: Callable[[], Model],
        training: Training,
        data: Callable[[Model], StageData],
    ) -> Path:
        """Train a model, or continue its training, or find it trained; return the folder of the best one.

        Args:
            name: name of the stage's folder.
            make_model: returns the untrained model.
            training: how it is trained.
            data: returns what it is trained on.
        """
        folder = self.folder / name
        done = folder / "done.json"
        if not done.exists():
            torch.manual_seed(self.seed)
            model = to_device(make_model())
            seconds = train_stage(model, training, folder, data(model), self.seed)
            with main_first() as first:
                if first:
                    write_whole(done, json.dumps({"seconds_an_epoch": seconds}) + "\n")
                    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return folder / "best"

    def term_data(self, model: Model, source: ScoreSource) -> StageData:
        """Return the scores that the term of a model with a frozen base is trained on."""
        self.data = self.read(model)
        versions = source.versions(self, model)
        dev = with_potentials(self.data.dev, model, self.cache)
        return StageData(datasets.concatenate_datasets(versions), dev, len(versions))

    @property
    def documents(self) -> Sequence[int]:
        """Document of each training row."""
        return self.data.train[:]["document"]

    def fit(self, name: str, rows: Sequence[int], epochs: int | None) -> Model:
        """Return a new base model, trained on some of the training rows."""
        training = self.base_training.model_copy(update={"epochs": epochs or self.base_training.epochs})

        def part(model: Model) -> StageData:
            whole = self.read(model)
            return StageData(whole.train.select(rows), whole.dev)

        self.stage(name, functools.partial(self.make_base, rows), training, part)
        return self.load(self.folder, name)

    def load(self, folder: str | Path, name: str) -> Model:
        """Return a base model that was trained in a run's folder."""
        return to_device(load_model(Path(folder, name, "best")).eval())

    def score(
        self, base: Model, rows: Sequence[int] | None = None, draw: int | None = None
    ) -> datasets.Dataset:
        """Return training rows with scores in place of tokens."""
        train = self.data.train if rows is None else self.data.train.select(rows)
        return with_potentials(train, base, self.cache, draw, own_transitions=rows is not None)

    def join(self, parts: Sequence[tuple[Sequence[int], datasets.Dataset]]) -> datasets.Dataset:
        """Return the rows of all parts, one part after the other."""
        return datasets.concatenate_datasets([part for _, part in parts])


def train_term(
    model: Model,
    train: datasets.Dataset,
    dev: datasets.Dataset,
    folder: str | Path,
    *,
    terms: Terms = ("document",),
    inference: Mapping[str, Any] = TERM_INFERENCE,
    scores: ScoreSource = DEFAULT_SCORES,
    make_base: Callable[[datasets.Dataset], Model] | None = None,
    base_training: Training | None = None,
    training: TermTraining | None = None,
    seed: int = 1,
) -> Model:
    """Train a global term on top of a trained model, whose own weights stay as they are.

    Rows have `tokens`, `ner_tags` (or `labels`) numbered by `model.config.id2label` and, for a document term,
    `document`, equal for the sentences of one document.

    Args:
        model: the trained base model; a global term that it has is replaced.
        train: the rows that it was trained on.
        dev: rows that decide which weights are best.
        folder: where stages are trained; call again with the same folder to continue after an interruption.
        terms: global terms, by name or as entries with options.
        inference: options of `GSPENHead`; by default at most 5 steps.
        scores: which scores the term learns from; by default `CrossFit(2)`.
        make_base: returns a new base model for rows that it will be trained on, for cross-fitting. By default
            `untrained_copy` of a BiLSTM-CNN; needed for a transformer, whose pretrained weights are not known
            any more.
        base_training: how these are trained; by default as the recipe `transformer` trains a transformer, or
            as recipes train a BiLSTM-CNN by default.
        training: how the term is trained; by default 8 epochs with a falling learning rate of 0.01.
        seed: seed of everything random.

    Returns:
        The model with its trained term, as it is best on `dev`, by which its confidences are calibrated; also
        saved in `folder/term/best`.

    Example:
        >>> import tempfile
        >>> from gspen_ner.scorers import Vocabulary
        >>> from gspen_ner.training import Plain
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> model = Model.from_vocabulary(vocabulary, ["O", "B-PER", "I-PER"], hidden=4)
        >>> columns = {"tokens": [["Ann", "left"]], "ner_tags": [[1, 0]], "document": [0]}
        >>> rows = datasets.Dataset.from_dict(columns)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     quick = TermTraining(epochs=1)
        ...     better = train_term(model, rows, rows, folder, scores=Plain(), training=quick)
        >>> better.config.system
        'gspen'
    """
    folder = Path(folder)
    sentences = tagged_sentences(dev, model.bio)
    parts = (tagged_sentences(train, model.bio), sentences)
    data = StageData(*(add_context(as_dataset(part, model.bio), model) for part in parts))

    def read(reader: Model) -> StageData:
        for rows in (train, dev) if reader.couples_documents else ():
            check_has_documents(rows)
        return data

    def new_base(rows: Sequence[int]) -> Model:
        seen = train.select(rows)
        base = untrained_copy(model, seen["tokens"]) if make_base is None else make_base(seen)
        if base.config.has_term:
            raise ValueError(
                f"expected a base model without global terms from make_base, got a {base.config.system} model"
            )
        return base

    host = HuggingFaceHost(folder, read, new_base, base_training or usual_training(model), seed)
    how = training or TermTraining(epochs=8, batch_size=32, learning_rate=0.01, schedule="linear")
    folder.mkdir(parents=True, exist_ok=True)
    best = host.stage(
        "term",
        lambda: model.with_terms(terms, inference).freeze(),
        how,
        lambda upgraded: host.term_data(upgraded, scores),
    )
    with main_first() as first:
        if first:
            tagger = Tagger.load(best)
            calibrate(tagger, sentences)
            write_folder(best, tagger.save)
    return load_model(best)


def untrained_copy(model: Model, sentences: Sequence[Sequence[str]]) -> Model:
    """Return a BiLSTM-CNN like this one with new weights and without global terms.

    Args:
        model: the model.
        sentences: the sentences that it will be trained on; its vocabulary has the words of these.

    Raises:
        ValueError: for a model whose first weights are not known any more: a transformer, or a BiLSTM-CNN
            with pretrained word vectors.
    """
    if not isinstance(model.scorer, BiLSTMCNN) or not isinstance(model.reader, WordReader):
        raise needs_make_base("the pretrained weights of a fine-tuned transformer are not known any more")
    sizes = model.reader.sizes()
    if sizes["fixed_words"]:
        raise needs_make_base("the pretrained word vectors of a trained model are not known any more")
    options = {name: value for name, value in model.config.scorer.items() if name not in sizes}
    vocabulary = Vocabulary.of_sentences(sentences)
    return Model.from_vocabulary(vocabulary, model.bio.names, scheme=model.config.scheme, **options)


def usual_training(model: Model) -> Training:
    """Return how recipes train a base model like this one by default."""
    if model.config.encoder is None:
        return Training()
    recipe = load_recipe("transformer", ["encoder=any"])
    assert isinstance(recipe, TransformerRecipe)
    return recipe.base_training


def with_potentials(
    dataset: datasets.Dataset,
    model: Model,
    cache: Path,
    draw: int | None = None,
    own_transitions: bool = False,
) -> datasets.Dataset:
    """Return the dataset with the base model's scores in place of its tokens, kept in files under `cache`.

    Args:
        dataset: rows of sentences.
        model: the base model.
        cache: folder of the files. A file is used again if model, sentences and draw are the same.
        draw: number of a draw of dropout masks; None (default) scores without dropout.
        own_transitions: whether each sentence gets a copy of the transition table that the model's sentences
            share, default False; needed if the term of another model will be trained on the scores.
    """
    digest = _digest(model, dataset, draw, own_transitions)
    cache.mkdir(parents=True, exist_ok=True)
    has_edges = model.scorer.has_tables or (own_transitions and model.scorer.crf is not None)
    columns = ["nodes", "edges"] if has_edges else ["nodes"]
    features = {name: feature for name, feature in dataset.features.items() if name not in TEXT_COLUMNS}
    features |= dict.fromkeys(columns, datasets.List(datasets.Value("float32")))
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    with main_first(), scoring(model.scorer, draw):
        scored = dataset.map(
            functools.partial(_scores_of, model, columns),
            batched=True,
            batch_size=ROWS_AT_ONCE,
            remove_columns=[name for name in TEXT_COLUMNS if name in dataset.column_names],
            features=datasets.Features(features),
            cache_file_name=str(cache / f"{digest}.arrow"),
            new_fingerprint=digest,
            desc="potentials" if draw is None else f"potentials, dropout draw {draw + 1}",
        )
    return scored.with_format("numpy", columns=columns, output_all_columns=True)


def _scores_of(model: Model, columns: Sequence[str], table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the scores of some rows as new columns, flat, computed in batches of similar length."""
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    lengths = [len(row["tokens"]) for row in rows]
    collate, scorer = Collator.of(model), model.scorer
    scores: dict[str, list[Any]] = {name: [None] * len(rows) for name in columns}
    for numbers in prediction_batches(None, lengths, SCORING_BATCH):
        batch = collate([rows[number] for number in numbers])
        inputs = {name: batch[name].to(model.device) for name in scorer.inputs if name in batch}
        potentials, _ = scorer(**inputs)
        nodes, edges = potentials.nodes, potentials.edges
        for row, number in enumerate(numbers):
            scores["nodes"][number] = _flat(nodes[row, : lengths[number]])
            if "edges" in scores:
                tables = edges[row, : lengths[number] - 1] if scorer.has_tables else edges
                scores["edges"][number] = _flat(tables)
    return scores


def _flat(scores: Tensor) -> np.ndarray:
    return scores.flatten().cpu().numpy()


def _digest(model: Model, dataset: datasets.Dataset, *options: object) -> str:
    state = hashlib.sha256(repr((options, model.config.scorer)).encode())
    for name, tensor in model.scorer.state_dict().items():
        state.update(name.encode() + tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    state.update(repr(dataset[:]).encode())
    return state.hexdigest()[:32]
