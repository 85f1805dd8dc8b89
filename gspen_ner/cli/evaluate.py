"""`gspen-ner evaluate`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from gspen_ner.cli.shared import (
    JsonFile,
    Model,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    check_writable,
    clear_errors,
    column,
    console,
)


@clear_errors
def evaluate(
    model: Model,
    data: Annotated[str, typer.Argument(help="A tagged file, a dataset, hub:NAME:SPLIT or newswire:N:SEED.")],
    json_file: JsonFile = None,
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Score a model against gold tags: CoNLL F1 (seqeval, strict), exact match, calibration.

    The base model (CRF) alone stands beside the model with its global term, with what that changed.

    Examples:
        gspen-ner evaluate runs/quickstart newswire:50:7

        gspen-ner evaluate runs/conll03_fast test.txt --json scores.json
    """
    check_writable(json_file, "--json")
    from gspen_ner.experiments.tables import evaluation_summary, evaluation_table
    from gspen_ner.files import write_whole
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.tasks import ner_metrics
    from gspen_ner.tasks.ner_sources import read_source

    tagger = load_tagger(model)
    file = read_source(
        data, token_column=column(token_column), tag_column=column(tag_column), scheme=scheme, strict=strict
    )
    if not file.sentences:
        raise ValueError(f"{data}: no sentences to evaluate on")
    if file.repaired:
        console.print(f"repaired the tags of {file.repaired} sentences", style="yellow")
    unknown = sorted({t[2:] for s in file.sentences for t in s.tags if t != "O"} - set(tagger.labels.types))
    if unknown:
        console.print(f"types the model does not know count as missed: {', '.join(unknown)}", style="yellow")
    result = ner_metrics.evaluate(tagger, file.sentences)
    console.print(evaluation_table(result, tagger.system, f"{data}: whole entities (seqeval, strict)"))
    for line in evaluation_summary(result, tagger.system):
        console.print(line, highlight=False)
    if json_file is not None:
        write_whole(json_file, json.dumps(asdict(result), indent=2) + "\n")
