"""The card of a model: its system, its data, its scores, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from gspen_ner.hosts.huggingface.config import GSPENConfig

SYSTEMS = {
    "unary": "a softmax over the labels of each word",
    "struct": "a linear-chain CRF",
    "spen": "a softmax over the labels of each word and a global score of all of them",
    "gspen": "a linear-chain CRF and a global score of whole label sequences (GSPEN)",
}
SPLITS, METRICS = ("train", "dev", "test"), ("precision", "recall", "f1")


def model_card(config: GSPENConfig) -> str:
    """Return the card as Markdown, after the hub's metadata.

    Data and scores come from `config.results`: `data`, a dictionary of splits and their sources, and
    `scores`, a dictionary of splits and their `f1`, `precision` and `recall`.
    """
    results = config.results
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="token-classification",
        tags=["gspen_ner", "named-entity-recognition", "token-classification"],
        model_name="gspen_ner",
        eval_results=_eval_results(results) or None,
    )
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(_body(config))))


def _eval_results(results: dict[str, Any]) -> list[EvalResult]:
    sources = results.get("data", {})
    return [
        EvalResult(
            task_type="token-classification",
            dataset_type=str(sources.get("train", "unknown")),
            dataset_name=str(sources.get(split, split)),
            dataset_split=split,
            metric_type=name,
            metric_name=f"{name} of whole entities (seqeval, strict)",
            metric_value=value,
        )
        for split, scores in _in_order(results.get("scores", {}), SPLITS)
        for name, value in _in_order(scores, METRICS)
    ]


def _in_order(entries: dict[str, Any], known: Sequence[str]) -> list[tuple[str, Any]]:
    """Return entries in their usual order: config.json sorts them by name."""
    return sorted(entries.items(), key=lambda entry: (*known, entry[0]).index(entry[0]))


def _body(config: GSPENConfig) -> Iterator[str]:
    encoder = f"a {config.encoder['model_type']} encoder" if config.encoder else "a BiLSTM-CNN"
    yield f"# A tagger of named entities: {encoder}, {SYSTEMS[config.system]}\n"
    if config.has_term:
        names = ", ".join(f"`{term['name']}`" for term in config.terms)
        yield f"Global terms: {names}.\n"
    if context := config.scorer.get("context_tokens"):
        yield (
            f"The encoder reads up to {context} pieces before and after each sentence, from the neighbouring "
            "sentences of its document: tag whole documents.\n"
        )
    types = ", ".join(f"`{name}`" for name in config.labels().types) if config.chain_labels else "none"
    yield f"Types of entities: {types}. The chain uses {config.scheme} inside; labels and logits are BIO.\n"
    results = config.results
    yield "## Data and scores\n"
    for split, source in _in_order(results.get("data", {}), SPLITS):
        yield f"- {split}: `{source}`"
    if not results.get("data"):
        yield "Not recorded."
    if results.get("scores"):
        yield "\n| whole entities (seqeval, strict) | precision | recall | F1 |\n|---|---|---|---|"
        for split, scores in _in_order(results["scores"], SPLITS):
            cells = " | ".join(f"{100 * scores[name]:.2f}" for name in METRICS)
            yield f"| {split} | {cells} |"
    yield "\n## Use\n"
    yield "```python\nfrom gspen_ner.hosts.huggingface import Tagger  # pip install gspen-ner\n"
    yield 'tagger = Tagger.load("PATH")  # a folder that holds these files'
    yield 'for sentence in tagger.tag([["Halden", "closed", "its", "offices"]]):'
    yield "    print(sentence.entities)  # with the confidence in each\n```\n"
    if config.encoder:
        yield "Or with transformers alone, by pieces (its scores are of tokens, not of whole entities):\n"
        yield "```python\nimport gspen_ner.hosts.huggingface  # registers the model"
        yield "from transformers import pipeline\n"
        yield 'tag = pipeline("token-classification", model="PATH", aggregation_strategy="simple")'
        yield 'tag("Halden left.")\n```'
