"""The command `gspen-ner evaluate`."""

from __future__ import annotations

from dataclasses import asdict

from gspen_ner.cli.shared import (
    GoldData,
    JsonFile,
    Model,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    check_gold,
    clear_errors,
    console,
    read_tagged,
    write_json,
)


@clear_errors
def evaluate(
    model: Model,
    data: GoldData,
    json_file: JsonFile = None,
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Score a model against gold tags: F1 (seqeval, strict), exact match, calibration of confidences.

    If the model has a global term, its base model (the CRF) is scored too, and the errors that the global
    term fixed and made are counted.

    Examples:
        gspen-ner evaluate runs/quickstart newswire:50:7

        gspen-ner evaluate runs/conll03_fast test.txt --json scores.json
    """
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.ner import metrics
    from gspen_ner.runs.tables import evaluation_summary, evaluation_table

    tagger = load_tagger(model)
    file = read_tagged(data, token_column, tag_column, scheme, strict)
    check_gold(data, file, tagger.labels.types)
    result = metrics.evaluate(tagger, file.sentences)
    console.print(evaluation_table(result, tagger.system, f"{data}: whole entities (seqeval, strict)"))
    for line in evaluation_summary(result, tagger.system):
        console.print(line, highlight=False)
    write_json(json_file, asdict(result))
