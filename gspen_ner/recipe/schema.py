"""The entries of recipes: data, a base model, its training, and a global term on top."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gspen_ner.components import Section, section_of
from gspen_ner.decode import DECODER, Decoder
from gspen_ner.head import GSPENHead
from gspen_ner.labels import SCHEME, Scheme
from gspen_ner.ner.files import FileScheme
from gspen_ner.scorers import BiLSTMCNN
from gspen_ner.scorers.bilstm_cnn import Transitions
from gspen_ner.terms import TERMS
from gspen_ner.training.score_sources import SCORE_SOURCES, Plain
from gspen_ner.training.system import SystemName


class Data(Section):
    """Sources of the sentences; see `gspen_ner.ner.sources`."""

    train: str = Field(description="training data")
    dev: str = Field(description="development data, by which the best model is chosen")
    test: str | None = Field(None, description="test data, for the reported scores; optional")
    token_column: int | str = Field(
        0, description="column of the tokens: a number in a file of columns, a name in a dataset"
    )
    tag_column: int | str = Field(
        -1, description="column of the tags: a number in a file of columns, a name in a dataset"
    )
    scheme: FileScheme = Field("auto", description="tagging scheme of the data; auto detects it")
    strict: bool = Field(False, description="refuse illegal tag sequences instead of repairing them")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the training documents that is used")


CHAIN_SCHEME: Any = Field(SCHEME, description="tagging scheme of the chain's labels")
_TRANSITIONS = section_of(BiLSTMCNN).model_fields["transitions"]


class Scorer(section_of(BiLSTMCNN)):  # type: ignore[misc]
    """The BiLSTM-CNN: its options, and what is read from the data; see `gspen_ner.scorers.BiLSTMCNN`."""

    scheme: Scheme = CHAIN_SCHEME
    transitions: Transitions = Field(_TRANSITIONS.default, description=_TRANSITIONS.description)
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
    batch_size: int = Field(
        16, ge=1, description="sentences of an update; with a document term, about so many"
    )
    optimizer: Literal["adam", "sgd"] = Field("adam", description="how weights are updated")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of the first update")
    output_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of a transformer's output layer; defaults to learning_rate"
    )
    transitions_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of transition scores; defaults to learning_rate"
    )
    weight_decay: float = Field(0.0, ge=0, description="weight decay of the matrices of the base model")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd")
    nesterov: bool = Field(False, description="use Nesterov's momentum in sgd")
    schedule: Literal["constant", "linear", "inverse_time"] = Field(
        "constant", description="learning-rate schedule"
    )
    decay: float = Field(0.05, ge=0, description="decay of inverse_time: rate / (1 + decay * epoch)")
    warmup: float = Field(
        0.0, ge=0, lt=1, description="share of the updates in which the learning rate rises"
    )
    precision: Literal["float32", "bf16", "fp16"] = Field(
        "float32", description="number format of the encoder's computations"
    )
    clip: float = Field(5.0, ge=0, description="largest norm of a gradient; 0 for no limit")
    average: float = Field(
        0.0, ge=0, lt=1, description="decay of the moving average of the weights; 0 for none"
    )
    patience: int | None = Field(
        None, ge=1, description="epochs without a better F1 on dev before training stops; default: never"
    )
    loggers: tuple[str, ...] = Field((), description="more loggers of Trainer, such as tensorboard")


ScoreSource: Any = SCORE_SOURCES.entry()
SCORES: Any = Field(
    SCORE_SOURCES.section_for(Plain()), description="frozen base: which scores the term learns from"
)


class TermTraining(Training):
    """How the global term is trained on top of the base model.

    Example:
        >>> TermTraining(scores={"name": "cross_fit"}).scores.folds
        2
    """

    freeze: Literal["base", "none"] = Field("base", description="train the term alone, or everything")
    base_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of the base model if it is not frozen"
    )
    scores: ScoreSource = SCORES

    @model_validator(mode="before")
    @classmethod
    def _read_old_entries(cls, entries: Any) -> Any:
        """Return entries of version 0.1 (dropout_draws, folds, fold_epochs, folds_of) as a score source."""
        old = ("dropout_draws", "folds", "fold_epochs", "folds_of")
        if not isinstance(entries, dict) or not entries.keys() & set(old):
            return entries
        new = dict(entries)
        draws, folds, epochs, models_of = (new.pop(key, None) for key in old)
        if draws and folds:
            raise ValueError("give dropout_draws or folds, not both")
        if models_of is not None and not folds:
            raise ValueError("folds_of needs folds")
        new["scores"] = {"name": "plain"}
        if folds:
            new["scores"] = {"name": "cross_fit", "folds": folds, "epochs": epochs, "models_of": models_of}
        elif draws:
            new["scores"] = {"name": "dropout_draws", "draws": draws}
        return new

    @model_validator(mode="after")
    def _check(self) -> TermTraining:
        check_scores(self.scores, self.freeze)
        return self


def check_scores(scores: Any, freeze: str) -> None:
    """Refuse scores that are computed beforehand for a base model that still changes."""
    if freeze == "none" and scores.name != "plain":
        raise ValueError(f"scores: {scores.name} needs freeze: base")


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


Term: Any = TERMS.entry(given=["labels", "num_labels"])


class Experiment(Section):
    """Entries of all recipes.

    Example:
        >>> Experiment(data={"train": "newswire:40:1", "dev": "newswire:5:2"}).seed
        1
    """

    description: str = Field("", description="purpose of the experiment")
    seed: int = Field(1, ge=0, description="seed of everything random")
    trials: int = Field(1, ge=1, description="number of repetitions, each with the next seed")
    drop_worst: int = Field(
        0, ge=0, description="number of trials to leave out: those whose base model is worst on dev"
    )
    data: Data
    base: str | None = Field(
        None, description="run or model folder of a trained base model; by default one is trained"
    )
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
    system: SystemName = Field("gspen", description="unary, struct (a CRF), spen or gspen")
    base_training: Training = Training()
    term_training: TermTraining = TermTraining()
    decoder: Decoder = Field(
        DECODER,
        description="viterbi: entities of the most likely labelling; spans: all entities with a probability "
        "above a threshold that is chosen on dev; epochs are always compared by viterbi, which is faster",
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
    def scheme(self) -> Scheme:
        """Tagging scheme of the chain's labels."""
        return self.scorer.scheme


class TransformerRecipe(TrainedHere):
    """An experiment with a pretrained transformer.

    Example:
        >>> data = {"train": "newswire:40:1", "dev": "newswire:5:2"}
        >>> TransformerRecipe(encoder="bert-base-cased", system="struct", data=data).scheme
        'BIOES'
    """

    encoder: str = Field(description="folder of the transformer, or its name on the hub")
    start: Literal["encoder", "classifier"] = Field(
        "encoder", description="what the tagger starts from: the encoder, or a token classifier as a whole"
    )
    scheme: Scheme = CHAIN_SCHEME
    window: int | None = Field(
        None, ge=8, description="number of pieces that are read at once; defaults to the encoder's limit"
    )

    context_tokens: int = Field(
        0,
        ge=0,
        description="number of pieces of the document's neighbouring sentences that are read before and "
        "after each sentence, at most",
    )

    @model_validator(mode="after")
    def _fits_the_classifier(self) -> TransformerRecipe:
        if self.start == "classifier":
            if self.scheme != SCHEME or self.window is not None or self.context_tokens:
                raise ValueError("start: classifier determines scheme, window and context; remove them")
            if not self.structured:
                raise ValueError(f"start: a classifier becomes a struct or gspen system, not {self.system}")
        return self

    @field_validator("encoder", mode="before")
    @classmethod
    def _is_named(cls, name: Any) -> Any:
        if not name:
            raise ValueError("name a folder or a model of the hub, as in --set encoder=bert-base-cased")
        return name


def check_experiment(recipe: Experiment, system: str) -> None:
    """Refuse entries that contradict each other."""
    if system in ("spen", "gspen") and not recipe.terms:
        raise ValueError(f"terms: system {system} needs at least one")
    if recipe.drop_worst >= recipe.trials:
        raise ValueError(f"drop_worst: {recipe.drop_worst} of {recipe.trials} trials would leave none")
    if recipe.base is not None and recipe.trials > 1:
        raise ValueError("base: trials train base models of their own; leave it out")
