"""What a recipe may say: a base model, its training, and a global term on top."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gspen_ner.components import Section, section_of
from gspen_ner.head import GSPENHead
from gspen_ner.scorers import BiLSTMCNN
from gspen_ner.terms import TERMS


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


class Scorer(section_of(BiLSTMCNN)):  # type: ignore[misc]
    """The BiLSTM-CNN: its options, and what is read from the data; see `gspen_ner.scorers.BiLSTMCNN`."""

    scheme: Literal["BIO", "BIOES"] = Field("BIOES", description="tagging scheme of the chain's labels")
    word_vectors: str | None = Field(
        None, description="file of word vectors in GloVe's text format, plain or gzipped"
    )


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


class Inference(section_of(GSPENHead)):  # type: ignore[misc]
    """Options of the head; see `gspen_ner.GSPENHead`.

    Example:
        >>> Inference(solver={"name": "frank_wolfe"}, max_steps=5).solver.schedule
        'line_search'
    """

    @model_validator(mode="before")
    @classmethod
    def _name_the_solver(cls, entries: Any) -> Any:
        if isinstance(entries, dict) and isinstance(entries.get("solver"), dict):
            entries = entries | {"solver": {"name": "mirror_descent"} | entries["solver"]}
        return entries


Term: Any = TERMS.entry(given=["num_labels"])


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
