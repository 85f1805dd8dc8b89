"""What a recipe may say: a base model, its training, and a global term on top."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Relation = Literal["word", "word_and_next", "previous_and_word", "slot", "wide_slot", "shape"]


class Section(BaseModel):
    """A group of entries; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def as_yaml(self) -> str:
        """The section, or the whole recipe, with every entry written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


class Data(Section):
    """Where sentences come from; see `gspen_ner.ner.sources`."""

    train: str = Field(description="what is learned from")
    dev: str = Field(description="what the best model and its settings are chosen by")
    test: str | None = Field(None, description="what is reported; may be left out")
    token_column: int | str = Field(0, description="number in a file of columns, name in a dataset")
    tag_column: int | str = Field(-1, description="likewise, of the tags")
    scheme: Literal["auto", "IOB1", "BIO", "BIOES"] = Field(
        "auto", description="of the tags in the data; found out if not said"
    )
    strict: bool = Field(False, description="refuse illegal tag sequences instead of repairing them")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the training documents that is used")


class Scorer(Section):
    """The BiLSTM-CNN; see `gspen_ner.scorers.BiLSTMCNN`."""

    scheme: Literal["BIO", "BIOES"] = Field("BIOES", description="of the chain's labels")
    transitions: Literal["shared", "bigram"] = Field(
        "shared", description="one table of scores for all neighbours, or one that depends on the words"
    )
    word_vectors: str | None = Field(None, description="file in GloVe's text format, plain or gzipped")
    word_size: int = Field(100, ge=1, description="of the word vectors")
    character_size: int = Field(30, ge=1, description="of the character vectors")
    filters: int = Field(30, ge=1, description="of the convolution over characters")
    width: int = Field(3, ge=1, description="of its windows, in characters")
    hidden: int = Field(256, ge=1, description="units of the LSTM in each direction")
    projection: int = Field(256, ge=1, description="units between the LSTM and the scores")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words and of spellings left out whole")
    input_dropout: float = Field(0.5511, ge=0, lt=1, description="of what the network reads")
    output_dropout: float = Field(0.5, ge=0, lt=1, description="of what the LSTM says")


class Training(Section):
    """How one stage is trained.

    Example:
        >>> Training(schedule="linear", warmup=0.1).epochs
        20
    """

    epochs: int = Field(20, ge=1, description="passes over the training data")
    batch_size: int = Field(16, ge=1, description="sentences; with a document term, about so many")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="how weights are updated")
    learning_rate: float = Field(1e-3, gt=0, description="of the first update")
    output_learning_rate: float | None = Field(None, gt=0, description="of a transformer's output layer")
    transitions_learning_rate: float | None = Field(None, gt=0, description="of transition scores")
    weight_decay: float = Field(0.0, ge=0, description="of the matrices of the base model")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    nesterov: bool = Field(False, description="of sgd: Nesterov's momentum")
    schedule: Literal["constant", "linear", "inverse_time"] = Field(
        "constant", description="how the rate changes"
    )
    decay: float = Field(0.05, ge=0, description="of inverse_time: rate / (1 + decay * epoch)")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the updates in which the rate rises")
    precision: Literal["float32", "bf16", "fp16"] = Field("float32", description="of the encoder")
    clip: float = Field(5.0, ge=0, description="largest norm of a gradient; 0 for any")
    average: float = Field(0.0, ge=0, lt=1, description="decay of a moving average of the weights")
    patience: int | None = Field(None, ge=1, description="epochs without a better F1 before stopping")
    loggers: tuple[str, ...] = Field((), description="what else Trainer reports to, such as tensorboard")


class TermTraining(Training):
    """How the global term is trained on top of the base model.

    Example:
        >>> TermTraining(dropout_draws=4).freeze
        'base'
    """

    freeze: Literal["base", "none"] = Field("base", description="train the term alone, or everything")
    base_learning_rate: float | None = Field(None, gt=0, description="of the base model, if not frozen")
    dropout_draws: int = Field(0, ge=0, description="frozen base: scores with dropout on, so many versions")
    folds: int = Field(0, ge=0, description="frozen base: cross-fitted scores, of so many base models")
    fold_epochs: int | None = Field(
        None, ge=1, description="of each of these; those of the base if not given"
    )
    folds_of: str | None = Field(None, description="a run whose cross-fitted base models serve once more")

    @model_validator(mode="after")
    def _check(self) -> TermTraining:
        if self.freeze == "none" and (self.dropout_draws or self.folds):
            raise ValueError("dropout_draws and folds need freeze: base")
        if self.folds == 1:
            raise ValueError("folds must be 0 or at least 2")
        if self.dropout_draws and self.folds:
            raise ValueError("give dropout_draws or folds, not both")
        if self.folds_of is not None and not self.folds:
            raise ValueError("folds_of needs folds")
        return self


class PaddedMLPTerm(Section):
    """The paper's term."""

    name: Literal["padded_mlp"]
    max_length: int | None = Field(None, ge=1, description="the longest training sentence if not given")
    hidden: int = Field(500, ge=1, description="hidden units")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the term's inputs")
    edge_inputs: Literal["none", "counts", "positions"] = Field(
        "none", description="what the term sees of edges: nothing, counts, or each by itself"
    )
    read_potentials: bool = Field(False, description="whether the term sees the scores too")


class ConvolutionTerm(Section):
    """A convolution over marginals."""

    name: Literal["convolution"]
    hidden: int = Field(100, ge=1, description="filters")
    width: int = Field(5, ge=1, description="of a window, in words; odd")


class DocumentTerm(Section):
    """Document consistency."""

    name: Literal["document"]
    relations: tuple[Relation, ...] = Field(
        get_args(Relation), min_length=1, description="what ties tokens of a document to each other"
    )

    @field_validator("relations")
    @classmethod
    def _different(cls, relations: tuple[Relation, ...]) -> tuple[Relation, ...]:
        if len(set(relations)) < len(relations):
            raise ValueError("each may be named once")
        return relations


class SharpnessTerm(Section):
    """One learned number, a control."""

    name: Literal["sharpness"]


class MirrorDescentSolver(Section):
    """See `gspen_ner.MirrorDescent`."""

    name: Literal["mirror_descent"] = "mirror_descent"
    step_size: float = Field(1.0, gt=0, description="of the first step")
    schedule: Literal["backtracking", "sqrt"] = Field("backtracking", description="how long a step is")


class FrankWolfeSolver(Section):
    """See `gspen_ner.FrankWolfe`."""

    name: Literal["frank_wolfe"]
    schedule: Literal["line_search", "harmonic"] = Field("line_search", description="how long a step is")
    oracle: Literal["smooth", "vertex"] = Field(
        "smooth", description="what it walks towards where there is entropy"
    )
    start: Literal["marginals", "maximiser"] = Field(
        "marginals", description="where it starts without entropy"
    )


class SaddlePointSolver(Section):
    """See `gspen_ner.SaddlePoint`; for NLStruct only."""

    name: Literal["saddle_point"]
    average_after: int = Field(50, ge=0, description="steps before the average begins")
    step_size: float = Field(0.9, gt=0, description="relative to what the largest score allows")


class Inference(Section):
    """See `gspen_ner.GSPENHead`.

    Example:
        >>> Inference(solver={"name": "frank_wolfe"}, max_steps=5).solver.schedule
        'line_search'
    """

    solver: Annotated[
        MirrorDescentSolver | FrankWolfeSolver | SaddlePointSolver, Field(discriminator="name")
    ] = MirrorDescentSolver()
    temperature: float = Field(
        1.0, ge=0, description="weight of the entropy; 1 for marginals, 0 for the best labelling"
    )
    cost: float = Field(1.0, ge=0, description="weight of the Hamming cost in training")
    loss: Literal["hinge", "fixed_point", "f1"] = Field(
        "hinge", description="structured hinge, or likelihood or F1 at the fixed point"
    )
    positive_part: bool = Field(True, description="cut negative losses off")
    max_steps: int = Field(10, ge=1, description="of inference")
    tolerance: float = Field(1e-2, ge=0, description="of the residual at which inference ends")
    stop: Literal["gap", "change"] = Field(
        "gap", description="the residual: the solver's gap, or the change of the objective"
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_solver(cls, entries: Any) -> Any:
        if isinstance(entries, dict) and isinstance(entries.get("solver"), dict):
            entries = entries | {"solver": {"name": "mirror_descent"} | entries["solver"]}
        return entries


Term = Annotated[PaddedMLPTerm | ConvolutionTerm | DocumentTerm | SharpnessTerm, Field(discriminator="name")]


class Experiment(Section):
    """What all experiments have.

    Example:
        >>> Experiment(data={"train": "newswire:40:1", "dev": "newswire:5:2"}).seed
        1
    """

    description: str = Field("", description="what it is, for people")
    seed: int = Field(1, ge=0, description="of everything random")
    trials: int = Field(1, ge=1, description="repetitions, each with the next seed")
    drop_worst: int = Field(0, ge=0, description="trials whose base model is worst on dev, left out")
    data: Data
    base: str | None = Field(None, description="a run or model to start from instead of training one")
    terms: tuple[Term, ...] = Field((), description="global terms, which are summed")
    inference: Inference = Inference()


class TrainedHere(Experiment):
    """An experiment that `transformers.Trainer` runs: a base model and perhaps a global term on top of it.

    Example:
        >>> data = {"train": "newswire:40:1", "dev": "newswire:5:2"}
        >>> TrainedHere(system="struct", data=data).structured
        True
    """

    host: Literal["huggingface"] = "huggingface"
    system: Literal["unary", "struct", "spen", "gspen"] = Field(
        "gspen", description="unary, struct (a CRF), spen or gspen"
    )
    base_training: Training = Training()
    term_training: TermTraining = TermTraining()
    decoder: Literal["viterbi", "spans"] = Field(
        "viterbi",
        description="entities of the trained model: those of the likeliest labelling, or all that are "
        "likelier than not; epochs are compared by the first, which is faster",
    )

    @model_validator(mode="after")
    def _check(self) -> TrainedHere:
        check_experiment(self, self.system)
        return self

    @property
    def structured(self) -> bool:
        """Whether the base model scores neighbouring labels."""
        return self.system in ("struct", "gspen")


class Recipe(TrainedHere):
    """An experiment with the BiLSTM-CNN.

    Example:
        >>> data = {"train": "newswire:40:1", "dev": "newswire:5:2"}
        >>> Recipe(data=data, terms=[{"name": "document"}]).system
        'gspen'
    """

    scorer: Scorer = Scorer()

    @property
    def scheme(self) -> Literal["BIO", "BIOES"]:
        """Of the labels of the chain."""
        return self.scorer.scheme


def check_experiment(recipe: Experiment, system: str) -> None:
    """What entries must be to each other."""
    if system in ("spen", "gspen") and not recipe.terms:
        raise ValueError(f"terms: system {system} needs at least one")
    if recipe.drop_worst >= recipe.trials:
        raise ValueError(f"drop_worst: {recipe.drop_worst} of {recipe.trials} trials would leave none")
    if recipe.base is not None and recipe.trials > 1:
        raise ValueError("base: trials train base models of their own; leave it out")
