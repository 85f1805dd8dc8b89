"""Small models and small runs: they learn little, and fast."""

import gc
import json
import logging

import torch
import yaml
from transformers import TrainingArguments
from typer.testing import CliRunner

from gspen_ner.cli import app
from gspen_ner.hosts.huggingface.data import Collator, as_dataset
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification
from gspen_ner.labels import Labels
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.scorers import Vocabulary
from tests.helpers import Killed, content_of, killed_at, same_weights, weights_of

__all__ = ["Killed", "content_of", "killed_at", "same_weights", "weights_of"]

gc.freeze()  # accelerate collects garbage after every training: what is loaded by now is none
SENTENCES = generate_newswire(8, seed=1)
SIZES = {"word_size": 12, "character_size": 8, "filters": 8, "hidden": 16, "projection": 16}
TERMS = {
    "document": [{"name": "document"}],
    "convolution": [{"name": "convolution", "hidden": 8, "width": 3}],
    "padded_mlp": [{"name": "padded_mlp", "hidden": 8, "max_length": 12}],
    "sum": [{"name": "document"}, {"name": "convolution", "hidden": 8, "width": 3}],
}
BASES = {"gspen": "struct", "spen": "unary"}
RECIPE = {
    "system": "gspen",
    "seed": 3,
    "data": {"train": "newswire:8:1", "dev": "newswire:3:2", "test": "newswire:2:3"},
    "scorer": SIZES | {"input_dropout": 0.1, "output_dropout": 0.1},
    "base_training": {"epochs": 2, "batch_size": 8, "learning_rate": 0.02},
    "terms": [{"name": "document"}],
    "inference": {"max_steps": 5},
    "term_training": {"epochs": 2, "batch_size": 16, "learning_rate": 0.03},
}
_RUNNER = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"})


def make_labels(scheme="BIOES"):
    kinds = sorted({tag[2:] for sentence in SENTENCES for tag in sentence.tags if tag != "O"})
    return Labels.of_types(kinds, scheme)


def make_model(system="gspen", transitions="shared", dropout=0.0, scheme="BIOES", terms="document", seed=5):
    """A model with random weights, in evaluation mode."""
    vocabulary = Vocabulary.of_sentences([sentence.tokens for sentence in SENTENCES])
    dropouts = {"input_dropout": dropout, "output_dropout": dropout}
    structured = system in ("struct", "gspen")
    torch.manual_seed(seed)
    return GSPENForTokenClassification.from_vocabulary(
        vocabulary,
        make_labels("BIO").names,
        scheme=scheme,
        terms=TERMS[terms] if system in BASES else [],
        inference={"max_steps": 5},
        transitions=transitions if structured else "none",
        **SIZES,
        **dropouts,
    ).eval()


def make_batch(model, sentences=SENTENCES, with_labels=True):
    return Collator.of(model)(as_dataset(sentences, model.bio if with_labels else None).to_list())


def trainer_arguments(folder, **options):
    """Arguments of a Trainer that trains briefly, and says and saves nothing."""
    defaults = {
        "num_train_epochs": 1,
        "per_device_train_batch_size": 8,
        "report_to": [],
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 1,
    }
    return TrainingArguments(output_dir=str(folder), **defaults | options)


def stir(model, scale=0.3):
    """Let a new term, which is zero, say something."""
    with torch.no_grad():
        for weight in model.head.parameters():
            weight.add_(scale * torch.randn(weight.shape, generator=torch.Generator().manual_seed(7)))
    return model


def gspen_ner(*arguments, text=None):
    """The command, in this process."""
    result = _RUNNER.invoke(app, [str(argument) for argument in arguments], input=text)
    logging.getLogger("gspen_ner").handlers.clear()  # which a process of its own would end with
    return result


def merged(old, new):
    both = {
        key: merged(old[key], value) for key, value in new.items() if isinstance(value, dict) and key in old
    }
    return {**old, **new, **both}


def write_recipe(file, **changes):
    """The small recipe with some of its entries changed."""
    file.write_text(yaml.safe_dump(merged(RECIPE, changes)))
    return file


def train(folder, *options, **changes):
    """Train the changed small recipe; the run's folder is returned, its recipe lies beside it."""
    folder.parent.mkdir(exist_ok=True)
    recipe = write_recipe(folder.with_suffix(".yaml"), **changes)
    result = gspen_ner("train", recipe, "--output", folder, *options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return folder


def write_conll(file, sentences):
    """Sentences as a CoNLL file with documents."""
    lines, document = [], None
    for sentence in sentences:
        if sentence.document != document:
            lines += ["-DOCSTART- O", ""]
        document = sentence.document
        lines += [f"{token} {tag}" for token, tag in zip(sentence.tokens, sentence.tags, strict=True)]
        lines.append("")
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def results_of(folder):
    """What came out of a run, without times."""
    results = json.loads((folder / "results.json").read_text())
    del results["seconds_an_epoch"]
    return results


def metrics_of(folder):
    """The metrics of a run's epochs, without times."""
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in entry.items() if name != "seconds"}
        for entry in entries
        if "train_runtime" not in entry
    ]
