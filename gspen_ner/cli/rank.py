"""The command `gspen-ner rank`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gspen_ner.cli.shared import (
    ConllTokenColumn,
    CorpusFormat,
    CorpusInput,
    DocumentColumn,
    Model,
    OutputFile,
    WordsColumn,
    clear_errors,
    errors,
    write_output,
)


@clear_errors
def rank(
    model: Model,
    data: CorpusInput,
    by: Annotated[
        Literal["entropy", "margin", "span"],
        typer.Option(
            help="Uncertainty measure: entropy of the labellings, margin between the two best labellings, or "
            "one minus the confidence in the least certain entity (span)."
        ),
    ] = "entropy",
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Divide the entropy by the number of tokens.")
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Write only the N most uncertain.", show_default="all"),
    ] = None,
    output: OutputFile = None,
    output_format: Annotated[
        Literal["jsonl", "csv"] | None,
        typer.Option(
            "--format", help="Output format.", show_default="csv if the output ends in .csv, otherwise jsonl"
        ),
    ] = None,
    input_format: CorpusFormat = "auto",
    column: WordsColumn = None,
    document_column: DocumentColumn = None,
    token_column: ConllTokenColumn = 0,
) -> None:
    """Rank sentences by how uncertain a model is about them, to choose what to annotate next.

    The input is plain text, CoNLL columns, JSON lines or parquet; tags are ignored. The uncertainty is that
    of the distribution that the model decodes, including its global term. Each sentence is written with its
    predicted entities, for correction: tokens with BIO tags, and entities with their character positions in
    `text`. With --top, memory does not grow with the corpus.

    Examples:
        gspen-ner rank runs/quickstart pool.txt --top 100 --output next.jsonl

        gspen-ner rank runs/quickstart pool.parquet --by margin --top 500 --output next.csv

        gspen-ner rank runs/quickstart test.conll --by entropy --per-token --top 20
    """
    from rich.progress import track

    from gspen_ner.corpora.plan import LONGEST_DOCUMENT, PART_ROWS, make_plan
    from gspen_ner.corpora.ranking import as_csv, most_uncertain, rate
    from gspen_ner.corpora.reading import open_corpus
    from gspen_ner.corpora.rows import Columns
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.ner.predictions import json_lines

    if per_token and by != "entropy":
        raise ValueError(f"--per-token needs --by entropy, got {by}")
    tagger = load_tagger(model)
    columns = Columns(column, document_column, entities="", token=token_column)  # adds no column
    with errors.status("checking the corpus"):
        files = open_corpus(data, input_format, columns)
        plan = make_plan(files, PART_ROWS, LONGEST_DOCUMENT)
    disable = not errors.is_terminal
    parts = track(plan.parts, "ranking", console=errors, transient=True, disable=disable)
    sentences = (s for part in parts for s in rate(tagger, files, part, by, per_token, LONGEST_DOCUMENT))
    ranked = most_uncertain(sentences, top)
    if output_format is None:
        output_format = "csv" if output is not None and output.suffix == ".csv" else "jsonl"
    write_output(output, as_csv(ranked) if output_format == "csv" else json_lines(ranked))
