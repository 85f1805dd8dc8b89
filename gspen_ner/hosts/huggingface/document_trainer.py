"""Training by `transformers.Trainer`: whole documents in a batch, and learning rates of a model's parts."""

from __future__ import annotations

from typing import Any

import datasets
from torch import nn
from torch.utils.data import DataLoader
from transformers import Trainer

from gspen_ner.hosts.huggingface.data import EpochBatches, check_has_documents, lengths_of
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.training.documents import batches_of_documents, prediction_batches, rows_of_documents


class EpochLoader(DataLoader):
    """A loader that tells its batch sampler the number of the epoch."""

    batch_sampler: EpochBatches

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch; Trainer calls it before each."""
        self.batch_sampler.set_epoch(epoch)


class DocumentTrainer(Trainer):
    """A Trainer with batches of similar length or, if the model's term scores documents, of whole documents.

    It reads rows of `tokens` (or `mentions`) and, for documents, `document`; see `Collator`. Where several
    processes train together, `per_device_train_batch_size` times their number is divided among them.

    Example:
        >>> import tempfile
        >>> from transformers import TrainingArguments
        >>> from gspen_ner.scorers import Vocabulary
        >>> from gspen_ner.hosts.huggingface import Collator, as_dataset
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> from gspen_ner.ner.files import TaggedSentence
        >>> sentences = [TaggedSentence(("Ann", "left"), ("B-PER", "O"), document) for document in (0, 1, 1)]
        >>> rows = as_dataset(sentences, model.bio)
        >>> options = {"remove_unused_columns": False, "report_to": [], "use_cpu": True}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     arguments = TrainingArguments(folder, per_device_train_batch_size=1, **options)
        ...     model = model.with_terms(["document"])
        ...     trainer = DocumentTrainer(model, arguments, Collator.of(model), rows)
        ...     sorted(batch["documents"].tolist() for batch in trainer.get_train_dataloader())
        [[0], [1, 1]]
    """

    model: GSPENForTokenClassification
    train_dataset: datasets.Dataset
    versions = 1
    """Number of versions of its rows that the training data holds; see `EpochBatches`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.args._n_gpu = min(self.args.n_gpu, 1)  # a batch cannot be divided among devices of one process

    def get_train_dataloader(self) -> DataLoader:
        """Return the batches of an epoch; accelerate must not divide them once more."""
        documents, lengths = self._rows(self.train_dataset, len(self.train_dataset) // self.versions)
        rank, world = self.args.process_index, self.args.world_size
        size = self.args.per_device_train_batch_size * world
        batches = EpochBatches(documents, lengths, size, self.args.seed, self.versions, rank, world)
        return EpochLoader(self.train_dataset, batch_sampler=batches, collate_fn=self.data_collator)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Return the batches of an evaluation, also of whole documents; in one process only."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str) and isinstance(self.eval_dataset, dict):
            dataset = self.eval_dataset[dataset]
        documents, lengths = self._rows(dataset, len(dataset))
        return self._loader(
            dataset, prediction_batches(documents, lengths, self.args.per_device_eval_batch_size)
        )

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader:
        """Return the batches of a prediction, whose outputs come in the order of the rows."""
        documents, lengths = self._rows(test_dataset, len(test_dataset))
        together = rows_of_documents(range(len(lengths)) if documents is None else documents)
        if [row for rows in together for row in rows] != list(range(len(lengths))):
            raise ValueError("the sentences of a document must follow each other; sort the data by document")
        return self._loader(
            test_dataset, batches_of_documents(together, lengths, self.args.per_device_eval_batch_size)
        )

    def _loader(self, dataset: datasets.Dataset, batches: list[list[int]]) -> DataLoader:
        if self.args.world_size > 1:
            raise ValueError("evaluate in one process: documents cannot be divided among several")
        loader = DataLoader(dataset, batch_sampler=batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)

    def _rows(self, dataset: datasets.Dataset, count: int) -> tuple[list[int] | None, list[int]]:
        """Return the document of each row if sentences must stay together, and its number of tokens."""
        lengths = lengths_of(dataset.select(range(count)))
        if not self.model.couples_documents:
            return None, lengths
        check_has_documents(dataset)
        return dataset.select_columns(["document"])[:count]["document"], lengths


def parameter_groups(
    model: GSPENForTokenClassification,
    encoder: float,
    output: float | None = None,
    transitions: float | None = None,
    term: float | None = None,
    weight_decay: float = 0.0,
) -> list[dict[str, Any]]:
    """Return parameter groups for any torch optimizer, without frozen parameters.

    Pretrained weights need a small learning rate, new weights a large one.

    Args:
        model: the model to train.
        encoder: learning rate of all below a transformer's output layer, or of the BiLSTM-CNN.
        output: learning rate of a transformer's output layer; defaults to `encoder`.
        transitions: learning rate of the scores of neighbouring labels; defaults to `encoder`. With a
            pretrained encoder's rate they would hardly move: 100 to 1,000 times as much is usual.
        term: learning rate of the global term; defaults to `encoder`.
        weight_decay: weight decay of matrices, default 0; biases, normalisation, transitions and term have
            none.

    Example:
        >>> import torch
        >>> from gspen_ner.scorers import Vocabulary
        >>> vocabulary = Vocabulary.of_sentences([["Ann", "left"]], minimum_count=1)
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = GSPENForTokenClassification.from_vocabulary(vocabulary, names, hidden=4)
        >>> groups = parameter_groups(model.with_terms(["document"]), 3e-5, transitions=1e-2, term=5e-2)
        >>> optimizer = torch.optim.AdamW(groups)
        >>> [group["lr"] for group in optimizer.param_groups]
        [3e-05, 0.01, 0.05]
    """
    output, transitions, term = (encoder if rate is None else rate for rate in (output, transitions, term))
    scorer = model.scorer
    base = getattr(getattr(scorer, "encoder", None), "base_model", scorer)
    new = [] if scorer.crf is None else list(scorer.crf.parameters())
    known = {id(weight) for weight in new}
    inner = [weight for weight in base.parameters() if id(weight) not in known]
    known |= {id(weight) for weight in inner}
    outer = [weight for weight in scorer.parameters() if id(weight) not in known]
    groups = [
        *_decayed(inner, encoder, weight_decay),
        *_decayed(outer, output, weight_decay),
        {"params": new, "lr": transitions, "weight_decay": 0.0},
        {"params": list(model.head.parameters()), "lr": term, "weight_decay": 0.0},
    ]
    for group in groups:
        group["params"] = [weight for weight in group["params"] if weight.requires_grad]
    return [group for group in groups if group["params"]]


def _decayed(weights: list[nn.Parameter], rate: float, weight_decay: float) -> list[dict[str, Any]]:
    """Return one group or, with weight decay, a group of matrices and a group of others without decay."""
    if not weight_decay:
        return [{"params": weights, "lr": rate, "weight_decay": 0.0}]
    matrices = [weight for weight in weights if weight.dim() > 1]
    others = [weight for weight in weights if weight.dim() <= 1]
    return [
        {"params": matrices, "lr": rate, "weight_decay": weight_decay},
        {"params": others, "lr": rate, "weight_decay": 0.0},
    ]
